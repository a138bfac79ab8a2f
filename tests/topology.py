"""The pipeline of one partition without brokers: a list of records in, results with their outputs out."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

import fastavro

from workers.agents.accounts import Accounts
from workers.agents.columns import open_columns
from workers.agents.pipeline import Opened, Pipeline
from workers.metrics.exporter import Exporter
from workers.metrics.spec import Tally
from workers.outputs.dlq import LetterWriter
from workers.processing.duplicates import DuplicateWindow
from workers.processing.erasure import KnownTurns
from workers.processing.outcome import RecordResult
from workers.processing.path_watch import PathTopics, PathWatch
from workers.processing.paths import PathInventory
from workers.processing.policy import Policy
from workers.processing.turn_state import TurnOutputs, TurnState
from workers.processing.turns import TurnJudge
from workers.records import Output, Partition, StoredRecord
from workers.serde.avro_schema import plain
from workers.serde.encoder import Encoder
from workers.serde.limits import TURN_LIMITS
from workers.serde.local_registry import LocalRegistry
from workers.serde.records import RecordDecoder
from workers.serde.resolver import CachingResolver
from workers.serde.schemas import Schema, load, load_ids
from workers.testing.traffic import GeneratedRecord
from workers.transport.batch import RecordBatch

APPEND_MS = 1_796_000_100_000
"""Append time of the first record; each later one a millisecond after."""


def stored(records: Iterable[GeneratedRecord], first_offset: int = 0) -> list[StoredRecord]:
    """Return ``records`` as they would lie in one partition."""
    return [
        StoredRecord(offset, APPEND_MS + offset, record.key, record.value, record.headers)
        for offset, record in enumerate(records, first_offset)
    ]


def encoder(subject: str) -> Encoder:
    """Return the encoder of ``subject`` under its shipped id."""
    return Encoder(load(subject), load_ids()[subject][1].id)


def decoded(subject: str, output: Output) -> dict[str, Any]:
    """Return the value of ``output``, read by the plain library with our schema."""
    assert output.value is not None
    assert output.value[:5] == b"\x00" + load_ids()[subject][1].id.to_bytes(4, "big")
    value = fastavro.schemaless_reader(
        io.BytesIO(output.value[5:]), fastavro.parse_schema(cast("Schema", plain(load(subject))))
    )
    assert isinstance(value, dict)
    return value


BY_COLUMNS = False
"""Whether a topology judges by columns that is not told."""


class TurnTopology:
    """A judge of turns with everything around it in memory; by columns as far as they reach, if ``columns`` is set."""

    def __init__(
        self, policy: Policy | None = None, source: Partition | None = None, *, columns: bool | None = None
    ) -> None:
        self.policy = policy or Policy()
        self.source = source or Partition("turns", 0)
        by_columns = BY_COLUMNS if columns is None else columns
        self.routes: Counter[tuple[str, str]] = Counter()
        self._decoder = RecordDecoder(CachingResolver(LocalRegistry(), "turns", TURN_LIMITS), TURN_LIMITS)
        topics = PathTopics("alerts", "producer-paths", encoder("alerts").encode, encoder("producer-paths").encode)
        watch = PathWatch(self.source, topics, PathInventory(self.source), lambda _: False, lambda: self.policy.version)
        verdicts = encoder("fidelity")
        outputs = TurnOutputs("fidelity", 4, verdicts.encode)
        state = TurnState(self.source, outputs, watch, DuplicateWindow(), KnownTurns())
        opener = open_columns(TURN_LIMITS, lambda: self.policy, verdicts.schema_id, fewest_rows=1)
        self._pipeline = Pipeline(
            self.source,
            self._decoder,
            lambda _: _opened(Opened(TurnJudge(state, lambda: self.policy), opener(state) if by_columns else None)),
            lambda: LetterWriter("turns-dlq", 1_000_000, "test", self.policy.version),
            lambda: None,
            Accounts(Exporter()),
        )

    async def run(self, records: list[StoredRecord]) -> list[RecordResult]:
        """Return the end of each of ``records``, in order; their counts are in the tally of each."""
        await self._pipeline.restore()
        batch = RecordBatch(self.source, 0, records[0].offset, records[-1].offset + 1, records, 0, lambda _: True)
        outcome = await self._pipeline.process(batch)
        self.routes.update(outcome.routes)
        for result in outcome.results:
            if result.position is not None and outcome.column_tally is not None:
                result.tally = result.tally or Tally()
                result.tally.counts.update(outcome.column_tally({result.position}).counts)
        return outcome.results


async def _opened(opened: Opened) -> Opened:
    return opened
