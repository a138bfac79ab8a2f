"""The transport across processes: signals, kills, rebalances. Apache Kafka, real workers."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from transport_harness import WorkerProcess, all_committed, committed, fill, times_completed, until

from workers.records import Partition
from workers.testing.kafka_topics import TopicFactory

pytestmark = pytest.mark.kafka


async def test_a_killed_worker_loses_nothing_and_its_successor_replays_from_the_commit(
    kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("killed")
    topic = kafka_topics.create_plain("in", partitions=2)
    await fill(kafka, topic, 4000, 2)
    with WorkerProcess(kafka, group, [topic], tmp_path, options={"max_records": 50}, seconds_per_batch=0.02) as first:
        await first.until_completed(30)
        first.kill()
    at_kill = await committed(kafka, group, topic, 2)
    with WorkerProcess(kafka, group, [topic], tmp_path) as second:
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        for number in range(2):
            partition = Partition(topic, number)
            assert min(start for where, start, _ in second.spans() if where == partition) == at_kill[number]
            assert min(times_completed([first, second], partition, 2000)) == 1
        assert await second.terminate() == 0


async def test_sigterm_commits_what_is_complete_and_a_restart_repeats_nothing(
    kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("stopped")
    topic = kafka_topics.create_plain("in", partitions=3)
    await fill(kafka, topic, 6000, 3)
    with WorkerProcess(kafka, group, [topic], tmp_path, options={"max_records": 50}, seconds_per_batch=0.02) as first:
        await first.until_completed(20)
        assert await first.terminate() == 0
        completed = {
            number: max((end for where, _, end in first.spans() if where.number == number), default=0)
            for number in range(3)
        }
    assert await committed(kafka, group, topic, 3) == completed
    assert sum(completed.values()) < 6000
    with WorkerProcess(kafka, group, [topic], tmp_path) as second:
        await until(lambda: all_committed(kafka, group, topic), "everything committed")
        assert await second.terminate() == 0
    for number in range(3):
        assert set(times_completed([first, second], Partition(topic, number), 2000)) == {1}


async def test_workers_that_join_and_leave_lose_nothing_and_keep_equal_numbers_of_two_topics_together(
    kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("moving")
    topics = [kafka_topics.create_plain(name, partitions=5) for name in ("turns", "writes")]
    for topic in topics:
        await fill(kafka, topic, 10_000, 5)
    slow = {"options": {"max_records": 20}, "seconds_per_batch": 0.02}
    with (
        WorkerProcess(kafka, group, topics, tmp_path, **slow) as first,
        WorkerProcess(kafka, group, topics, tmp_path, **slow) as second,
        WorkerProcess(kafka, group, topics, tmp_path, **slow) as third,
    ):
        workers = [first, second, third]
        for worker in workers:
            await worker.until_completed(5)
        assert await second.terminate() == 0
        await until(
            lambda: len(first.assigned()[-1]) + len(third.assigned()[-1]) == 10, "two workers share all partitions"
        )
        for topic in topics:
            await until(partial(all_committed, kafka, group, topic), f"{topic} committed", 60.0)
        assert await first.terminate() == 0
        assert await third.terminate() == 0
    for worker in workers:
        for partitions in worker.assigned():
            numbers = [{p.number for p in partitions if p.topic == topic} for topic in topics]
            assert numbers[0] == numbers[1]
    for topic in topics:
        for number in range(5):
            # Nobody was killed and every drain met its deadline, so there is no duplicate either.
            assert set(times_completed(workers, Partition(topic, number), 2000)) == {1}


async def test_a_stuck_handler_is_left_at_the_deadline_and_the_exit_code_says_so(
    kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("stuck")
    topic = kafka_topics.create_plain("in", partitions=2)
    await fill(kafka, topic, 2000, 2)
    options = {"max_records": 100, "drain_deadline": 1.5}
    with WorkerProcess(kafka, group, [topic], tmp_path, options=options, stuck=[1]) as worker:
        await worker.until_completed(10)
        await until(lambda: bool(worker.events("stuck")), "a handler is stuck")
        began = time.monotonic()
        assert await worker.terminate() == 3
        assert 1.5 < time.monotonic() - began < 1.5 + 5
    assert await committed(kafka, group, topic, 2) == {0: 1000, 1: 0}


async def test_a_worker_that_waits_for_others_to_let_it_join_still_stops_by_its_deadline(
    kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    kafka, group = kafka_topics.bootstrap_servers, kafka_topics.group_id("joining")
    topic = kafka_topics.create_plain("in", partitions=2)
    await fill(kafka, topic, 200, 2)
    # The first worker is stuck, so it lets the second one join only when its own drain ends.
    with WorkerProcess(kafka, group, [topic], tmp_path, options={"drain_deadline": 25.0}, stuck=[0, 1]) as busy:
        await until(lambda: len(busy.events("stuck")) == 2, "the first worker is stuck")
        with WorkerProcess(kafka, group, [topic], tmp_path, options={"drain_deadline": 1.0}) as joining:
            await until(lambda: "(Re-)joining group" in joining.output.read_text(), "the second asks to join")
            began = time.monotonic()
            assert await joining.terminate() == 0
            assert time.monotonic() - began < 1.0 + 5
            assert joining.events("assigned") == []
