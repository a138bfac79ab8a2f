"""What a worker has in hand of each partition: room, holds, moves, reports."""

from __future__ import annotations

import pytest

from workers.records import Partition
from workers.transport.assigned import AssignedPartitions
from workers.transport.batch import RecordBatch
from workers.transport.observer import HaltCause, SilentObserver
from workers.transport.options import TransportOptions
from workers.transport.salvage import Unreadable

PARTITION = Partition("in", 0)


class Listener(SilentObserver):
    def __init__(self) -> None:
        self.abandoned: list[Partition] = []
        self.late: list[Partition] = []

    def on_abandoned(self, partition: Partition, n_records: int) -> None:
        self.abandoned.append(partition)

    def on_late_completion(self, partition: Partition, n_records: int) -> None:
        self.late.append(partition)


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def assigned(listener: Listener) -> AssignedPartitions:
    return AssignedPartitions(TransportOptions(max_in_flight=2), listener)


def deliver(assigned: AssignedPartitions, start: int, next_offset: int, nbytes: int = 7) -> RecordBatch:
    tracker = assigned.begin_at(PARTITION, start, committed=None, now=0.0)
    batch = RecordBatch(PARTITION, 1, start, next_offset, (), nbytes, lambda done: assigned.complete(done, 0.0))
    tracker.deliver(batch, 0.0)
    return batch


def test_room_ends_at_the_bound_and_returns_with_the_first_completion(assigned: AssignedPartitions) -> None:
    assert assigned.has_room(PARTITION)
    first = deliver(assigned, 0, 5)
    deliver(assigned, 5, 9)
    assert not assigned.has_room(PARTITION)
    assert assigned.bytes_in_flight == 14
    first.begin()
    first.complete()
    assert assigned.has_room(PARTITION)
    assert assigned.bytes_in_flight == 7


def test_a_held_or_halted_partition_has_no_room(assigned: AssignedPartitions) -> None:
    assigned.held[PARTITION] = "registry"
    assert not assigned.has_room(PARTITION)
    assert assigned.release(PARTITION, 1.0)
    assert not assigned.release(PARTITION, 1.0)
    assigned.halted[PARTITION] = Unreadable(3, 4, HaltCause.UNREADABLE)
    assert not assigned.has_room(PARTITION)


def test_lost_offsets_ahead_wait_for_what_is_in_flight(assigned: AssignedPartitions) -> None:
    batch = deliver(assigned, 0, 5)
    batch.begin()
    assigned.move_to(PARTITION, 90, 1.0)
    assert assigned.to_commit() == {PARTITION: 0}
    assert batch.complete()
    assert assigned.to_commit() == {PARTITION: 90}


def test_a_log_made_anew_gives_up_what_is_in_flight_of_the_old_one(
    assigned: AssignedPartitions, listener: Listener
) -> None:
    batch = deliver(assigned, 100, 105)
    batch.begin()
    assigned.move_to(PARTITION, 0, 1.0)
    assert listener.abandoned == [PARTITION]
    assert not batch.complete()
    assert listener.late == [PARTITION]
    assert assigned.to_commit() == {PARTITION: 0}


def test_a_confirmed_commit_counts_also_when_nothing_is_in_flight(assigned: AssignedPartitions) -> None:
    batch = deliver(assigned, 0, 5)
    batch.begin()
    batch.complete()
    assigned.committed({PARTITION: 5, Partition("elsewhere", 1): 3})
    assert assigned.to_commit() == {}


def test_a_forgotten_partition_leaves_nothing_behind(assigned: AssignedPartitions, listener: Listener) -> None:
    batch = deliver(assigned, 0, 5)
    assigned.held[PARTITION] = "output"
    assigned.forget(PARTITION)
    assert listener.abandoned == [PARTITION]
    assert not batch.begin()
    assert not assigned.is_stopped(PARTITION)
    assert assigned.status(PARTITION, seen_end=None, since=4.0).progressed_at == 4.0


def test_status_takes_the_later_of_the_two_ends_and_lag_from_the_watermark(assigned: AssignedPartitions) -> None:
    batch = deliver(assigned, 0, 5)
    assigned.note_ends({PARTITION: 30}, 1.0)
    status = assigned.status(PARTITION, seen_end=20, since=0.0)
    assert (status.end_offset, status.lag, status.has_work, status.stopped_on_purpose) == (30, 30, True, False)
    batch.begin()
    batch.complete()
    assert assigned.status(PARTITION, seen_end=31, since=0.0).lag == 26


def test_a_partition_at_its_end_is_never_late(assigned: AssignedPartitions) -> None:
    assigned.begin_at(PARTITION, 5, committed=5, now=0.0)
    assigned.note_ends({PARTITION: 5}, 100.0)
    assert assigned.status(PARTITION, seen_end=5, since=0.0).progressed_at == 100.0
    assigned.note_ends({PARTITION: 9}, 400.0)
    assert assigned.status(PARTITION, seen_end=5, since=0.0).progressed_at == 100.0
