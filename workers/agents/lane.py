"""A lane: the one sequential task of a partition, from received batch to acknowledged outputs."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from workers.agents.halt import SLOW_SECONDS, Backoff, Halt, Holds
from workers.errors import UnreachableError, first_frame
from workers.metrics.labels import HaltReason, Stage
from workers.outputs.publisher import Publisher, Refusal, RefusalKind
from workers.processing.outcome import BatchOutcome, End, RecordResult
from workers.reasons import Reason, Rejection
from workers.records import Output, Partition, RawRecord
from workers.transport.batch import RecordBatch

log = logging.getLogger(__name__)

OURS_IN_A_ROW: Final = 50
"""As many letters for faults of ours may follow each other; then the partition halts, so a bug cannot drain a topic."""

_REASON_OF = {RefusalKind.TOO_LARGE: Reason.OUTPUT_TOO_LARGE, RefusalKind.REJECTED: Reason.OUTPUT_REJECTED}


class Processor(Protocol):
    """What a lane does to the batches of its partition."""

    async def restore(self) -> None:
        """Bring the state of the partition up to date before the first batch.

        Raises:
            UnreachableError: the schema of a row of the state cannot be looked up now.
        """

    async def process(self, batch: RecordBatch) -> BatchOutcome:
        """Decide the end of every record of ``batch``.

        Raises:
            UnreachableError: a schema that is needed cannot be looked up now.
        """

    def letter(self, record: RawRecord, rejection: Rejection, *, truncate: bool = False) -> Output:
        """Return the dead letter of ``record``; without its value when ``truncate`` is set."""

    def completed(self, batch: RecordBatch, outcome: BatchOutcome) -> None:
        """Count a batch whose outputs are all acknowledged."""


class Lane:
    """Runs the batches of one partition, one after the other."""

    def __init__(
        self,
        partition: Partition,
        processor: Processor,
        publisher: Publisher,
        holds: Holds,
        backoff: Backoff | None = None,
    ) -> None:
        self.partition = partition
        self._processor = processor
        self._publisher = publisher
        self._holds = holds
        self._backoff = backoff or Backoff()
        self._queue: asyncio.Queue[RecordBatch] = asyncio.Queue()
        self._unfinished: deque[RecordBatch] = deque()
        self._ours_before = 0
        self._task = asyncio.create_task(self._run(), name=f"lane {partition.topic}-{partition.number}")

    @property
    def oldest_append_ms(self) -> int | None:
        """Append time of the oldest record that is not finished, in milliseconds; None when there is none."""
        return self._unfinished[0].records[0].timestamp if self._unfinished else None

    def submit(self, batch: RecordBatch) -> None:
        """Queue ``batch``; the transport bounds how many are queued."""
        self._unfinished.append(batch)
        self._queue.put_nowait(batch)

    async def stop(self) -> None:
        """Leave whatever is unfinished: it is received again by the next owner."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        await self._until_done("restore", self._restore)
        while True:
            batch = await self._queue.get()
            if batch.begin():
                await self._until_done("batch", partial(self._handle, batch))
            self._unfinished.popleft()

    async def _restore(self) -> None:
        with self._halt() as halt:
            while True:
                try:
                    await self._processor.restore()
                except UnreachableError as error:
                    await halt.wait(HaltReason.REGISTRY, str(error))
                else:
                    return

    async def _until_done(self, what: str, step: Callable[[], Awaitable[None]]) -> None:
        """Run ``step``; a bug in it leaves the partition where it is, for the watchdog to see, and is tried again."""
        for attempt in itertools.count():
            try:
                await step()
            except Exception as error:  # noqa: BLE001 - whatever it is, the partition must stop, not the worker
                frame = first_frame(error)
                log.critical(
                    "%s-%d: %s failed with %s at %s; the partition stays where it is",
                    self.partition.topic,
                    self.partition.number,
                    what,
                    type(error).__name__,
                    frame,
                )
                await asyncio.sleep(self._backoff.pause(attempt))
            else:
                return

    async def _handle(self, batch: RecordBatch) -> None:
        outcome = await self._process(batch)
        started = time.perf_counter()
        await self._deliver(outcome)
        await self._publish_rows(outcome.state_rows)
        outcome.seconds[Stage.PUBLISH] = time.perf_counter() - started
        self._ours_before = _trailing_ours(outcome.results, self._ours_before)
        if batch.complete():
            self._processor.completed(batch, outcome)

    async def _process(self, batch: RecordBatch) -> BatchOutcome:
        with self._halt() as halt:
            while True:
                try:
                    outcome = await self._processor.process(batch)
                except UnreachableError as error:
                    await halt.wait(HaltReason.REGISTRY, str(error))
                    continue
                if _longest_ours(outcome.results, self._ours_before) <= OURS_IN_A_ROW:
                    return outcome
                await halt.wait(HaltReason.OURS_IN_A_ROW, f"over {OURS_IN_A_ROW} records in a row failed")

    async def _deliver(self, outcome: BatchOutcome) -> None:
        """Publish the outputs and letters of all results until each is acknowledged or has become a letter."""
        by_offset = {result.record.offset: n for n, result in enumerate(outcome.results)}
        pending: list[Output] = []
        for result in outcome.results:
            if result.rejection is not None:
                result.outputs = (self._processor.letter(result.record, result.rejection),)
            pending.extend(result.outputs)
        with self._halt() as halt:
            refusals = await self._publish(pending, halt)
            while refusals:
                if any(refusal.kind in _REASON_OF for refusal in refusals):
                    refusals = await self._one_by_one(outcome, by_offset, refusals, halt)
                if not refusals:
                    return
                await halt.wait(*self._why_halted(outcome, refusals[0]))
                refusals = await self._publish([refusal.output for refusal in refusals], halt)

    async def _one_by_one(
        self, outcome: BatchOutcome, by_offset: dict[int, int], refusals: list[Refusal], halt: Halt
    ) -> list[Refusal]:
        """Send refused outputs singly: a record at fault becomes a letter. Returns what cannot be written now."""
        for n, refusal in enumerate(refusals):
            alone = await self._publish([refusal.output], halt)
            if not alone:
                continue
            reason, offset = _REASON_OF.get(alone[0].kind), refusal.output.source_offset
            if reason is None or offset is None:
                return [*alone, *refusals[n + 1 :]]
            index = by_offset[offset]
            result = outcome.results[index]
            if _ours_up_to(outcome.results, index, self._ours_before) >= OURS_IN_A_ROW:
                return [*alone, *refusals[n + 1 :]]
            letter = self._letter_instead(result, reason)
            undelivered = await self._publish([letter], halt)
            if undelivered:
                return [*undelivered, *refusals[n + 1 :]]
        return []

    def _letter_instead(self, result: RecordResult, reason: Reason) -> Output:
        """Turn ``result`` into a letter; a letter that was itself refused goes without its value."""
        truncate = result.rejection is not None
        rejection = result.rejection or Rejection(reason, "output")
        letter = self._processor.letter(result.record, rejection, truncate=truncate)
        result.end, result.outputs, result.rejection = End.DLQ, (letter,), rejection
        result.tally = result.position = None
        return letter

    def _why_halted(self, outcome: BatchOutcome, refusal: Refusal) -> tuple[HaltReason, str]:
        text = _refusal_text(refusal)
        if any(refusal.output in result.outputs for result in outcome.results if result.rejection is not None):
            return HaltReason.DEAD_LETTER, text
        if refusal.kind in _REASON_OF and refusal.output.source_offset is not None:
            return HaltReason.OURS_IN_A_ROW, f"{text}, as {OURS_IN_A_ROW} outputs in a row before it"
        return HaltReason.OUTPUT, text

    async def _publish_rows(self, rows: list[Output]) -> None:
        with self._halt() as halt:
            while refusals := await self._publish(rows, halt):
                rows = [refusal.output for refusal in refusals]
                await halt.wait(HaltReason.OUTPUT, _refusal_text(refusals[0]))

    async def _publish(self, outputs: list[Output], halt: Halt) -> list[Refusal]:
        """Publish; brokers that do not answer for long halt the partition, and are waited for."""
        publication = asyncio.ensure_future(self._publisher.publish(outputs))
        try:
            await asyncio.wait({publication}, timeout=SLOW_SECONDS)
            if not publication.done():
                halt.note(HaltReason.OUTPUT, f"no acknowledgement for {SLOW_SECONDS:.0f} s; the brokers are waited for")
            return await publication
        finally:
            publication.cancel()

    def _halt(self) -> Halt:
        return Halt(self.partition, self._holds, self._backoff)


def _refusal_text(refusal: Refusal) -> str:
    return f"{refusal.output.topic} refuses the output: {refusal.cause}"


def _ours_up_to(results: list[RecordResult], index: int, before: int) -> int:
    """Return how many results in a row before ``index`` are faults of ours, ``before`` counted in front of them."""
    run = 0
    for result in reversed(results[:index]):
        if not result.is_ours:
            return run
        run += 1
    return run + before


def _trailing_ours(results: list[RecordResult], before: int) -> int:
    return _ours_up_to(results, len(results), before)


def _longest_ours(results: list[RecordResult], before: int) -> int:
    longest = run = before
    for result in results:
        run = run + 1 if result.is_ours else 0
        longest = max(longest, run)
    return longest
