"""``engram-stream generate`` on Apache Kafka: what it says it published is what lies in the topics."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from workers.config import KafkaSettings
from workers.errors import ConfigurationError
from workers.keys import partition_of
from workers.testing.kafka_io import end_offsets, read_to_end
from workers.testing.kafka_topics import TopicFactory
from workers.testing.local_kafka.ports import free_ports
from workers.testing.traffic import BadKind, TrafficPlan
from workers.testing.traffic.publishing import Published, publish

pytestmark = pytest.mark.kafka
COMMAND = Path(sys.executable).with_name("engram-stream")


async def _start(bootstrap_servers: str, prefix: str, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        COMMAND,
        "generate",
        "--format=json",
        f"--bootstrap-servers={bootstrap_servers}",
        *arguments,
        env=os.environ | {"ENGRAM_TOPICS__PREFIX": prefix},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def _run(bootstrap_servers: str, prefix: str, *arguments: str) -> tuple[int | None, str, str]:
    process = await _start(bootstrap_servers, prefix, *arguments)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_the_summary_counts_what_lies_in_the_topics_by_the_end_each_record_must_come_to(
    kafka: str, kafka_topics: TopicFactory
) -> None:
    kafka_topics.create("turns", "state-writes", partitions=3)
    arguments = ("--turns=800", "--rate=0", "--seed=3", "--bad=0.1", "--state-writes=0.3")
    code, out, err = await _run(kafka, kafka_topics.prefix, *arguments)
    assert code == 0, err
    summary: dict[str, Any] = json.loads(out)

    expected = Published()
    plan = TrafficPlan(seed=3, bad_share=0.1, state_write_share=0.3, topic_prefix=kafka_topics.prefix)
    for record in plan.records(800):
        expected.add(record)
    assert summary | {"seconds": 0.0} == expected.as_dict()
    assert sum(summary["expected"][kafka_topics.name("turns")].values()) == 800
    assert summary["expected_dead_letters"][kafka_topics.name("turns")]
    for name in ("turns", "state-writes"):
        lying = sum((await end_offsets(kafka, kafka_topics.name(name))).values())
        assert lying == sum(summary["expected"][kafka_topics.name(name)].values())


async def test_records_lie_byte_for_byte_in_order_in_the_partition_of_their_key(
    kafka: str, kafka_topics: TopicFactory
) -> None:
    kafka_topics.create("turns", "state-writes", partitions=3)
    plan = TrafficPlan(
        seed=8, bad_share=0.3, bad_kinds=tuple(BadKind), state_write_share=1.0, topic_prefix=kafka_topics.prefix
    )
    records = list(plan.records(150))
    published = await publish(records, KafkaSettings(bootstrap_servers=kafka))
    assert published.records == len(records)
    for name in ("turns", "state-writes"):
        sent, lying = defaultdict(list), defaultdict(list)
        for record in records:
            if record.topic == kafka_topics.name(name):
                sent[record.key].append((record.value, record.headers))
        for received in await read_to_end(kafka, kafka_topics.name(name)):
            lying[received.key].append((received.value, received.headers))
            assert received.key is None or received.partition == partition_of(received.key, 3)
        # Records without a key go anywhere, so only their number is kept.
        assert Counter(sent.pop(None, [])) == Counter(lying.pop(None, []))
        assert lying == sent


async def test_an_interrupt_ends_cleanly_and_the_summary_still_adds_up(kafka: str, kafka_topics: TopicFactory) -> None:
    kafka_topics.create("turns", "state-writes")
    process = await _start(kafka, kafka_topics.prefix, "--rate=300")
    assert process.stderr is not None
    first = await asyncio.wait_for(process.stderr.readline(), 60)
    assert b"records acknowledged" in first
    process.send_signal(signal.SIGINT)
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, err.decode()
    lying = sum((await end_offsets(kafka, kafka_topics.name("turns"))).values())
    assert json.loads(out)["records"] == lying > 0


async def test_the_rate_is_kept(kafka: str, kafka_topics: TopicFactory) -> None:
    kafka_topics.create("turns")
    plan = TrafficPlan(seed=1, topic_prefix=kafka_topics.prefix)
    published = await publish(plan.records(41), KafkaSettings(bootstrap_servers=kafka), rate=100)
    assert published.records == 41
    assert published.seconds >= 0.4


async def test_a_missing_topic_is_named_with_the_command_that_creates_it_and_is_not_created(
    kafka: str, kafka_topics: TopicFactory
) -> None:
    plan = TrafficPlan(topic_prefix=kafka_topics.prefix)
    with pytest.raises(ConfigurationError, match=r"turns does not exist.*engram-stream topics apply"):
        await publish(plan.records(1), KafkaSettings(bootstrap_servers=kafka))
    with pytest.raises(LookupError):
        await read_to_end(kafka, kafka_topics.name("turns"))


async def test_an_unreachable_kafka_is_told_in_one_line_with_exit_code_5() -> None:
    code, out, err = await _run(f"127.0.0.1:{free_ports(1)[0]}", "", "--turns=1")
    assert (code, out) == (5, "")
    assert err.count("\n") == 1
    assert "nothing listens there" in err
