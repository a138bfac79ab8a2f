"""Which offset may be committed: the finished prefix of the batches of one partition. Pure, no clock, no Kafka."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from workers.transport.batch import BatchState, RecordBatch


class PartitionTracker:
    """Batches of one partition in fetch order, and the watermark they allow.

    The watermark is ``next`` of the last batch of the finished prefix. With nothing in flight it equals ``read_to``,
    so a fetch that brought no record (transaction markers, compacted offsets) moves it too. ``now`` is always in
    monotonic seconds.
    """

    __slots__ = ("_queue", "committed", "progressed_at", "read_to", "watermark")

    def __init__(self, start: int, *, committed: int | None, now: float) -> None:
        self._queue: deque[RecordBatch] = deque()
        self.read_to = start
        self.watermark = start
        self.committed = committed
        self.progressed_at = now

    @property
    def in_flight(self) -> int:
        """Batches in flight, finished ones behind an unfinished one included."""
        return len(self._queue)

    @property
    def nbytes(self) -> int:
        """Bytes of the batches in flight."""
        return sum(batch.nbytes for batch in self._queue)

    @property
    def started(self) -> int:
        """Batches that are being processed."""
        return sum(batch.state is BatchState.STARTED for batch in self._queue)

    @property
    def uncommitted(self) -> bool:
        """Whether there is an offset to commit."""
        return self.watermark != self.committed

    def deliver(self, batch: RecordBatch, now: float) -> None:
        """Take a batch that begins where the last one ended.

        Raises:
            ValueError: it begins elsewhere, so committing past it could skip records.
        """
        if batch.start != self.read_to:
            raise ValueError(f"{batch.partition}: batch begins at {batch.start}, expected {self.read_to}")
        if not self._queue:
            self.progressed_at = now
        self.read_to = batch.next
        self._queue.append(batch)

    def skip_to(self, offset: int, now: float) -> None:
        """Continue at ``offset``: nothing is to be read before it any more.

        Raises:
            ValueError: ``offset`` lies behind what was read.
        """
        if offset < self.read_to:
            raise ValueError(f"cannot skip back from {self.read_to} to {offset}")
        self.read_to = offset
        self._settle(now)

    def complete(self, batch: RecordBatch, now: float) -> bool:
        """Mark a started batch as done; False when it was given up, or was done before.

        Raises:
            RuntimeError: the batch was never begun.
        """
        if batch.state is BatchState.QUEUED:
            raise RuntimeError(f"{batch.partition}: batch at {batch.start} completed before begin()")
        if batch.state is not BatchState.STARTED:
            return False
        batch.state = BatchState.DONE
        self._settle(now)
        return True

    def abandon_queued(self) -> Iterator[RecordBatch]:
        """Give up the batches nobody has begun; they stay in the queue, so the watermark never passes them."""
        return self._abandon(BatchState.QUEUED)

    def abandon_unfinished(self) -> Iterator[RecordBatch]:
        """Give up everything that is not done."""
        return self._abandon(BatchState.QUEUED, BatchState.STARTED)

    def _abandon(self, *states: BatchState) -> Iterator[RecordBatch]:
        for batch in self._queue:
            if batch.state in states:
                batch.state = BatchState.ABANDONED
                yield batch

    def _settle(self, now: float) -> None:
        before = self.watermark
        while self._queue and self._queue[0].state is BatchState.DONE:
            self.watermark = self._queue.popleft().next
        if not self._queue:
            self.watermark = self.read_to
        if self.watermark != before:
            self.progressed_at = now
