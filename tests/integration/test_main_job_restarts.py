"""Workers that are killed, stopped, and that come and go during a run: nothing is lost, and repeats are equal."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest
from accounting import (
    DISTURBED_TURNS,
    PARTITIONS,
    check_all_outputs,
    check_commits,
    plan_with_one_percent_of_each_kind,
)
from topic_reading import count_records, open_offsets
from traffic_sending import Traffic, send
from worker_process import WorkerProcess, wait_until

from workers.config import WorkerSettings
from workers.testing.kafka_topics import TopicFactory
from workers.topic_catalogue import load_catalogue

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1200)]

PATIENCE_S = 480.0
RATE = min(DISTURBED_TURNS / 20, 1000.0)
"""Records per second that come while workers are killed, join and leave; a run goes on until they are through."""


@pytest.fixture
def topics(kafka_topics: TopicFactory) -> TopicFactory:
    kafka_topics.create(*(topic.name for topic in load_catalogue()), partitions=PARTITIONS)
    return kafka_topics


def inputs(topics: TopicFactory) -> list[str]:
    return [topics.name("turns"), topics.name("state-writes")]


def test_a_worker_killed_three_times_leaves_no_turn_without_a_verdict_and_repeats_its_bytes(
    kafka: str, topics: TopicFactory, tmp_path: Path
) -> None:
    records = plan_with_one_percent_of_each_kind(topics.prefix, seed=12).records(None)
    # A name of its own lets the restarted worker take its place in the group at once, as a StatefulSet's pod does.
    worker = WorkerProcess(kafka, topics.prefix, tmp_path, kafka__group_instance_id="worker-0")
    with Traffic(kafka, records, RATE) as traffic, worker:
        for share in (0.15, 0.3, 0.45):
            worker.wait_until(
                lambda: count_records(kafka, topics.name("fidelity")) > share * DISTURBED_TURNS,  # noqa: B023
                f"verdicts of {share:.0%} of the turns",
                PATIENCE_S,
            )
            worker.kill()
            worker.start()
        traffic.stop_after(DISTURBED_TURNS, topics.name("turns"))
        worker.wait_ready()
        worker.wait_until(
            lambda: not open_offsets(kafka, worker.group, inputs(topics)), "everything is committed", PATIENCE_S
        )
        assert worker.metric("engram_conservation_difference") == 0
        assert worker.terminate() == 0
    repeated = check_all_outputs(kafka, topics, traffic.books)
    assert 0 < repeated < DISTURBED_TURNS / 2


def assigned(worker: WorkerProcess) -> set[tuple[str, int]]:
    """Return the partitions that ``worker`` shows as its own."""
    return {
        (labels["topic"], int(labels["partition"])) for labels in map(dict, worker.series("engram_own_lag_seconds"))
    }


def wait_stable(workers: Iterable[WorkerProcess], topics: TopicFactory) -> None:
    """Wait until ``workers`` share out all partitions, then assert that equal numbers lie together."""
    everything = sorted((topic, number) for topic in inputs(topics) for number in range(PARTITIONS))
    workers = list(workers)

    def is_stable() -> bool:
        owned = [assigned(worker) for worker in workers if worker.is_ready()]
        return len(owned) == len(workers) and all(owned) and sorted(p for own in owned for p in own) == everything

    wait_until(is_stable, f"{len(workers)} workers share out all partitions", 120)
    for worker in workers:
        numbers = [{number for topic, number in assigned(worker) if topic == name} for name in inputs(topics)]
        assert numbers[0] == numbers[1]
        assert worker.metric("engram_conservation_difference") == 0


def test_workers_that_join_and_leave_under_load_lose_and_repeat_nothing_and_own_equal_numbers(
    kafka: str, topics: TopicFactory, tmp_path: Path
) -> None:
    records = plan_with_one_percent_of_each_kind(topics.prefix, seed=13).records(None)
    a, b, c = (WorkerProcess(kafka, topics.prefix, tmp_path, name) for name in "abc")
    with Traffic(kafka, records, RATE) as traffic, ExitStack() as running:
        running.enter_context(a)
        wait_stable([a], topics)
        running.enter_context(b)
        wait_stable([a, b], topics)
        running.enter_context(c)
        wait_stable([a, b, c], topics)
        assert b.terminate() == 0
        wait_stable([a, c], topics)
        assert a.terminate() == 0
        wait_stable([c], topics)
        b.start()
        wait_stable([b, c], topics)
        traffic.stop_after(DISTURBED_TURNS, topics.name("turns"))
        wait_until(lambda: not open_offsets(kafka, c.group, inputs(topics)), "everything is committed", PATIENCE_S)
        wait_stable([b, c], topics)
        assert [worker.terminate() for worker in (b, c)] == [0, 0]
    assert check_all_outputs(kafka, topics, traffic.books) == 0


def test_sigterm_under_load_commits_exactly_what_is_published_and_a_restart_repeats_nothing(
    kafka: str, topics: TopicFactory, tmp_path: Path
) -> None:
    turns = DISTURBED_TURNS // 2
    books = send(kafka, plan_with_one_percent_of_each_kind(topics.prefix, seed=14).records(turns))
    with WorkerProcess(kafka, topics.prefix, tmp_path) as worker:
        worker.wait_until(
            lambda: count_records(kafka, topics.name("fidelity")) > 0.3 * turns, "a part of the verdicts", PATIENCE_S
        )
        started = time.monotonic()
        assert worker.terminate() == 0
        assert time.monotonic() - started < WorkerSettings().drain_deadline

        assert open_offsets(kafka, worker.group, inputs(topics)), "it was not under load any more"
        check_commits(kafka, topics, worker.group, books)

        worker.start()
        worker.wait_ready()
        worker.wait_until(
            lambda: not open_offsets(kafka, worker.group, inputs(topics)), "everything is committed", PATIENCE_S
        )
        assert worker.terminate() == 0
    assert check_all_outputs(kafka, topics, books) == 0
