"""The stages of the column path on the same sample; whatever it hands over is timed on the reference path.

Imports the native decoder: only for installations that have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from bench.reference_path import BATCH, ReferencePath
from bench.timing import Stage
from workers.processing.columns.completeness import CompletenessJudge
from workers.processing.columns.judge import JudgedColumns, judge_columns
from workers.processing.columns.verdicts import encode_verdicts
from workers.serde.columns.decoder import ColumnBatch, ColumnDecoder
from workers.serde.limits import TURN_LIMITS
from workers.serde.schemas import latest, load, load_ids, to_text

SHARED: Final = ("frames", "duplicates", "count", "pack")
"""Stages of the reference path that every turn passes here too."""


class ColumnPath:
    """What a batch of turns passes as columns.

    Raises:
        TypeError: our own schema of a turn does not decode as columns.
    """

    def __init__(self, reference: ReferencePath) -> None:
        self._reference = reference
        decoder = ColumnDecoder.create(reference.writer, to_text(load("turns")), TURN_LIMITS)
        if not isinstance(decoder, ColumnDecoder):
            raise TypeError(f"turns do not decode as columns: {decoder}")
        self._decoder = decoder
        self._judge = CompletenessJudge()
        payloads = [frame.payload for frame in reference.frames]
        self._batches = [payloads[start : start + BATCH] for start in range(0, len(payloads), BATCH)]
        self._columns = self._decode()
        self._judged = self._judge_all()
        self._schema_id = load_ids()["fidelity"][latest("fidelity")].id

    def stages(self) -> dict[str, Stage]:
        """Return the stages by name; each handles the whole sample."""
        return {
            "columns": lambda: self._decode,
            "grade": lambda: self._judge_all,
            "encode": lambda: self._encode,
            "routed": self._routed,
        }

    @property
    def routes(self) -> dict[str, float]:
        """Shares of the turns by who decides: the columns, or the reference and why."""
        rows = Counter[str]()
        for payloads, batch, judged in zip(self._batches, self._columns, self._judged, strict=True):
            handed_over = [f"reference/{reason}" for reason in (*batch.routed.values(), *judged.routes.values())]
            rows.update(handed_over)
            rows["columns"] += len(payloads) - len(handed_over)
        return {route: count / rows.total() for route, count in rows.most_common()}

    def _decode(self) -> list[ColumnBatch]:
        return [self._decoder.decode(payloads) for payloads in self._batches]

    def _judge_all(self) -> list[JudgedColumns]:
        reference = self._reference
        return [
            judge_columns(batch.table, batch.odd_manifest, reference.writer.presence, reference.policy, self._judge)
            for batch in self._columns
        ]

    def _encode(self) -> list[list[bytes | None]]:
        return [encode_verdicts(judged, self._schema_id) for judged in self._judged]

    def _routed(self) -> Callable[[], object]:
        """Return the work that is left to the reference path: its cost is spread over all turns."""
        positions = []
        for number, (batch, judged) in enumerate(zip(self._columns, self._judged, strict=True)):
            at = [*batch.routed, *(int(batch.rows[row]) for row in judged.routes)]
            positions += [number * BATCH + position for position in sorted(at)]
        return self._reference.judge_only(positions)
