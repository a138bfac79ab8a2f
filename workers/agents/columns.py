"""The column path of turns: one table per batch and writer, judged as far as columns reach.

Source: docs/performance.md.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from workers.errors import first_frame
from workers.metrics.spec import Tally
from workers.processing.columns.completeness import CompletenessJudge
from workers.processing.columns.turns import PreparedTurns, count_paths, prepare, settle
from workers.processing.outcome import RecordResult
from workers.processing.policy import Policy
from workers.processing.turn_state import TurnState
from workers.reasons import Rejection
from workers.records import RawRecord
from workers.serde.admission import WriterSchema
from workers.serde.columns.decoder import ColumnDecoder
from workers.serde.limits import Limits
from workers.serde.records import Parsed
from workers.serde.wire_format import Frame, SchemaRef

log = logging.getLogger(__name__)

FEWEST_ROWS: Final = 8
"""Below this the reference is cheaper: a table has a price of its own, however few its rows."""


class ColumnDecoders:
    """The decoders of a worker, one for each writer's schema that columns can read."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._decoders: dict[SchemaRef, ColumnDecoder | None] = {}

    def of(self, writer: WriterSchema) -> ColumnDecoder | None:
        """Return the decoder of ``writer``; None where the reference must decode, once and for all."""
        if writer.ref not in self._decoders:
            made = ColumnDecoder.create(writer, writer.text, self._limits)
            self._decoders[writer.ref] = made if isinstance(made, ColumnDecoder) else None
            if not isinstance(made, ColumnDecoder):
                log.info("schema %s is decoded row by row: %s", writer.ref, made)
        decoder = self._decoders[writer.ref]
        if decoder is not None and decoder.disabled:
            log.error("schema %s crashed the column decoder and is decoded row by row from now on", writer.ref)
            self._decoders[writer.ref] = decoder = None
        return decoder


class TurnColumns:
    """Judges the turns of one partition by columns; the state is shared with its reference judge."""

    def __init__(
        self,
        state: TurnState,
        decoders: ColumnDecoders,
        completeness: CompletenessJudge,
        policy: Callable[[], Policy],
        schema_id: int,
        fewest_rows: int,
    ) -> None:
        self._fewest_rows = fewest_rows
        self._state = state
        self._decoders = decoders
        self._completeness = completeness
        self._policy = policy
        self._schema_id = schema_id

    def prepare(
        self,
        records: Sequence[RawRecord],
        frames: Sequence[Parsed],
        writers: Mapping[SchemaRef, WriterSchema | Rejection],
    ) -> PreparedBatch:
        """Decode and judge what can be told of each record alone, writer by writer."""
        batch = PreparedBatch(self._state)
        by_writer: dict[SchemaRef, list[tuple[int, bytes]]] = defaultdict(list)
        for position, frame in enumerate(frames):
            if isinstance(frame, Frame):
                by_writer[frame.schema_id].append((position, frame.payload))
        for ref, placed in by_writer.items():
            refusal = self._judge(batch, records, placed, writers[ref])
            if refusal is not None:
                batch.routes["reference", refusal] += len(placed)
        return batch

    def _judge(
        self,
        batch: PreparedBatch,
        records: Sequence[RawRecord],
        placed: Sequence[tuple[int, bytes]],
        writer: WriterSchema | Rejection,
    ) -> str | None:
        """Judge the payloads of one writer, each with its position; return why the reference must do it instead."""
        decoder = self._decoders.of(writer) if isinstance(writer, WriterSchema) else None
        if decoder is None or isinstance(writer, Rejection):
            return "schema"
        if len(placed) < self._fewest_rows:
            return "few_rows"
        try:
            started = time.perf_counter()
            decoded = decoder.decode([payload for _, payload in placed])
            batch.decode_seconds += time.perf_counter() - started
            prepared = prepare(
                records,
                [placed[row][0] for row in decoded.rows.tolist()],
                decoded.table,
                decoded.odd_manifest,
                writer,
                self._policy(),
                self._completeness,
                self._state.outputs,
                self._schema_id,
                self._state.paths,
            )
        except Exception as error:  # noqa: BLE001 - the reference can do all that columns can
            log.error(  # noqa: TRY400 - a traceback could quote a record
                "%s-%d: columns failed with %s at %s; the reference judges the batch",
                *self._state.source,
                type(error).__name__,
                first_frame(error),
            )
            return "failed"
        batch.add(prepared)
        batch.routes.update(("reference", reason) for reason in decoded.routed.values())
        return None


def open_columns(
    limits: Limits, policy: Callable[[], Policy], schema_id: int, fewest_rows: int = FEWEST_ROWS
) -> Callable[[TurnState], TurnColumns]:
    """Return what opens the column path of a partition; its partitions share decoders and caches.

    ``schema_id`` is the one that verdicts are framed with. Of a writer with less than ``fewest_rows`` rows in a batch,
    the reference judges them.
    """
    decoders, completeness = ColumnDecoders(limits), CompletenessJudge()
    return lambda state: TurnColumns(state, decoders, completeness, policy, schema_id, fewest_rows)


class PreparedBatch:
    """The records of one batch that columns have judged, and why the others take the reference path."""

    def __init__(self, state: TurnState) -> None:
        self.routes: Counter[tuple[str, str]] = Counter()
        self.decode_seconds = 0.0
        self._state = state
        self._prepared: list[PreparedTurns] = []
        self._rows: dict[int, tuple[PreparedTurns, int]] = {}

    def add(self, prepared: PreparedTurns) -> None:
        """Take in the rows of one writer."""
        self._prepared.append(prepared)
        self._rows.update((position, (prepared, row)) for row, position in enumerate(prepared.positions))
        self.routes.update(("reference", reason) for reason in prepared.routes.values())
        self.routes["columns", "whole"] += len(prepared.positions) - len(prepared.routes)

    def settle(self, position: int, record: RawRecord, frame: Frame) -> RecordResult | None:
        """Return what becomes of the record at ``position``; None where the reference must judge it."""
        found = self._rows.get(position)
        if found is None:
            return None
        prepared, row = found
        value = prepared.verdicts[row]
        if value is None:
            return None
        return settle(prepared, self._state, row, position, record, frame.payload, value)

    def finish(self, records: Sequence[RawRecord]) -> None:
        """Apply to the state what is applied once for all settled records."""
        for prepared in self._prepared:
            count_paths(prepared, records, self._state.paths)

    def tally(self, positions: AbstractSet[int]) -> Tally:
        """Return the counts of the records at ``positions``, which were settled and keep their end."""
        total = Tally()
        for prepared in self._prepared:
            total.counts.update(prepared.tally(positions).counts)
        return total
