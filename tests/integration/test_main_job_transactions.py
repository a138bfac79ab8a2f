"""Input that was written in transactions and compacted: offsets with holes, commit and abort markers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from accounting import PARTITIONS, Books, check_all_outputs, check_commits
from confluent_kafka import Producer
from topic_reading import committed_and_end, count_records, open_offsets, read_topic
from traffic_sending import queue, send, settings
from transport_harness import clean_often
from worker_process import WorkerProcess, wait_until

from workers.testing.kafka_topics import TopicFactory
from workers.testing.traffic import TURN_KINDS, BadKind, GeneratedRecord, TrafficPlan

pytestmark = pytest.mark.kafka

TURNS = 1_500
ABORTED = {0, 4, 5, 9}
TRANSACTIONS = 10
KEYED_KINDS = [kind for kind in TURN_KINDS if kind is not BadKind.MISSING_KEY]
"""A compacted topic takes no record without a key."""


@pytest.fixture
def topics(kafka: str, kafka_topics: TopicFactory) -> TopicFactory:
    clean_often(kafka)
    kafka_topics.create(
        "turns",
        partitions=PARTITIONS,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        segment_bytes="1048576",
        max_compaction_lag_ms="1",
    )
    kafka_topics.create(
        "state-writes", "fidelity", "alerts", "producer-paths", "turns-dlq", "state-writes-dlq", partitions=PARTITIONS
    )
    return kafka_topics


@contextmanager
def transactional(kafka: str, name: str) -> Iterator[Producer]:
    producer = Producer(settings(kafka) | {"transactional.id": name})
    producer.init_transactions(30)
    yield producer
    producer.flush(30)


def write(producer: Producer, records: list[GeneratedRecord]) -> Books:
    """Write ``records`` within the open transaction."""
    books = Books()
    for record in records:
        queue(producer, record, books)
    assert producer.flush(30) == 0
    return books


def write_transactions(producer: Producer, records: Iterator[GeneratedRecord]) -> tuple[Books, Books]:
    """Return the books of the committed and of the aborted transactions."""
    committed, aborted = Books(), Books()
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        written = write(producer, list(itertools.islice(records, TURNS // TRANSACTIONS)))
        if number in ABORTED:
            producer.abort_transaction(30)
            aborted += written
        else:
            producer.commit_transaction(30)
            committed += written
    return committed, aborted


def surviving(kafka: str, topic: str, books: Books) -> Books:
    """Return the books of what compaction has left."""
    left = {(received.partition, received.offset) for received in read_topic(kafka, topic)}
    return Books({source: sent for source, sent in books.sent.items() if source[1:] in left})


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_holes_and_markers_first_in_the_middle_and_last_leave_no_lag_and_lose_nothing(
    kafka: str, topics: TopicFactory, tmp_path: Path, isolation_level: str
) -> None:
    inputs = [topics.name("turns"), topics.name("state-writes")]
    records = TrafficPlan(seed=15, bad_share=0.2, bad_kinds=KEYED_KINDS, topic_prefix=topics.prefix).records(None)
    with transactional(kafka, topics.prefix) as producer:
        committed, aborted = write_transactions(producer, records)
        wait_until(lambda: len(list(read_topic(kafka, inputs[0]))) < len(committed.sent), "Kafka compacts")
        # Compaction may go on while the worker reads: what is left afterwards was there for it.
        readable = committed if isolation_level == "read_committed" else committed + aborted
        with WorkerProcess(kafka, topics.prefix, tmp_path, kafka__isolation_level=isolation_level) as worker:
            worker.wait_until(lambda: count_records(kafka, topics.name("fidelity")) > 0, "a part of the verdicts")
            assert worker.terminate() == 0
            check_commits(kafka, topics, worker.group, surviving(kafka, inputs[0], committed))

            worker.start()
            worker.wait_ready()
            worker.wait_until(lambda: not open_offsets(kafka, worker.group, inputs), "everything is committed")
            worker.wait_until(lambda: worker.metric("engram_lag_records") == 0, "the lag is 0")
            assert worker.metric("engram_conservation_difference") == 0
            assert check_all_outputs(kafka, topics, surviving(kafka, inputs[0], committed), readable) == 0
            if isolation_level == "read_committed":
                readable += hold_back(kafka, topics, worker, producer, records)
                assert check_all_outputs(kafka, topics, surviving(kafka, inputs[0], readable), readable) == 0
            assert worker.terminate() == 0


def hold_back(
    kafka: str, topics: TopicFactory, worker: WorkerProcess, producer: Producer, records: Iterator[GeneratedRecord]
) -> Books:
    """Assert that the worker waits for an open transaction, and for what lies behind it; return what was sent."""
    turns, writes = topics.name("turns"), topics.name("state-writes")
    before = committed_and_end(kafka, worker.group, [turns])
    producer.begin_transaction()
    opened = write(producer, list(itertools.islice(records, 100)))
    behind = send(kafka, itertools.islice(records, 100))
    # What comes later, and on another topic, has passed the worker before we look.
    traffic = TrafficPlan(seed=16, state_write_share=1.0, topic_prefix=topics.prefix).records(100)
    later = send(kafka, (record for record in traffic if record.topic == writes))
    worker.wait_until(lambda: not open_offsets(kafka, worker.group, [writes]), "the later records are committed")
    assert committed_and_end(kafka, worker.group, [turns]) == before
    producer.commit_transaction(30)
    worker.wait_until(
        lambda: (
            committed_and_end(kafka, worker.group, [turns]) != before and not open_offsets(kafka, worker.group, [turns])
        ),
        "the transaction is read to its end",
    )
    return opened + behind + later
