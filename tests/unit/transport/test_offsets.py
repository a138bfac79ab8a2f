"""The watermark of a partition, for every order in which batches are delivered, begun, finished and given up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.records import Partition
from workers.transport.batch import BatchState, RecordBatch
from workers.transport.offsets import PartitionTracker

PARTITION = Partition("in", 0)

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["deliver", "skip", "begin", "complete", "complete", "abandon queued"]),
        st.integers(0, 9),
    ),
    max_size=60,
)


def batch(tracker: PartitionTracker, start: int, next_offset: int) -> RecordBatch:
    return RecordBatch(PARTITION, 1, start, next_offset, (), 10, lambda done: tracker.complete(done, 0.0))


@settings(max_examples=300, deadline=None)
@given(start=st.integers(0, 1000), steps=STEPS)
def test_the_watermark_is_the_end_of_the_finished_prefix_and_never_passes_an_unfinished_batch(
    start: int, steps: list[tuple[str, int]]
) -> None:
    tracker = PartitionTracker(start, committed=None, now=0.0)
    batches: list[RecordBatch] = []
    for step, n in steps:
        before = tracker.watermark
        match step:
            case "deliver":
                batches.append(batch(tracker, tracker.read_to, tracker.read_to + 1 + n))
                tracker.deliver(batches[-1], 0.0)
            case "skip":
                tracker.skip_to(tracker.read_to + n, 0.0)
            case "begin" if batches:
                batches[n % len(batches)].begin()
            case "complete" if batches and batches[n % len(batches)].state is not BatchState.QUEUED:
                batches[n % len(batches)].complete()
            case "abandon queued":
                list(tracker.abandon_queued())
        unfinished = [one for one in batches if one.state is not BatchState.DONE]
        finished = batches[: batches.index(unfinished[0])] if unfinished else batches
        if unfinished:
            assert tracker.watermark <= unfinished[0].start
            # Up to an empty advance, which counts only when nothing is in flight.
            assert tracker.watermark >= (finished[-1].next if finished else start)
        else:
            assert tracker.watermark == tracker.read_to
        assert tracker.watermark >= before


def test_a_batch_finished_out_of_order_waits_for_those_before_it() -> None:
    tracker = PartitionTracker(100, committed=100, now=0.0)
    first, second, third = (batch(tracker, 100 + 10 * n, 110 + 10 * n) for n in range(3))
    for one in (first, second, third):
        tracker.deliver(one, 0.0)
        assert one.begin()
    assert third.complete()
    assert second.complete()
    assert (tracker.watermark, tracker.in_flight, tracker.uncommitted) == (100, 3, False)
    assert first.complete()
    assert (tracker.watermark, tracker.in_flight, tracker.uncommitted) == (130, 0, True)


def test_an_empty_advance_counts_at_once_when_idle_and_with_the_last_batch_otherwise() -> None:
    tracker = PartitionTracker(0, committed=None, now=0.0)
    tracker.skip_to(5, 1.0)
    assert tracker.watermark == 5
    one = batch(tracker, 5, 8)
    tracker.deliver(one, 2.0)
    tracker.skip_to(12, 3.0)
    assert tracker.watermark == 5
    one.begin()
    one.complete()
    assert tracker.watermark == 12


def test_an_abandoned_batch_is_neither_begun_nor_completed_nor_passed() -> None:
    tracker = PartitionTracker(0, committed=None, now=0.0)
    started, queued = batch(tracker, 0, 10), batch(tracker, 10, 20)
    tracker.deliver(started, 0.0)
    tracker.deliver(queued, 0.0)
    started.begin()
    assert list(tracker.abandon_queued()) == [queued]
    assert not queued.begin()
    assert not queued.complete()
    assert started.complete()
    assert tracker.watermark == 10
    assert not started.complete(), "a second completion counts nowhere"


def test_completing_what_was_never_begun_is_a_bug_and_says_so() -> None:
    tracker = PartitionTracker(0, committed=None, now=0.0)
    one = batch(tracker, 0, 10)
    tracker.deliver(one, 0.0)
    with pytest.raises(RuntimeError, match="before begin"):
        one.complete()


def test_a_batch_that_does_not_begin_where_the_last_one_ended_is_refused() -> None:
    tracker = PartitionTracker(0, committed=None, now=0.0)
    with pytest.raises(ValueError, match="begins at 3, expected 0"):
        tracker.deliver(batch(tracker, 3, 5), 0.0)
    with pytest.raises(ValueError, match="back from 0 to -1"):
        tracker.skip_to(-1, 0.0)


def test_progress_is_timed_from_the_first_work_after_idleness_and_at_each_move() -> None:
    tracker = PartitionTracker(0, committed=None, now=1.0)
    first, second = batch(tracker, 0, 5), batch(tracker, 5, 9)
    tracker.deliver(first, 50.0)
    assert tracker.progressed_at == 50.0
    tracker.deliver(second, 60.0)
    assert tracker.progressed_at == 50.0, "more work is no progress"
    first.begin()
    tracker.complete(first, 70.0)
    assert tracker.progressed_at == 70.0
