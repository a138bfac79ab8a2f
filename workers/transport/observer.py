"""What the transport tells the app about, without knowing any metrics library."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Protocol

from workers.metrics.labels import CommitOutcome
from workers.records import Partition


class HaltCause(StrEnum):
    """Why a record cannot be read. The record itself is never quoted."""

    BAD_CRC = "bad_crc"
    BAD_HEADER_KEY = "bad_header_key"
    UNREADABLE = "unreadable"
    TOO_LARGE_TO_FETCH = "too_large_to_fetch"


class TransportObserver(Protocol):
    """Hooks of the transport. All run on the main loop, must be quick and must not raise."""

    def on_assigned(self, partitions: AbstractSet[Partition]) -> None:
        """The group gave these partitions to this worker; called before the first batch of any of them."""

    def on_revoked(self, partitions: AbstractSet[Partition]) -> None:
        """These partitions have left this worker: drained, committed and forgotten."""

    def on_fetched(self, partition: Partition, n_records: int, n_bytes: int) -> None:
        """A batch of ``n_records`` records with ``n_bytes`` bytes was delivered."""

    def on_commit(self, outcome: CommitOutcome, offsets: Mapping[Partition, int]) -> None:
        """A commit of ``offsets`` (next offset to read, by partition) ended."""

    def on_halt(self, partition: Partition, offset: int, cause: HaltCause) -> None:
        """The record at ``offset`` cannot be read; the partition stops there, the others go on."""

    def on_offsets_lost(self, partition: Partition, first: int, next_offset: int) -> None:
        """Records from ``first`` up to, not including, ``next_offset`` were deleted before they were read.

        ``next_offset`` not above ``first`` means that the log now ends before ``first`` (topic made anew or
        truncated) and is read again from ``next_offset``.
        """

    def on_gap(self, partition: Partition, expected: int, got: int) -> None:
        """A fetch began at ``got`` instead of ``expected``; it was discarded and is read again."""

    def on_stale(self, partition: Partition, n_records: int) -> None:
        """A fetch of an older generation, or of a stopped flow, was discarded; it will be read again."""

    def on_abandoned(self, partition: Partition, n_records: int) -> None:
        """``n_records`` records delivered to this worker were given up; the next owner reads them again."""

    def on_late_completion(self, partition: Partition, n_records: int) -> None:
        """A batch was completed after it had been given up; it counts nowhere."""

    def on_drained(self, seconds: float, abandoned_batches: int) -> None:
        """A drain took ``seconds``; ``abandoned_batches`` were started and did not finish by the deadline."""


class SilentObserver:
    """An observer that ignores everything; base for observers that want only a few of the hooks."""

    def on_assigned(self, partitions: AbstractSet[Partition]) -> None:
        """Ignore."""

    def on_revoked(self, partitions: AbstractSet[Partition]) -> None:
        """Ignore."""

    def on_fetched(self, partition: Partition, n_records: int, n_bytes: int) -> None:
        """Ignore."""

    def on_commit(self, outcome: CommitOutcome, offsets: Mapping[Partition, int]) -> None:
        """Ignore."""

    def on_halt(self, partition: Partition, offset: int, cause: HaltCause) -> None:
        """Ignore."""

    def on_offsets_lost(self, partition: Partition, first: int, next_offset: int) -> None:
        """Ignore."""

    def on_gap(self, partition: Partition, expected: int, got: int) -> None:
        """Ignore."""

    def on_stale(self, partition: Partition, n_records: int) -> None:
        """Ignore."""

    def on_abandoned(self, partition: Partition, n_records: int) -> None:
        """Ignore."""

    def on_late_completion(self, partition: Partition, n_records: int) -> None:
        """Ignore."""

    def on_drained(self, seconds: float, abandoned_batches: int) -> None:
        """Ignore."""
