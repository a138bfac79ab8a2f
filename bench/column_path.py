"""The stages of the column path on the same sample; whatever it hands over is timed on the reference path.

Imports the native decoder: only for installations that have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from bench.reference_path import ReferencePath, encoder, in_batches
from bench.timing import Stage
from workers.agents.columns import PreparedBatch, open_columns
from workers.processing.columns.completeness import CompletenessJudge
from workers.processing.columns.judge import JudgedColumns, judge_columns
from workers.processing.columns.verdicts import encode_verdicts
from workers.processing.outcome import BatchOutcome, RecordResult
from workers.serde.columns.decoder import ColumnBatch, ColumnDecoder
from workers.serde.limits import TURN_LIMITS

SHARED: Final = ("frames", "pack")
"""Stages of the reference path that every turn passes here too."""

PARTS: Final = {"prepare": ("columns", "grade", "encode")}
"""Stages that are timed inside another one too."""


class ColumnPath:
    """What a batch of turns passes as columns.

    Raises:
        TypeError: our own schema of a turn does not decode as columns.
    """

    def __init__(self, reference: ReferencePath) -> None:
        self._reference = reference
        decoder = ColumnDecoder.create(reference.writer, reference.writer.text, TURN_LIMITS)
        if not isinstance(decoder, ColumnDecoder):
            raise TypeError(f"turns do not decode as columns: {decoder}")
        self._decoder = decoder
        self._schema_id = encoder("fidelity").schema_id
        self._open = open_columns(TURN_LIMITS, lambda: reference.policy, self._schema_id)
        self._judge = CompletenessJudge()
        self._payloads = in_batches([frame.payload for frame in reference.frames])
        self._columns = self._decode()
        self._judged = self._judge_all()

    def stages(self) -> dict[str, Stage]:
        """Return the stages by name; each handles the whole sample."""
        return {
            "columns": lambda: self._decode,
            "grade": lambda: self._judge_all,
            "encode": lambda: self._encode,
            "prepare": lambda: self._prepare,
            "settle": self._settling,
            "routed": self._routed,
            "count": self._count,
        }

    @property
    def routes(self) -> dict[str, float]:
        """Shares of the turns by ``route/reason``: the columns, or the reference and why."""
        rows: Counter[tuple[str, str]] = Counter()
        for batch in self._prepare():
            rows.update(batch.routes)
        return {f"{route}/{reason}": count / rows.total() for (route, reason), count in rows.most_common()}

    def _decode(self) -> list[ColumnBatch]:
        return [self._decoder.decode(payloads) for payloads in self._payloads]

    def _judge_all(self) -> list[JudgedColumns]:
        reference = self._reference
        return [
            judge_columns(batch.table, batch.odd_manifest, reference.writer.presence, reference.policy, self._judge)
            for batch in self._columns
        ]

    def _encode(self) -> list[list[bytes | None]]:
        return [encode_verdicts(judged, self._schema_id) for judged in self._judged]

    def _prepare(self) -> list[PreparedBatch]:
        reference = self._reference
        columns = self._open(reference.new_state())
        batches = zip(in_batches(reference.records), in_batches(reference.frames), strict=True)
        return [columns.prepare(records, frames, reference.writers) for records, frames in batches]

    def _settling(self) -> Callable[[], Sequence[Sequence[RecordResult | None]]]:
        """Return the work of applying what is prepared to the state of the partition, record by record."""
        prepared, records, frames = self._prepare(), self._reference.records, self._reference.frames
        batches = list(zip(prepared, in_batches(list(zip(records, frames, strict=True))), strict=True))
        return lambda: [
            [batch.settle(at, record, frame) for at, (record, frame) in enumerate(pairs)] for batch, pairs in batches
        ]

    def _routed(self) -> Callable[[], object]:
        """Return the work that is left to the reference path: its cost is spread over all turns."""
        settled = [result for batch in self._settling()() for result in batch]
        return self._reference.judge_only([at for at, result in enumerate(settled) if result is None])

    def _count(self) -> Callable[[], object]:
        outcomes = []
        for batch, results in zip(self._prepare(), self._settling()(), strict=True):
            done = [result for result in results if result is not None]
            outcomes.append(BatchOutcome(done, routes=batch.routes, column_tally=batch.tally))
        return self._reference.count(outcomes)
