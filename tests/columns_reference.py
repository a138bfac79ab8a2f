"""The reference's end of a turn, for comparison with columns: its verdict in bytes, and what it counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from column_tables import is_odd, table_of

from workers.keys import encode_key
from workers.metrics import catalogue as m
from workers.metrics.spec import Metric
from workers.processing.columns.completeness import CompletenessJudge
from workers.processing.columns.judge import JudgedColumns, judge_columns
from workers.processing.columns.verdicts import encode_verdicts
from workers.processing.duplicates import DuplicateWindow
from workers.processing.erasure import KnownTurns
from workers.processing.outcome import End
from workers.processing.path_watch import PathTopics, PathWatch
from workers.processing.paths import PathInventory
from workers.processing.policy import Policy
from workers.processing.turn_state import TurnOutputs, TurnState
from workers.processing.turns import TurnJudge
from workers.records import Partition, StoredRecord
from workers.serde.admission import WriterSchema, admit
from workers.serde.encoder import Encoder
from workers.serde.limits import TURN_LIMITS
from workers.serde.records import Decoded
from workers.serde.schemas import load

SCHEMA_ID: Final = 300
APPEND_MS: Final = 1_790_000_100_000
COUNTED: Final = frozenset(
    {
        m.FIDELITY_TURNS,
        m.FIDELITY_GAPS,
        m.FIDELITY_FINDINGS,
        m.FIDELITY_ISSUES,
        m.FIDELITY_DIGEST_CHECKS,
        m.FINGERPRINT_TURNS,
        m.FINGERPRINT_INCOMPLETE,
        m.TIER2_MISSING,
        m.UNKNOWN_ATTESTATIONS,
    }
)
"""The metrics that are about what a turn holds, and not about its record."""

Counts = Counter[tuple[Metric, tuple[str, ...]]]


class Answer(NamedTuple):
    """What the reference makes of one turn."""

    verdict: bytes
    counts: Counts


class Batch(NamedTuple):
    """What columns make of some turns: verdicts, None where routed, and what was judged."""

    verdicts: list[bytes | None]
    judged: JudgedColumns


@cache
def writer() -> WriterSchema:
    """Return our own schema of turns as a writer's."""
    admitted = admit(json.dumps(load("turns")), "turns", TURN_LIMITS, 1)
    assert isinstance(admitted, WriterSchema)
    return admitted


class Paths:
    """Both paths under one policy."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        source = Partition("turns", 0)
        encoder = Encoder(load("fidelity"), SCHEMA_ID)
        ignored = PathTopics("alerts", "producer-paths", lambda _: b"", lambda _: b"")
        watch = PathWatch(source, ignored, PathInventory(source), lambda _: True, lambda: "")
        # Offsets further apart than the window, so that no turn is a repeat.
        outputs = TurnOutputs("fidelity", 1, encoder.encode)
        state = TurnState(source, outputs, watch, DuplicateWindow(1), KnownTurns())
        self._judge = TurnJudge(state, lambda: self.policy)
        self._offset = 0
        self._completeness = CompletenessJudge()

    def reference(
        self, turn: Mapping[str, Any], presence: frozenset[str] | None = None, append_ms: int = APPEND_MS
    ) -> Answer:
        """Judge one turn as the reference does."""
        self._offset += 10
        key = encode_key(turn["tenant"], turn["conversation_id"])
        record = StoredRecord(self._offset, append_ms, key, b"")
        schema = writer() if presence is None else _with_presence(presence)
        result = self._judge.judge(record, Decoded(dict(turn), schema, str(self._offset).encode()))
        assert result.end is End.PROCESSED, result.rejection
        value = result.outputs[0].value
        assert value is not None
        assert result.tally is not None
        counts = {key: n for key, n in result.tally.counts.items() if key[0] in COUNTED}
        return Answer(value, Counter(counts))

    def columns(
        self, turns: Sequence[Mapping[str, Any]], presence: frozenset[str] | None = None, before: int = 0
    ) -> Batch:
        """Judge turns by columns; the first ``before`` of the table are cut off before anything looks at it."""
        table = table_of(turns).slice(before)
        odd = np.array([is_odd(turn["manifest"]) for turn in turns[before:]], np.bool_)
        judged = judge_columns(
            table, odd, writer().presence if presence is None else presence, self.policy, self._completeness
        )
        return Batch(encode_verdicts(judged, SCHEMA_ID), judged)


@cache
def _with_presence(presence: frozenset[str]) -> WriterSchema:
    return replace(writer(), presence=presence)
