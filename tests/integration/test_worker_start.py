"""How a worker starts, and how it ends when it cannot."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from worker_process import WorkerProcess, wait_until

from workers.testing.kafka_io import Message, committed_offsets, end_offsets, produce, wait_for_records
from workers.testing.kafka_topics import TopicFactory
from workers.testing.traffic import TrafficPlan

TOPICS = ("turns", "state-writes", "fidelity", "alerts", "producer-paths", "turns-dlq", "state-writes-dlq")

pytestmark = pytest.mark.kafka


async def test_a_worker_started_before_its_topics_is_not_ready_and_consumes_once_they_are_there(
    kafka: str, kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    with WorkerProcess(kafka, kafka_topics.prefix, tmp_path) as worker:
        wait_until(lambda: "does not exist; create it with" in worker.log(), "the worker says which topic is missing")
        assert (worker.probe("/healthz"), worker.probe("/readyz")) == (200, 503)
        kafka_topics.create(*TOPICS)
        records = list(TrafficPlan(seed=1).records(50))
        await produce(kafka, kafka_topics.name("turns"), [Message(r.key, r.value, r.headers) for r in records])
        worker.wait_ready()
        await wait_for_records(kafka, kafka_topics.name("fidelity"), len(records), timeout_s=60)
        assert worker.terminate() == 0
    group = f"{kafka_topics.prefix}group"
    committed = await committed_offsets(kafka, group, kafka_topics.name("turns"))
    assert committed == await end_offsets(kafka, kafka_topics.name("turns"))


def test_topics_of_unequal_partition_counts_end_the_worker_with_a_recipe(
    kafka: str, kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    kafka_topics.create("turns", "fidelity", "alerts", "producer-paths", "turns-dlq", partitions=4)
    kafka_topics.create("state-writes", "state-writes-dlq", partitions=3)
    with WorkerProcess(kafka, kafka_topics.prefix, tmp_path) as worker:
        assert worker.process.wait(60) == 4
        assert "equally many partitions" in worker.log()
        assert "state-writes has 3" in worker.log()


def test_kafka_that_nobody_runs_is_named_with_exit_code_5(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{unused.getsockname()[1]}"
        with WorkerProcess(server, "", tmp_path) as worker:
            assert worker.process.wait(60) == 5
            assert f"Kafka at {server}" in worker.log()
            assert "Traceback" not in worker.log()


def test_a_metrics_port_that_is_taken_ends_the_worker_with_exit_code_4(
    kafka: str, kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with WorkerProcess(kafka, kafka_topics.prefix, tmp_path, metrics__port=port) as worker:
            assert worker.process.wait(60) == 4
            assert f"cannot listen on 127.0.0.1:{port}" in worker.log()


def test_a_data_folder_that_cannot_be_written_to_ends_the_worker_with_exit_code_4(
    kafka: str, kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with WorkerProcess(kafka, kafka_topics.prefix, tmp_path, worker__datadir=tmp_path / "file/folder") as worker:
        assert worker.process.wait(60) == 4
        assert "worker.datadir: cannot write to" in worker.log()
