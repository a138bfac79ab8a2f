"""The pipeline between the lane and the judge, without Kafka."""

from __future__ import annotations

import asyncio
import time

from topology import APPEND_MS

from workers.agents.accounts import Accounts
from workers.agents.pipeline import SLICE_SECONDS, Opened, Pipeline
from workers.metrics.exporter import Exporter
from workers.metrics.labels import End
from workers.outputs.dlq import LetterWriter
from workers.processing.outcome import RecordResult
from workers.records import Output, Partition, RawRecord, StoredRecord
from workers.serde.limits import TURN_LIMITS
from workers.serde.local_registry import LocalRegistry
from workers.serde.records import Ending, RecordDecoder
from workers.serde.resolver import CachingResolver
from workers.transport.batch import RecordBatch

TURNS = Partition("turns", 0)


class SlowJudge:
    """Takes more than a slice of time for each record."""

    def judge(self, record: RawRecord, ending: Ending) -> RecordResult:
        time.sleep(2 * SLICE_SECONDS)
        return RecordResult(record, End.TOMBSTONE)

    def state_rows(self) -> list[Output]:
        return []


async def test_records_that_take_long_leave_others_their_turn_between_them() -> None:
    async def open_judge(_: Partition) -> Opened:
        return Opened(SlowJudge())

    decoder = RecordDecoder(CachingResolver(LocalRegistry(), "turns", TURN_LIMITS), TURN_LIMITS)
    letters = LetterWriter("turns-dlq", 1_000_000, "host:worker", "abc")
    pipeline = Pipeline(TURNS, decoder, open_judge, lambda: letters, lambda: None, Accounts(Exporter()))
    await pipeline.restore()
    records = [StoredRecord(offset, APPEND_MS, b"a|b", None) for offset in range(5)]
    turns_of_others = 0

    async def tick() -> None:
        nonlocal turns_of_others
        while True:
            await asyncio.sleep(0)
            turns_of_others += 1

    ticking = asyncio.create_task(tick())
    await pipeline.process(RecordBatch(TURNS, 1, 0, 5, records, 0, lambda _: True))
    ticking.cancel()
    assert turns_of_others >= len(records) - 1
