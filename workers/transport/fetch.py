"""Cutting what aiokafka has fetched into chunks of bounded size, in the consumer's thread.

Records are unpacked lazily, so a chunk stops exactly where its bounds are reached, and a record that cannot be
unpacked costs nothing before it: aiokafka's own ``getmany`` throws away what it has unpacked so far and fetches the
same records for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.consumer.fetcher import Fetcher, FetchResult
from aiokafka.consumer.subscription_state import TopicPartitionState
from aiokafka.errors import NoOffsetForPartitionError, OffsetOutOfRangeError, RecordTooLargeError

from workers.transport.observer import HaltCause
from workers.transport.salvage import Unreadable


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one chunk, and bytes that may be taken over all partitions."""

    max_records: int
    max_bytes: int
    budget: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one partition: from position ``start`` to position ``next``, which may lie past the last record."""

    start: int
    next: int
    records: tuple[ConsumerRecord, ...]
    nbytes: int

    def split(self, max_bytes: int) -> Iterator[Chunk]:
        """Yield chunks that stay within ``max_bytes``; a single larger record is a chunk of its own."""
        start, first, size = self.start, 0, 0
        for index, record in enumerate(self.records):
            nbytes = record_size(record)
            if index > first and size + nbytes > max_bytes:
                cut = self.records[index - 1].offset + 1
                yield Chunk(start, cut, self.records[first:index], size)
                start, first, size = cut, index, 0
            size += nbytes
        yield Chunk(start, self.next, self.records[first:], size)


class Trouble(Enum):
    """Why a partition cannot be read on at its position."""

    UNREADABLE = auto()
    OUT_OF_RANGE = auto()
    NO_OFFSET = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class FetchProblem:
    """Trouble at ``offset`` (None where there is no position yet); ``error`` is the name of the client's error.

    ``unreadable`` says which records, where that is the trouble.
    """

    trouble: Trouble
    offset: int | None
    error: str
    unreadable: Unreadable | None = None


def record_size(record: ConsumerRecord) -> int:
    """Return the bytes of key, value and headers."""
    size: int = max(record.serialized_key_size, 0) + max(record.serialized_value_size, 0)
    for key, value in record.headers:
        size += len(key) + len(value or b"")
    return size


class ChunkReader:
    """Reads chunks out of aiokafka's fetcher. Not thread-safe: lives in the consumer's loop.

    A record that cannot be unpacked is fetched once more, since a checksum may be broken on the wire; only when it
    fails again at the same offset does the partition have a problem.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._suspects: dict[TopicPartition, int] = {}

    def read(
        self, tp: TopicPartition, state: TopicPartitionState, limits: Limits
    ) -> tuple[Chunk | None, FetchProblem | None]:
        """Return the next chunk of ``tp``, if any, and what stands in its way, if anything."""
        result = self._fetcher._records.get(tp)
        if result is None:
            return None, None
        if not isinstance(result, FetchResult):
            self._release(tp)
            return None, self._error_of(result._error, tp, state)
        if not state.has_valid_position or not result.check_assignment(tp) or not result.has_more():
            self._release(tp)
            return None, None
        return self._unpack(tp, state, result, limits)

    def _unpack(
        self, tp: TopicPartition, state: TopicPartitionState, result: FetchResult, limits: Limits
    ) -> tuple[Chunk | None, FetchProblem | None]:
        start = state.position
        records: list[ConsumerRecord] = []
        nbytes = 0
        failure: Exception | None = None
        try:
            for record in result._partition_records:
                records.append(record)
                nbytes += record_size(record)
                if len(records) >= limits.max_records or nbytes >= limits.max_bytes:
                    break
            else:
                self._release(tp)
        except Exception as exc:  # noqa: BLE001 - whatever a record raises must stop its partition only
            failure = exc
            self._release(tp)
        result._update_position()
        position = state.position
        chunk = Chunk(start, position, tuple(records), nbytes) if records or position != start else None
        if failure is None:
            if self._suspects.get(tp, position) < position:
                del self._suspects[tp]
            return chunk, None
        confirmed = self._suspects.get(tp) == position
        self._suspects[tp] = position
        return chunk, FetchProblem(Trouble.UNREADABLE, position, type(failure).__name__) if confirmed else None

    def _error_of(self, error: Exception, tp: TopicPartition, state: TopicPartitionState) -> FetchProblem | None:
        name = type(error).__name__
        position = state.position if state.has_valid_position else None
        if isinstance(error, NoOffsetForPartitionError):
            return None if position is not None else FetchProblem(Trouble.NO_OFFSET, None, name)
        if isinstance(error, OffsetOutOfRangeError):
            stale = position is None or error.args[0].get(tp) != position
            return None if stale else FetchProblem(Trouble.OUT_OF_RANGE, position, name)
        if isinstance(error, RecordTooLargeError) and position is not None:
            # The client has stepped over the record already, although nobody has read it.
            self._fetcher.seek_to(tp, position - 1)
            too_large = Unreadable(position - 1, position, HaltCause.TOO_LARGE_TO_FETCH)
            return FetchProblem(Trouble.UNREADABLE, position - 1, name, too_large)
        return FetchProblem(Trouble.REFUSED, position, name)

    def _release(self, tp: TopicPartition) -> None:
        """Let aiokafka fetch this partition again."""
        del self._fetcher._records[tp]
        self._fetcher._notify(self._fetcher._wait_consume_future)
