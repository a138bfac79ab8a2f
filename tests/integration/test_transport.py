"""The transport on Apache Kafka, in this process: what is delivered, bounded, halted, lost and committed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import RequestTimedOutError
from transport_faults import produce_one_batch
from transport_harness import (
    Running,
    all_committed,
    clean_often,
    commit_as,
    delete_records,
    fill,
    running,
    until,
    until_committed,
)

from workers.records import Partition
from workers.testing.kafka_io import Message, end_offsets, produce, read_to_end
from workers.testing.kafka_topics import TopicFactory
from workers.transport.batch import RecordBatch
from workers.transport.fetch import Chunk, ChunkReader, FetchProblem, Trouble
from workers.transport.observer import HaltCause
from workers.transport.thread import BatchConsumerThread

pytestmark = pytest.mark.kafka


async def test_everything_is_delivered_once_in_order_and_committed(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("all")
    topic = kafka_topics.create_plain("in", partitions=4)
    await fill(kafka, topic, 8000, 4)
    async with running(kafka, group, topic, max_records=300) as run:
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert max(len(batch.records) for batch in run.batches) == 300
        for number in range(4):
            assert run.offsets(Partition(topic, number)) == list(range(2000))
        await until(lambda: set(run.lag().values()) == {0}, "no lag")
        assert run.app.batches.bytes_in_flight == 0


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
async def test_transaction_markers_first_in_the_middle_and_last_leave_no_lag(
    kafka_topics: TopicFactory, isolation_level: str
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("markers")
    topic = kafka_topics.create_plain("in")
    producer = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=group)
    await producer.start()
    try:
        for number, commit in enumerate((False, True, False, False, True, False)):
            await producer.begin_transaction()
            for n in range(3):
                await producer.send_and_wait(topic, b"%d-%d" % (number, n), partition=0)
            await (producer.commit_transaction() if commit else producer.abort_transaction())
        end = (await end_offsets(kafka, topic))[0]
        partition = Partition(topic, 0)
        async with running(kafka, group, topic, isolation_level=isolation_level) as run:
            await until(lambda: all_committed(kafka, group, topic), "the commit reaches the end")
            assert end == 6 * 4
            expected = [b"1", b"4"] if isolation_level == "read_committed" else [b"%d" % n for n in range(6)]
            seen = [value[:1] for record in run.records[partition] if (value := record.value) is not None]
            assert seen == [number for number in expected for _ in range(3)]

            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"open", partition=0)
            if isolation_level == "read_uncommitted":
                await until(lambda: run.status(partition).watermark == end + 1, "the open record is read")
            else:
                await produce(kafka, topic, [Message(b"k", b"behind the open one", partition=0)])
                await run.app.batches._refresh_ends()
                assert run.status(partition).end_offset == end
                assert run.status(partition).lag == 0
            await producer.abort_transaction()
    finally:
        await producer.stop()


async def test_holes_left_by_compaction_are_committed_over(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("holes")
    topic = kafka_topics.create_plain(
        "in",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        segment_bytes="1048576",
        max_compaction_lag_ms="1",
    )
    clean_often(kafka)
    partition = Partition(topic, 0)
    await produce(kafka, topic, [Message(b"%d" % (n % 7), b"x" * 2000, partition=0) for n in range(1200)])
    await produce(kafka, topic, [Message(b"last", b"x", partition=0)])

    async def has_holes() -> bool:
        return len(await read_to_end(kafka, topic)) < 1201

    await until(has_holes, "Kafka compacts")
    async with running(kafka, group, topic, max_records=50) as run:
        await until(lambda: all_committed(kafka, group, topic), "the commit reaches the end")
        assert len(run.offsets(partition)) < 1201
        assert run.recorder.gaps == []


async def test_a_slow_partition_stops_alone_at_its_bound(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("slow")
    topic = kafka_topics.create_plain("in", partitions=3)
    await fill(kafka, topic, 6000, 3)
    slow = Partition(topic, 1)
    async with running(
        kafka, group, topic, configure=lambda run: run.close_gate(1), max_records=50, max_in_flight=3
    ) as run:
        await until(lambda: len(run.offsets(Partition(topic, 0))) == 2000, "the first partition is done")
        await until(lambda: len(run.offsets(Partition(topic, 2))) == 2000, "the last partition is done")
        status = run.status(slow)
        assert (status.batches_in_flight, status.watermark, status.lag) == (3, 0, 2000)
        await until_committed(kafka, group, topic, {0: 2000, 1: 0, 2: 2000})
        run.gates[1].set()
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.offsets(slow) == list(range(2000))


async def test_batches_stay_below_their_bytes_and_all_together_below_the_workers(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("bytes")
    topic = kafka_topics.create_plain("in", partitions=2)
    sizes = [40_000, 40_000, 40_000, 300_000, 40_000, 90_000, 20_000, 1_000] * 3
    await produce(kafka, topic, [Message(None, b"x" * size, partition=n % 2) for n, size in enumerate(sizes)])

    def both_closed(run: Running) -> None:
        run.close_gate(0)
        run.close_gate(1)

    async with running(
        kafka, group, topic, configure=both_closed, max_batch_bytes=100_000, max_bytes_in_flight=200_000
    ) as run:
        await until(lambda: run.app.batches.bytes_in_flight >= 200_000, "the worker is full")
        # The batch that fills the worker may go over; it is cut in two at most.
        assert run.app.batches.bytes_in_flight < 200_000 + 400_000
        run.gates[0].set()
        run.gates[1].set()
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        for batch in run.batches:
            assert batch.nbytes <= 100_000 or len(batch.records) == 1
        assert sum(batch.nbytes for batch in run.batches) == sum(sizes)


async def test_an_unreadable_record_halts_its_partition_at_its_offset_until_it_is_skipped(
    kafka_topics: TopicFactory,
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("poison")
    topic = kafka_topics.create_plain("in", partitions=2)
    await fill(kafka, topic, 200, 2)
    await produce_one_batch(kafka, topic, 0, count=10, bad=4)
    await fill(kafka, topic, 200, 2)
    bad, good = Partition(topic, 0), Partition(topic, 1)
    async with running(kafka, group, topic) as run:
        await until(lambda: run.recorder.halts == [(bad, 104, HaltCause.BAD_HEADER_KEY)], "a halt at offset 104")
        await until(lambda: run.offsets(good) == list(range(200)), "the other partition is done")
        await until(lambda: run.offsets(bad) == list(range(104)), "everything before it is done")
        status = run.status(bad)
        assert (status.halted_at, status.skip_to, status.stopped_on_purpose) == (104, 105, True)
        await until_committed(kafka, group, topic, {0: 104, 1: 200})
        with pytest.raises(ValueError, match="halted at 104"):
            await run.app.batches.resume(bad, 103)
        await run.app.batches.resume(bad, 105)
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.offsets(bad) == [n for n in range(210) if n != 104]


async def test_a_commit_behind_an_unreadable_record_of_the_same_batch_reads_on_without_a_halt(
    kafka_topics: TopicFactory,
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("skipped")
    topic = kafka_topics.create_plain("in")
    await produce_one_batch(kafka, topic, 0, count=10, bad=4)
    await commit_as(kafka, group, {Partition(topic, 0): 5})
    async with running(kafka, group, topic) as run:
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.offsets(Partition(topic, 0)) == [5, 6, 7, 8, 9]
        assert run.recorder.halts == []


async def test_records_deleted_past_the_commit_are_reported_and_commits_go_on(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("deleted")
    topic = kafka_topics.create_plain("in")
    await fill(kafka, topic, 500, 1)
    partition = Partition(topic, 0)
    await commit_as(kafka, group, {partition: 100})
    delete_records(kafka, partition, 300)
    async with running(kafka, group, topic) as run:
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.recorder.lost == [(partition, 100, 300)]
        assert run.offsets(partition) == list(range(300, 500))


async def test_a_commit_beyond_the_end_of_the_log_is_reported_and_the_log_read_from_its_start(
    kafka_topics: TopicFactory,
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("anew")
    topic = kafka_topics.create_plain("in")
    await fill(kafka, topic, 50, 1)
    partition = Partition(topic, 0)
    await commit_as(kafka, group, {partition: 9000})
    async with running(kafka, group, topic) as run:
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.recorder.lost == [(partition, 9000, 0)]
        assert run.offsets(partition) == list(range(50))


async def test_a_fetch_that_begins_elsewhere_is_discarded_and_read_again(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("gap")
    topic = kafka_topics.create_plain("in")
    await fill(kafka, topic, 100, 1)
    partition = Partition(topic, 0)
    async with running(kafka, group, topic) as run:
        await until(lambda: run.offsets(partition) == list(range(100)), "the first records")
        consumer = run.app.batches
        await consumer._on_thread(consumer._thread.seek_to(partition, 150))
        await fill(kafka, topic, 100, 1)
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.recorder.gaps == [(partition, 100, 150)]
        assert run.offsets(partition) == list(range(200))


async def test_a_completion_after_the_partition_has_left_counts_nowhere(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("late")
    topic = kafka_topics.create_plain("in", partitions=2)
    await fill(kafka, topic, 200, 2)

    def both_closed(run: Running) -> None:
        run.close_gate(0)
        run.close_gate(1)

    async with running(kafka, group, topic, configure=both_closed, drain_deadline=0.5) as first:
        await until(lambda: len(first.started) == 2, "both partitions are being processed")
        async with running(kafka, group, topic) as second:
            await until(lambda: bool(first.recorder.revocations), "the first worker gives its partitions up")
            first.gates.pop(0).set()
            first.gates.pop(1).set()
            await until(lambda: len(first.recorder.late) == 2, "both completions come too late")
            assert first.completions[:2] == [False, False]
            assert sorted(first.recorder.abandoned) == [(Partition(topic, 0), 100), (Partition(topic, 1), 100)]
            await until(lambda: all_committed(kafka, group, topic), "everything committed")
            for number in range(2):
                partition = Partition(topic, number)
                assert first.offsets(partition) + second.offsets(partition) == list(range(100))


async def test_a_partition_held_beyond_the_poll_interval_keeps_its_membership(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("held")
    topic = kafka_topics.create_plain("in")
    partition = Partition(topic, 0)

    await fill(kafka, topic, 100, 1)

    def hold(run: Running) -> None:
        run.app.conf.broker_max_poll_interval = 2.0
        run.app.batches.hold(partition, "registry")

    async with running(kafka, group, topic, configure=hold) as run:
        await until(lambda: bool(run.app.batches.status()), "the partition is assigned")
        subscriptions = run.app.batches._thread._ensure_consumer()._fetcher._subscriptions
        held_since = run.app.loop.time()
        await until(lambda: run.app.loop.time() > held_since + 4.0, "twice the poll interval has passed")
        assert subscriptions.fetcher_idle_time < 2.0
        assert run.status(partition).held_for == "registry"
        assert run.batches == []
        run.app.batches.release(partition)
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert len(run.recorder.assignments) == 1


async def test_a_slow_batch_holds_the_commit_back_while_later_ones_are_done_and_is_read_again(
    kafka_topics: TopicFactory,
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("slow-first")
    topic = kafka_topics.create_plain("in", partitions=2)
    await fill(kafka, topic, 800, 2)
    partition = Partition(topic, 0)
    async with running(
        kafka, group, topic, configure=lambda run: run.by_hand.add(0), max_records=100, drain_deadline=0.3
    ) as run:

        def of_partition() -> list[RecordBatch]:
            return [batch for batch in run.batches if batch.partition == partition]

        await until(lambda: len(of_partition()) == 4, "four batches")
        assert all(batch.begin() for batch in of_partition())
        assert all(batch.complete() for batch in of_partition()[1:])
        await until_committed(kafka, group, topic, {0: 0, 1: 400})
        assert run.status(partition).batches_in_flight == 4
    async with running(kafka, group, topic) as run:
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.offsets(partition) == list(range(400))
        assert run.offsets(Partition(topic, 1)) == []


async def test_a_handler_beyond_the_poll_interval_costs_the_membership_and_the_worker_joins_again(
    kafka_topics: TopicFactory,
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("poll")
    topic = kafka_topics.create_plain("in")
    await fill(kafka, topic, 100, 1)

    def short_poll(run: Running) -> None:
        run.app.conf.broker_max_poll_interval = 1.5
        run.close_gate(0)

    async with running(
        kafka, group, topic, configure=short_poll, max_records=50, max_in_flight=1, drain_deadline=0.3
    ) as run:
        await until(lambda: len(run.recorder.assignments) == 2, "the worker has joined again")
        run.gates.pop(0).set()
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.offsets(Partition(topic, 0)) == list(range(100))
        assert run.completions[0] is False


@pytest.mark.parametrize("known", [False, True])
async def test_positions_that_cannot_be_looked_up_at_the_start_are_found_by_the_first_fetch(
    kafka_topics: TopicFactory, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("positions")
    topic = kafka_topics.create_plain("in")
    await fill(kafka, topic, 100, 1)
    partition = Partition(topic, 0)
    if known:
        await commit_as(kafka, group, {partition: 40})

    async def away(*_: object) -> dict[Partition, int]:
        raise RequestTimedOutError

    monkeypatch.setattr(BatchConsumerThread, "seek_to_commits", away)
    async with running(kafka, group, topic) as run:
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.offsets(partition) == list(range(40 if known else 0, 100))
        assert run.recorder.lost == []


async def test_a_chunk_of_an_older_generation_is_discarded(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("generation")
    topic = kafka_topics.create_plain("in")
    await fill(kafka, topic, 20, 1)
    partition = Partition(topic, 0)
    async with running(kafka, group, topic) as run:
        await until(lambda: run.offsets(partition) == list(range(20)), "the first records")
        stale = Chunk(20, 30, tuple(run.batches[0].records[:10]), 100)
        await run.app.batches._accept(partition, run.app.consumer_generation_id - 1, stale)
        assert run.recorder.stale == [(partition, 10)]
        await fill(kafka, topic, 5, 1)
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.offsets(partition) == list(range(25))


async def test_a_partition_with_room_again_does_not_wait_for_an_idle_one(kafka_topics: TopicFactory) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("room")
    topic = kafka_topics.create_plain("in", partitions=2)
    await produce(kafka, topic, [Message(None, b"x", partition=0) for _ in range(400)])
    async with running(kafka, group, topic, max_records=10, max_in_flight=1) as run:
        await until(lambda: len(run.records) > 0, "the first batch")
        # Forty batches, one at a time: waiting out one idle fetch for each would take forty seconds.
        await until(lambda: all_committed(kafka, group, topic), "everything committed", 10.0)


async def test_a_partition_that_is_refused_is_tried_again_every_second_while_the_others_go_on(
    kafka_topics: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("refused")
    topic = kafka_topics.create_plain("in", partitions=2)
    await fill(kafka, topic, 2000, 2)
    tries: list[float] = []
    read = ChunkReader.read

    def refuse(reader: ChunkReader, tp: TopicPartition, *rest: Any) -> tuple[Chunk | None, FetchProblem | None]:
        if tp.partition == 0 or len(tries) == 3:
            return read(reader, tp, *rest)
        tries.append(time.monotonic())
        return None, FetchProblem(Trouble.REFUSED, 0, "TopicAuthorizationFailedError")

    monkeypatch.setattr(ChunkReader, "read", refuse)
    async with running(kafka, group, topic, max_records=50) as run:
        await until(lambda: len(run.offsets(Partition(topic, 0))) == 1000, "the other partition is done")
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert run.offsets(Partition(topic, 1)) == list(range(1000))
        assert tries[2] - tries[0] >= 2.0
