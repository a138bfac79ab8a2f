"""What this worker has in hand of each assigned partition. No Kafka, no clock: ``now`` is monotonic seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workers.records import Partition
from workers.transport.batch import RecordBatch
from workers.transport.observer import TransportObserver
from workers.transport.offsets import PartitionTracker
from workers.transport.options import TransportOptions
from workers.transport.salvage import Unreadable
from workers.transport.status import PartitionStatus


class AssignedPartitions:
    """Trackers, holds and halts by partition, and the bounds of what may be in flight."""

    def __init__(self, options: TransportOptions, observer: TransportObserver) -> None:
        self.trackers: dict[Partition, PartitionTracker] = {}
        self.held: dict[Partition, str] = {}
        self.halted: dict[Partition, Unreadable] = {}
        self._ends: dict[Partition, int] = {}
        self._options = options
        self._observer = observer

    @property
    def bytes_in_flight(self) -> int:
        """Bytes of all batches that are delivered and not complete."""
        return sum(tracker.nbytes for tracker in self.trackers.values())

    @property
    def running(self) -> int:
        """Batches that are being processed."""
        return sum(tracker.started for tracker in self.trackers.values())

    def is_stopped(self, partition: Partition) -> bool:
        """Whether the partition stands still on purpose."""
        return partition in self.held or partition in self.halted

    def has_room(self, partition: Partition) -> bool:
        """Whether another batch of the partition may be delivered."""
        tracker = self.trackers.get(partition)
        return not self.is_stopped(partition) and (tracker is None or tracker.in_flight < self._options.max_in_flight)

    def begin_at(self, partition: Partition, offset: int, *, committed: int | None, now: float) -> PartitionTracker:
        """Return the tracker of the partition; a new one starts at ``offset``."""
        return self.trackers.setdefault(partition, PartitionTracker(offset, committed=committed, now=now))

    def move_to(self, partition: Partition, offset: int, now: float) -> None:
        """Go on at ``offset`` although other records were expected; backwards gives up what is in flight."""
        self._ends.pop(partition, None)
        tracker = self.begin_at(partition, offset, committed=None, now=now)
        if offset >= tracker.read_to:
            tracker.skip_to(offset, now)
            return
        self._report_abandoned(partition, tracker.abandon_unfinished())
        self.trackers[partition] = PartitionTracker(offset, committed=tracker.committed, now=now)

    def complete(self, batch: RecordBatch, now: float) -> bool:
        """Mark ``batch`` as done; False when it was given up before."""
        tracker = self.trackers.get(batch.partition)
        if tracker is not None and tracker.complete(batch, now):
            return True
        self._observer.on_late_completion(batch.partition, len(batch.records))
        return False

    def release(self, partition: Partition, now: float) -> bool:
        """End a hold; False when there was none."""
        if self.held.pop(partition, None) is None:
            return False
        if tracker := self.trackers.get(partition):
            tracker.progressed_at = now
        return True

    def to_commit(self) -> dict[Partition, int]:
        """Return the watermarks that are not committed."""
        return {p: tracker.watermark for p, tracker in self.trackers.items() if tracker.uncommitted}

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Take note of a confirmed commit."""
        for partition, offset in offsets.items():
            if tracker := self.trackers.get(partition):
                tracker.committed = offset

    def abandon_queued(self) -> None:
        """Give up every batch that nobody has begun."""
        for partition, tracker in self.trackers.items():
            self._report_abandoned(partition, tracker.abandon_queued())

    def forget(self, partition: Partition) -> None:
        """Drop all that is known of a partition that leaves this worker."""
        tracker = self.trackers.pop(partition, None)
        if tracker is not None:
            self._report_abandoned(partition, tracker.abandon_unfinished())
        self.held.pop(partition, None)
        self.halted.pop(partition, None)
        self._ends.pop(partition, None)

    def note_ends(self, ends: Mapping[Partition, int], now: float) -> None:
        """Take note of the ends of the logs; a partition that has reached its end is not late."""
        self._ends.update(ends)
        for partition, tracker in self.trackers.items():
            if not tracker.in_flight and tracker.watermark >= ends.get(partition, tracker.watermark):
                tracker.progressed_at = now

    def excuse_idle(self, now: float) -> None:
        """Count no delay for partitions with nothing in flight: what waits in their logs cannot be read now."""
        for tracker in self.trackers.values():
            if not tracker.in_flight:
                tracker.progressed_at = now

    def status(self, partition: Partition, *, seen_end: int | None, since: float) -> PartitionStatus:
        """Return the state of the partition; ``seen_end`` is the end its last fetch saw, ``since`` its assignment."""
        tracker, halt = self.trackers.get(partition), self.halted.get(partition)
        ends = (seen_end, self._ends.get(partition))
        return PartitionStatus(
            partition=partition,
            watermark=tracker.watermark if tracker else None,
            committed=tracker.committed if tracker else None,
            end_offset=max((end for end in ends if end is not None), default=None),
            batches_in_flight=tracker.in_flight if tracker else 0,
            bytes_in_flight=tracker.nbytes if tracker else 0,
            progressed_at=tracker.progressed_at if tracker else since,
            held_for=self.held.get(partition),
            halted_at=halt.offset if halt else None,
            skip_to=halt.skip_to if halt else None,
        )

    def _report_abandoned(self, partition: Partition, batches: Iterable[RecordBatch]) -> None:
        for batch in batches:
            self._observer.on_abandoned(partition, len(batch.records))
