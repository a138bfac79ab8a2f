"""How a worker ends: by SIGTERM in the middle of its work, with a sink that is gone, and under Faust's own command."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from accounting import PARTITIONS, check_all_outputs, check_commits, plan_with_one_percent_of_each_kind
from confluent_kafka.admin import AdminClient
from topic_reading import committed_and_end, count_records, open_offsets
from traffic_sending import send
from worker_process import WorkerProcess

from workers.testing.kafka_topics import TopicFactory
from workers.topic_catalogue import load_catalogue
from workers.transport.process import GRACE_SECONDS

pytestmark = pytest.mark.kafka


@pytest.fixture
def topics(kafka_topics: TopicFactory) -> TopicFactory:
    kafka_topics.create(*(topic.name for topic in load_catalogue()), partitions=PARTITIONS)
    return kafka_topics


def inputs(topics: TopicFactory) -> list[str]:
    return [topics.name("turns"), topics.name("state-writes")]


def test_sigterm_while_outputs_linger_waits_for_their_acknowledgement_and_commits_them(
    kafka: str, topics: TopicFactory, tmp_path: Path
) -> None:
    with WorkerProcess(kafka, topics.prefix, tmp_path, outputs__linger=4, worker__drain_deadline=20) as worker:
        worker.wait_ready()
        books = send(kafka, plan_with_one_percent_of_each_kind(topics.prefix, seed=17).records(300))
        worker.wait_until(lambda: worker.metric("engram_batches_in_flight") > 0, "batches are begun")
        assert count_records(kafka, topics.name("fidelity")) == 0
        started = time.monotonic()
        assert worker.terminate() == 0
        assert time.monotonic() - started < 20
        assert count_records(kafka, topics.name("fidelity")) > 0
        check_commits(kafka, topics, worker.group, books)
    with WorkerProcess(kafka, topics.prefix, tmp_path, "successor") as successor:
        successor.wait_until(lambda: not open_offsets(kafka, worker.group, inputs(topics)), "everything is committed")
        assert successor.terminate() == 0
    assert check_all_outputs(kafka, topics, books) == 0


def test_sigterm_with_a_sink_that_is_gone_ends_by_its_deadline_with_code_3_and_commits_nothing(
    kafka: str, topics: TopicFactory, tmp_path: Path
) -> None:
    with WorkerProcess(kafka, topics.prefix, tmp_path, worker__drain_deadline=3) as worker:
        worker.wait_ready()
        admin = AdminClient({"bootstrap.servers": kafka})
        for deleted in admin.delete_topics([topics.name("fidelity")], operation_timeout=30).values():
            deleted.result(timeout=30)
        books = send(kafka, plan_with_one_percent_of_each_kind(topics.prefix, seed=18).records(300))
        worker.wait_until(
            lambda: worker.metric("engram_batches_in_flight", topic=inputs(topics)[0]) > 0, "work is begun"
        )
        started = time.monotonic()
        assert worker.terminate() == 3
        assert time.monotonic() - started < 3 + GRACE_SECONDS
        offsets = committed_and_end(kafka, worker.group, inputs(topics)[:1])
        assert {committed for committed, _ in offsets.values()} == {0}

        topics.create("fidelity", partitions=PARTITIONS)
        worker.start()
        worker.wait_ready()
        worker.wait_until(lambda: not open_offsets(kafka, worker.group, inputs(topics)), "everything is committed")
        assert worker.terminate() == 0
    check_all_outputs(kafka, topics, books)


def test_fausts_own_command_runs_the_same_worker_and_sigterm_ends_it(
    kafka: str, topics: TopicFactory, tmp_path: Path
) -> None:
    books = send(kafka, plan_with_one_percent_of_each_kind(topics.prefix, seed=19).records(300))
    faust = str(Path(sys.executable).with_name("faust"))
    command = (faust, "-A", "workers.app", "worker")
    with WorkerProcess(kafka, topics.prefix, tmp_path, command=command) as worker:
        worker.wait_ready()
        worker.wait_until(lambda: not open_offsets(kafka, worker.group, inputs(topics)), "everything is committed")
        assert worker.metric("engram_conservation_difference") == 0
        assert worker.terminate() == 0
    assert check_all_outputs(kafka, topics, books) == 0
