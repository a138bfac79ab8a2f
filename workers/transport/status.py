"""What health checks and metrics may know about each partition, and how a worker ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from workers.records import Partition


class ExitCode(IntEnum):
    """Exit codes of the worker that the transport decides on."""

    DRAINED = 0
    WORK_ABANDONED = 3


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """State of one assigned partition at one moment.

    Attributes:
        partition: topic and number.
        watermark: next offset after the finished prefix; None until the position is known.
        committed: last offset whose commit was confirmed; None if none is known.
        end_offset: end of the log, or last stable offset under ``read_committed``; None until known.
        batches_in_flight: delivered, not complete.
        bytes_in_flight: their bytes.
        progressed_at: monotonic seconds when the watermark last moved, or when the partition last had nothing to do.
        held_for: reason given by `BatchConsumer.hold`, None when not held.
        halted_at: offset of the record that cannot be read, None when not halted.
        skip_to: first offset behind it that can be read, for `BatchConsumer.resume`.
    """

    partition: Partition
    watermark: int | None
    committed: int | None
    end_offset: int | None
    batches_in_flight: int
    bytes_in_flight: int
    progressed_at: float
    held_for: str | None
    halted_at: int | None
    skip_to: int | None = None

    @property
    def lag(self) -> int | None:
        """Offsets between the watermark and the end, None until both are known."""
        if self.watermark is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.watermark)

    @property
    def has_work(self) -> bool:
        """Whether anything is in flight or waiting in the log."""
        return self.batches_in_flight > 0 or bool(self.lag)

    @property
    def stopped_on_purpose(self) -> bool:
        """Whether the lack of progress is deliberate: held by its lane, or halted at a record that cannot be read."""
        return self.held_for is not None or self.halted_at is not None
