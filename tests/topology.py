"""The pipeline of one partition without brokers: a list of records in, results with their outputs out."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, cast

import fastavro

from workers.processing.duplicates import DuplicateWindow
from workers.processing.outcome import RecordResult, rejected
from workers.processing.path_watch import PathTopics, PathWatch
from workers.processing.paths import PathInventory
from workers.processing.policy import Policy
from workers.processing.turns import TurnJudge, TurnOutputs
from workers.reasons import Rejection
from workers.records import Output, Partition, StoredRecord
from workers.serde.avro_schema import plain
from workers.serde.encoder import Encoder
from workers.serde.limits import TURN_LIMITS
from workers.serde.local_registry import LocalRegistry
from workers.serde.records import RecordDecoder
from workers.serde.resolver import CachingResolver
from workers.serde.schemas import Schema, load, load_ids
from workers.testing.traffic import GeneratedRecord

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


class TurnTopology:
    """A judge of turns with everything around it in memory."""

    def __init__(self, policy: Policy | None = None, source: Partition | None = None) -> None:
        self.policy = policy or Policy()
        self.source = source or Partition("turns", 0)
        self._decoder = RecordDecoder(CachingResolver(LocalRegistry(), "turns", TURN_LIMITS), TURN_LIMITS)
        topics = PathTopics("alerts", "producer-paths", encoder("alerts").encode, encoder("producer-paths").encode)
        watch = PathWatch(self.source, topics, PathInventory(self.source), lambda _: False, lambda: self.policy.version)
        self.judge = TurnJudge(
            self.source,
            TurnOutputs("fidelity", 4, encoder("fidelity").encode),
            lambda: self.policy,
            watch,
            DuplicateWindow(),
        )

    async def run(self, records: list[StoredRecord]) -> list[RecordResult]:
        """Return the end of each of ``records``, in order."""
        frames = self._decoder.frames(records)
        writers = await self._decoder.writers(frames)
        results = []
        for record, frame in zip(records, frames, strict=True):
            ending = self._decoder.decode(frame, writers)
            if isinstance(ending, Rejection):
                results.append(rejected(record, ending))
            else:
                results.append(self.judge.judge(record, ending))
        return results
