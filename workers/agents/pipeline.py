"""What a lane does to a batch: decode, judge, and count once everything is acknowledged."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Protocol

from workers.agents.accounts import Accounts
from workers.errors import first_frame
from workers.metrics.labels import Stage
from workers.metrics.spec import Tally
from workers.outputs.dlq import LetterWriter
from workers.processing.outcome import BatchOutcome, RecordResult, rejected
from workers.reasons import Reason, Rejection
from workers.records import Output, Partition, RawRecord
from workers.serde.admission import WriterSchema
from workers.serde.records import Ending, Parsed, RecordDecoder
from workers.serde.wire_format import Frame, SchemaRef
from workers.transport.batch import RecordBatch

log = logging.getLogger(__name__)

SLICE_SECONDS: Final = 0.005
"""How long records are handled before other tasks get their turn: ticks of the health check, acknowledgements, signals.
One record may take longer; what costs much is not known before."""


class Judge(Protocol):
    """Decides the end of decoded records of one partition; pure but for the partition's own state."""

    def judge(self, record: RawRecord, ending: Ending) -> RecordResult:
        """Return what becomes of ``record``."""

    def state_rows(self) -> list[Output]:
        """Return the rows of state that changed and are due, to be written after the outputs."""


class PreparedBatch(Protocol):
    """What columns know of the records of one batch, before any of them is applied to the partition's state."""

    @property
    def routes(self) -> Mapping[tuple[str, str], int]:
        """Records by the way they take, and why."""

    @property
    def decode_seconds(self) -> float:
        """Wall-clock seconds that decoding took."""

    def settle(self, position: int, record: RawRecord, frame: Frame) -> RecordResult | None:
        """Return what becomes of the record at ``position``; None where the reference must judge it."""

    def finish(self, records: Sequence[RawRecord]) -> None:
        """Apply to the state what is applied once for all settled records, after the last of them."""

    def tally(self, positions: AbstractSet[int]) -> Tally:
        """Return the counts of the records at ``positions``, which were settled and keep their end."""


class Columns(Protocol):
    """Judges the records of one partition by the batch, as far as it can."""

    def prepare(
        self,
        records: Sequence[RawRecord],
        frames: Sequence[Parsed],
        writers: Mapping[SchemaRef, WriterSchema | Rejection],
    ) -> PreparedBatch:
        """Decode and judge what can be told of each record alone."""


class Opened(NamedTuple):
    """The state of a partition, restored: who judges its records, and columns that may do so first."""

    judge: Judge
    columns: Columns | None = None


class _Slices:
    """Lets other tasks run whenever a slice of time is over."""

    def __init__(self) -> None:
        self._until = time.perf_counter() + SLICE_SECONDS

    async def give_way(self) -> None:
        if time.perf_counter() >= self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + SLICE_SECONDS


class Pipeline:
    """Judges the batches of one partition.

    ``open_judge`` is awaited before the first batch and restores the partition's state; ``letters`` returns the writer
    of dead letters under the policy in force; ``before_batch`` is called before each batch, to
    take in a changed policy.
    """

    def __init__(
        self,
        partition: Partition,
        decoder: RecordDecoder,
        open_judge: Callable[[Partition], Awaitable[Opened]],
        letters: Callable[[], LetterWriter],
        before_batch: Callable[[], object],
        accounts: Accounts,
    ) -> None:
        self._partition = partition
        self._decoder = decoder
        self._open_judge = open_judge
        self._letters = letters
        self._before_batch = before_batch
        self._accounts = accounts
        self._opened: Opened | None = None

    async def restore(self) -> None:
        """Open the judge with the state that the partition had."""
        self._opened = await self._open_judge(self._partition)
        self._accounts.restored(self._partition)

    async def process(self, batch: RecordBatch) -> BatchOutcome:
        """Decide the end of every record of ``batch``.

        Raises:
            UnreachableError: a schema that is needed cannot be looked up now.
        """
        if self._opened is None:
            raise RuntimeError("the state of the partition is not restored; call restore first")
        judge, columns = self._opened
        self._before_batch()
        started = time.perf_counter()
        frames = self._decoder.frames(batch.records)
        writers = await self._decoder.writers(frames)
        self._accounts.writers_seen(writers)
        resolved = time.perf_counter()
        prepared = columns.prepare(batch.records, frames, writers) if columns is not None else _NoColumns(frames)
        results: list[RecordResult] = []
        slices = _Slices()
        for position, (record, frame) in enumerate(zip(batch.records, frames, strict=True)):
            result = prepared.settle(position, record, frame) if isinstance(frame, Frame) else None
            if result is None:
                result = self._judge(judge, record, self._decoder.decode(frame, writers))
                await slices.give_way()
            results.append(result)
        prepared.finish(batch.records)
        outcome = BatchOutcome(results, judge.state_rows(), routes=prepared.routes, column_tally=prepared.tally)
        outcome.seconds = {
            Stage.RESOLVE: resolved - started,
            Stage.DECODE: prepared.decode_seconds,
            Stage.PROCESS: time.perf_counter() - resolved - prepared.decode_seconds,
        }
        return outcome

    def _judge(self, judge: Judge, record: RawRecord, ending: Ending) -> RecordResult:
        if isinstance(ending, Rejection):
            return rejected(record, ending)
        try:
            return judge.judge(record, ending)
        except Exception as error:  # noqa: BLE001 - one record we cannot handle must not stop the others
            log.error(  # noqa: TRY400 - a traceback could quote the record
                "%s-%d: record %d failed with %s at %s; it goes to the dead letters",
                self._partition.topic,
                self._partition.number,
                record.offset,
                type(error).__name__,
                first_frame(error),
            )
            return rejected(record, Rejection(Reason.PROCESSING_FAILED, "process"))

    def letter(self, record: RawRecord, rejection: Rejection, *, truncate: bool = False) -> Output:
        """Return the dead letter of ``record``."""
        return self._letters().letter(self._partition, record, rejection, truncate=truncate)

    def completed(self, batch: RecordBatch, outcome: BatchOutcome) -> None:
        """Count ``batch``, whose outputs are all acknowledged."""
        self._accounts.completed(batch, outcome)


class _NoColumns:
    """The batch of a partition without columns: the reference judges all of it."""

    decode_seconds = 0.0

    def __init__(self, frames: Sequence[Parsed]) -> None:
        self.routes = {("reference", "no_columns"): sum(isinstance(frame, Frame) for frame in frames)}

    def settle(self, position: int, record: RawRecord, frame: Frame) -> None:
        """Settle nothing."""

    def finish(self, records: Sequence[RawRecord]) -> None:
        """Apply nothing."""

    def tally(self, positions: AbstractSet[int]) -> Tally:
        """Count nothing."""
        return Tally()
