"""The transport when the broker itself fails: a damaged log, a restart. A cluster of its own, since it is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from transport_faults import break_checksum, produce_one_batch
from transport_harness import Running, all_committed, fill, running, until, until_committed

from workers.metrics.labels import CommitOutcome
from workers.records import Partition
from workers.testing.kafka_topics import TopicFactory
from workers.testing.local_kafka import LocalKafka
from workers.transport.observer import HaltCause

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[LocalKafka]:
    with LocalKafka() as cluster:
        yield cluster


@pytest.fixture
def topics(own_kafka: LocalKafka) -> Iterator[TopicFactory]:
    with TopicFactory(own_kafka.bootstrap_servers) as factory:
        yield factory


async def test_a_damaged_batch_halts_its_partition_and_is_skipped_as_a_whole(
    own_kafka: LocalKafka, topics: TopicFactory
) -> None:
    kafka, group = own_kafka.bootstrap_servers, topics.group_id("damaged")
    topic = topics.create_plain("in", partitions=2)
    for _ in range(3):
        await produce_one_batch(kafka, topic, 0, count=10)
    await fill(kafka, topic, 10, 1)
    await produce_one_batch(kafka, topic, 1, count=10)
    (segment,) = (own_kafka.folder / "node-0" / "data" / f"{topic}-0").glob("*.log")
    break_checksum(segment, index=1)
    damaged = Partition(topic, 0)
    async with running(kafka, group, topic) as run:
        await until(lambda: run.recorder.halts == [(damaged, 10, HaltCause.BAD_CRC)], "a halt at offset 10")
        await until_committed(kafka, group, topic, {0: 10, 1: 10})
        assert run.status(damaged).skip_to == 20
        await run.app.batches.resume(damaged, 20)
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.offsets(damaged) == [*range(10), *range(20, 40)]


async def test_a_commit_that_fails_is_tried_again_with_what_is_complete_by_then(
    own_kafka: LocalKafka, topics: TopicFactory
) -> None:
    kafka, group = own_kafka.bootstrap_servers, topics.group_id("restart")
    topic = topics.create_plain("in", partitions=2)
    await fill(kafka, topic, 1000, 2)

    def both_closed(run: Running) -> None:
        run.close_gate(0)
        run.close_gate(1)

    async with running(
        kafka, group, topic, configure=both_closed, max_records=100, max_in_flight=2, commit_timeout=0.5
    ) as run:
        await until(lambda: len(run.started) == 2, "both partitions are being processed")
        await asyncio.to_thread(own_kafka.kill, 0)
        run.gates[0].set()
        await until(lambda: CommitOutcome.FAILED in run.recorder.commits, "a commit fails")
        run.gates[1].set()
        await asyncio.to_thread(own_kafka.restart, 0)
        await until(lambda: all_committed(kafka, group, topic), "everything committed", 60.0)
        for number in range(2):
            assert set(run.offsets(Partition(topic, number))) == set(range(500))
