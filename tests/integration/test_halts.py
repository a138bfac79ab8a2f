"""Outputs that Apache Kafka refuses: the partition stands still, says so, loses nothing, and goes on by itself."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError
from command_line import engram_stream
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from turn_records import bad_message, conversation_in, turn_message, verdict_key
from worker_process import WorkerProcess, wait_until

from workers.alerting.catalogue import ALERTS
from workers.metrics import catalogue as m
from workers.metrics.labels import HaltReason
from workers.outputs.dlq import PREFIX
from workers.processing.policy import Policy
from workers.testing.kafka_io import Message, Received, committed_offsets, end_offsets, produce, read_to_end
from workers.testing.kafka_topics import TopicFactory
from workers.testing.local_kafka import LocalKafka
from workers.topic_catalogue import load_catalogue

pytestmark = pytest.mark.kafka

PARTITIONS = 2
STRUCK, SPARED = (conversation_in(partition, PARTITIONS) for partition in range(PARTITIONS))
"""Conversations of the partition that halts, and of the one beside it."""


@pytest.fixture(scope="module")
def secured() -> Iterator[LocalKafka]:
    with LocalKafka(authorizer=True) as cluster:
        yield cluster


@pytest.fixture
def topics(secured: LocalKafka) -> Iterator[TopicFactory]:
    with TopicFactory(secured.bootstrap_servers) as factory:
        factory.create(*(topic.name for topic in load_catalogue()), partitions=PARTITIONS)
        yield factory


def as_user(secured: LocalKafka, folder: Path) -> dict[str, Any]:
    """Return the settings by which a process is the user ``worker``."""
    password = folder / "password"
    password.write_text(secured.users["worker"], encoding="utf-8")
    return {
        "kafka__security_protocol": "SASL_SSL",
        "kafka__sasl_mechanism": "SCRAM-SHA-512",
        "kafka__sasl_username": "worker",
        "kafka__sasl_password_file": password,
        "kafka__ssl_ca_file": secured.certificate,
    }


async def may_write(secured: LocalKafka, topic: str) -> bool:
    producer = AIOKafkaProducer(
        bootstrap_servers=secured.secured_bootstrap_servers,
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(cafile=secured.certificate),
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="worker",
        sasl_plain_password=secured.users["worker"],
    )
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"probe")
    except TopicAuthorizationFailedError:
        return False
    finally:
        await producer.stop()
    return True


def deny_writes(secured: LocalKafka, topics: TopicFactory, name: str) -> None:
    """Deny writes to the topic and return when it holds, without writing to it: denials come into force in order."""
    probe = topics.create_plain("probe")
    for topic in (topics.name(name), probe):
        secured.access.deny_write("worker", topic)
    wait_until(lambda: not asyncio.run(may_write(secured, probe)), "the denial is in force")


def send(kafka: str, topic: str, *messages: Message) -> dict[int, int]:
    """Send ``messages`` to the partitions of their keys and return the end of each partition."""
    asyncio.run(produce(kafka, topic, messages))
    return asyncio.run(end_offsets(kafka, topic))


def committed(kafka: str, worker: WorkerProcess, topic: str) -> dict[int, int]:
    return asyncio.run(committed_offsets(kafka, worker.group, topic))


def everything(kafka: str, topic: str) -> list[Received]:
    return asyncio.run(read_to_end(kafka, topic))


def halted_for(worker: WorkerProcess, topic: str, partition: int) -> set[str]:
    """Return the reasons for which ``engram_partition_halted`` is 1."""
    return {
        dict(labels)["reason"]
        for labels, value in worker.series("engram_partition_halted").items()
        if value == 1 and (dict(labels)["topic"], dict(labels)["partition"]) == (topic, str(partition))
    }


Scrape = dict[str, float]


def scrape(worker: WorkerProcess) -> Scrape:
    """Return the samples that the alert PartitionHalted reads."""
    return {
        series_name(metric.name, labels): value
        for metric in (m.PARTITION_HALTED, m.LAG_RECORDS, m.COMMITTED_OFFSET)
        for labels, value in worker.series(metric.name).items()
    }


def series_name(metric: str, labels: Iterable[tuple[str, str]]) -> str:
    matchers = (f'{name}="{value}"' for name, value in sorted(labels))
    return f"{metric}{{{', '.join(matchers)}}}"


def assert_prometheus_sees_the_halt(folder: Path, topic: str, before: Scrape, halted: Scrape, after: Scrape) -> None:
    """Evaluate PartitionHalted on five minutes of each of the scrapes, one after the other."""
    expression = ALERTS["PartitionHalted"].expression
    assert expression is not None
    firing = [{"labels": f'{{topic="{topic}", partition="0"}}', "value": 1}]
    values = {name: [before.get(name), halted.get(name), after.get(name)] for name in before | halted | after}
    document = {
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": " ".join("_x4" if value is None else f"{value}x4" for value in phases)}
                    for name, phases in values.items()
                ],
                "promql_expr_test": [
                    {"expr": expression(Policy()), "eval_time": minute, "exp_samples": samples}
                    for minute, samples in (("4m", []), ("9m", firing), ("14m", []))
                ],
            }
        ],
    }
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    promtool = shutil.which("promtool")
    assert promtool is not None, "promtool is missing: apt-get install -y --no-install-recommends prometheus"
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("denied", "reason"), [("turns-dlq", HaltReason.DEAD_LETTER), ("fidelity", HaltReason.OUTPUT)])
def test_a_refused_write_halts_its_partition_until_it_is_allowed_again(
    denied: str, reason: HaltReason, secured: LocalKafka, topics: TopicFactory, tmp_path: Path
) -> None:
    kafka, turns = secured.bootstrap_servers, topics.name("turns")
    bad = [bad_message(STRUCK, str(number)) for number in range(3)]
    struck = [turn_message(STRUCK, f"t-{number}") for number in range(20)]
    spared = [turn_message(SPARED, f"t-{number}") for number in range(20)]
    settings = as_user(secured, tmp_path)
    with WorkerProcess(secured.secured_bootstrap_servers, topics.prefix, tmp_path, **settings) as worker:
        worker.wait_ready()
        good_before = send(kafka, turns, *struck[:5], *spared[:5])
        wait_until(lambda: committed(kafka, worker, turns) == good_before, "the first turns are committed")

        before = scrape(worker)

        deny_writes(secured, topics, denied)
        ends = send(kafka, turns, *struck[5:10], *bad, *struck[10:])
        wait_until(lambda: halted_for(worker, turns, 0) == {reason}, "the partition halts")
        if denied == "turns-dlq":
            ends = send(kafka, turns, *spared[5:])
            wait_until(lambda: committed(kafka, worker, turns)[1] == ends[1], "the partition beside it goes on")
        halted = scrape(worker)
        assert committed(kafka, worker, turns)[0] <= good_before[0] + 5
        assert (worker.probe("/healthz"), worker.process.poll()) == (200, None)
        loud = re.findall(r"^\S+ \S+ ERROR .*$", worker.log(), re.MULTILINE)
        refused = f"{topics.name(denied)} refuses the output: TopicAuthorizationFailedError"
        assert [line.split(": ", 1)[1].split(";")[0] for line in loud] == [
            f"{turns}-0 halted ({reason}), nothing is lost: {refused}"
        ]

        secured.access.allow_write("worker", topics.name(denied))
        if denied != "turns-dlq":
            ends = send(kafka, turns, *spared[5:])
        wait_until(lambda: committed(kafka, worker, turns) == ends, "everything is committed")
        wait_until(lambda: halted_for(worker, turns, 0) == set(), "the gauge falls")
        wait_until(lambda: worker.metric("engram_lag_records") == 0, "the lag is 0")
        assert_prometheus_sees_the_halt(tmp_path, turns, before, halted, scrape(worker))
        assert worker.metric("engram_conservation_difference", topic=turns) == 0
        assert worker.terminate() == 0

    letters = everything(kafka, topics.name("turns-dlq"))
    assert [(letter.key, letter.value) for letter in letters] == [(record.key, record.value) for record in bad]
    verdicts = everything(kafka, topics.name("fidelity"))
    wanted = [verdict_key(name, f"t-{number}") for name in (STRUCK, SPARED) for number in range(20)]
    assert sorted(verdict.key or b"" for verdict in verdicts) == sorted(wanted)


def test_an_erasure_that_may_not_write_is_told_in_one_line(
    secured: LocalKafka, topics: TopicFactory, tmp_path: Path
) -> None:
    deny_writes(secured, topics, "turns")
    servers, settings = secured.secured_bootstrap_servers, as_user(secured, tmp_path)
    done = engram_stream(servers, topics.prefix, "erase", f"acme|{STRUCK}", **settings)
    assert (done.returncode, done.stdout) == (5, "")
    assert "not authorized (TopicAuthorizationFailedError)" in done.stderr
    assert done.stderr.count("\n") == 1


def alter(kafka: str, topic: str, setting: str, value: str) -> None:
    change = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": kafka})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(timeout=30)


def test_verdicts_too_large_become_letters_and_fifty_in_a_row_halt_until_the_limit_is_raised(
    kafka: str, kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    kafka_topics.create(*(topic.name for topic in load_catalogue() if topic.name != "fidelity"), partitions=1)
    kafka_topics.create("fidelity", partitions=1, max_message_bytes="900")
    turns, rng = kafka_topics.name("turns"), Random(5)
    small = [turn_message("c-1", f"s-{number}") for number in range(30)]
    # Random, so that no compression makes it fit.
    large = [
        turn_message("c-1", f"l-{number}", producer={"service": "chat", "path": rng.randbytes(450).hex()})
        for number in range(63)
    ]
    with WorkerProcess(kafka, kafka_topics.prefix, tmp_path) as worker:
        worker.wait_ready()
        # A batch of small verdicts is too large as well: together with a large one, and by itself.
        ends = send(kafka, turns, *small[:10], *large[:3], *small[10:20])
        wait_until(lambda: committed(kafka, worker, turns) == ends, "single ones do not halt")
        ends = send(kafka, turns, *large[3:], *small[20:])
        wait_until(lambda: halted_for(worker, turns, 0) == {HaltReason.OURS_IN_A_ROW}, "the partition halts")
        wait_until(lambda: len(everything(kafka, kafka_topics.name("turns-dlq"))) >= 53, "fifty letters in a row")
        assert worker.probe("/healthz") == 200
        assert committed(kafka, worker, turns)[0] <= 23 + 50

        alter(kafka, kafka_topics.name("fidelity"), "max.message.bytes", "1048576")
        wait_until(lambda: committed(kafka, worker, turns) == ends, "everything is committed")
        dead = {"topic": turns, "reason": "output_too_large", "class": "ours"}
        wait_until(lambda: worker.metric("engram_dead_letters_total", **dead) == 53, "the letters are counted")
        assert worker.metric("engram_records_total", topic=turns, end="processed") == 40
        assert worker.metric("engram_conservation_difference", topic=turns) == 0
        assert worker.terminate() == 0

    letters = everything(kafka, kafka_topics.name("turns-dlq"))
    assert [letter.value for letter in letters] == [record.value for record in large[:53]]
    assert {dict(letter.headers)[PREFIX + "reason"] for letter in letters} == {b"output_too_large"}
    wanted = [verdict_key("c-1", f"s-{n}") for n in range(30)] + [verdict_key("c-1", f"l-{n}") for n in range(53, 63)]
    verdicts = everything(kafka, kafka_topics.name("fidelity"))
    assert sorted({verdict.key or b"" for verdict in verdicts}) == sorted(wanted)
