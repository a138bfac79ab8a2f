"""The unit of work: raw records of one partition, contiguous in offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from workers.records import Partition, RawRecord


class BatchState(Enum):
    """Life of a batch."""

    QUEUED = "queued"
    STARTED = "started"
    DONE = "done"
    ABANDONED = "abandoned"


class RecordBatch:
    """Raw records of one partition, from offset ``start`` up to, not including, ``next``.

    ``next`` is the client's position after the fetch, so it lies past compaction holes and transaction markers.
    ``nbytes`` is the size of keys, values and headers in bytes, as counted against the worker's byte budget.
    """

    __slots__ = ("_on_complete", "generation", "nbytes", "next", "partition", "records", "start", "state")

    def __init__(
        self,
        partition: Partition,
        generation: int,
        start: int,
        next_offset: int,
        records: Sequence[RawRecord],
        nbytes: int,
        on_complete: Callable[[RecordBatch], bool],
    ) -> None:
        self.partition = partition
        self.generation = generation
        self.start = start
        self.next = next_offset
        self.records = records
        self.nbytes = nbytes
        self.state = BatchState.QUEUED
        self._on_complete = on_complete

    def begin(self) -> bool:
        """Mark the batch as started; False when it was abandoned at a rebalance and must not be processed."""
        if self.state is not BatchState.QUEUED:
            return False
        self.state = BatchState.STARTED
        return True

    def complete(self) -> bool:
        """Acknowledge the batch; call it only after every output of it is acknowledged.

        Returns False when the batch was abandoned or its partition has left this worker: then it counts nowhere.
        """
        return self._on_complete(self)
