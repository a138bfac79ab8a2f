"""Decode the payloads of one writer's schema into one table; whatever is in doubt is left to the reference.

The native decoder is lax and its failures name no row: its result counts only where the bytes are accounted for to the
last one, and a batch that fails is halved until the rows are found.

Source: docs/performance.md, "How it works"; the reference is `workers.serde.decoder`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyruhvro

from workers.processing.columns.routes import RouteReason
from workers.serde.admission import WriterSchema
from workers.serde.avro_schema import RecordType, parse_schema
from workers.serde.columns.buffers import Bools, BufferPlan, Buffers, Ints
from workers.serde.columns.checks import Checks, Doubts
from workers.serde.columns.layout import layout
from workers.serde.columns.native import NativeFailureError, NativePanicError, native_call
from workers.serde.columns.project import Decoded, SymbolTable, compile_projection
from workers.serde.columns.selfcheck import agrees, samples
from workers.serde.columns.wire import NoColumns, NoColumnsError, WireSchema, rewrite
from workers.serde.limits import Limits

MAX_FAILURES: Final = 16
"""Failing parts of one batch after which the rest goes row by row on the reference path."""
LEAST_HALVED: Final = 16
"""Smallest part that is halved: a native call costs as much as a few rows on the reference path."""
CALL_BYTES: Final = 4_000_000
CALL_CELLS: Final = 4_000_000
"""Most payload bytes, and most values (rows times columns), of one native call: they bound its memory."""


class ColumnBatch(NamedTuple):
    """Decoded payloads: ``rows`` holds their positions, ascending, and ``table`` one row for each in our layout.

    ``odd_manifest`` tells per row whether the manifest has a value in a field that is not ours. ``routed`` holds every
    other position, to be decoded by the reference.
    """

    rows: Ints
    table: pa.RecordBatch
    odd_manifest: Bools
    routed: dict[int, RouteReason]


class _Piece(NamedTuple):
    rows: Ints
    table: pa.RecordBatch
    odd: Bools


class ColumnDecoder:
    """Decodes turns of one writer's schema. After a crash of the native decoder it is ``disabled`` for good."""

    def __init__(self, writer: RecordType, limits: Limits) -> None:
        """Compile the decoder of ``writer``.

        Raises:
            NoColumnsError: its records are not decoded as columns.
        """
        self.disabled = False
        self._schema = rewrite(writer)
        self._plan = BufferPlan(self._schema)
        self._projection = compile_projection(self._schema, _decoded_type(self._schema))
        self._symbols = SymbolTable(self._plan.enums.wires, self._projection.symbols)
        self._checks = Checks(self._plan, self._projection, limits)
        self._call_rows = max(1, CALL_CELLS // len(self._schema.columns))

    @classmethod
    def create(cls, writer: WriterSchema, schema_text: str, limits: Limits) -> ColumnDecoder | NoColumns:
        """Return the decoder of an admitted schema of turns, or why its records stay on the reference path.

        The decoder has read samples as the reference does.
        """
        root = parse_schema(json.loads(schema_text), limits.schema_depth)
        if not isinstance(root, RecordType):
            return NoColumns.TYPE
        try:
            decoder = cls(root, limits)
        except NoColumnsError as error:
            return error.reason
        payloads = samples(root)
        rows, table, _, routed = decoder.decode(payloads)
        return decoder if agrees(payloads, rows.tolist(), table, routed, writer, limits) else NoColumns.UNEQUAL

    def decode(self, payloads: Sequence[bytes]) -> ColumnBatch:
        """Decode bare payloads; each position ends either in the table or in ``routed``. Never raises for a payload."""
        routed: dict[int, RouteReason] = {}
        pieces: list[_Piece] = []
        try:
            pieces.extend(self._isolate(payloads, routed))
        except NativePanicError:
            self.disabled = True
        if self.disabled:
            return _joined([], dict.fromkeys(range(len(payloads)), RouteReason.PANIC))
        return _joined(pieces, routed)

    def _isolate(self, payloads: Sequence[bytes], routed: dict[int, RouteReason]) -> Iterator[_Piece]:
        """Yield what decodes, in order; halve what fails."""
        failures = 0
        stack = list(_calls(payloads, self._call_rows))[::-1]
        while stack and not self.disabled:
            part = stack.pop()
            if failures > MAX_FAILURES:
                routed.update(dict.fromkeys(part, RouteReason.ISOLATION))
                continue
            try:
                piece = self._read(payloads, part, routed)
            except NativeFailureError:
                failures += 1
                if len(part) < LEAST_HALVED:
                    reason = RouteReason.DECODE if len(part) == 1 else RouteReason.ISOLATION
                    routed.update(dict.fromkeys(part, reason))
                else:
                    stack += [part[len(part) // 2 :], part[: len(part) // 2]]
            else:
                if piece is not None:
                    yield piece

    def _read(self, payloads: Sequence[bytes], part: Sequence[int], routed: dict[int, RouteReason]) -> _Piece | None:
        """Decode the payloads at ``part``; rows in doubt go to ``routed``. None where no row is left."""
        wanted = [payloads[position] for position in part]
        with native_call():
            batch = pyruhvro.deserialize_array(wanted, self._schema.text)
            batch.validate(full=True)  # texts are UTF-8, offsets lie inside
            buffers = Buffers(self._plan, batch)
            exact = buffers.shortest_size() == sum(map(len, wanted))
        if not exact:
            with native_call():
                [encoded] = pyruhvro.serialize_record_batch(batch, self._schema.text, 1)
            again = encoded.to_pylist()
            same = [at for at, (before, after) in enumerate(zip(wanted, again, strict=True)) if before == after]
            if len(same) < len(part):
                routed.update(dict.fromkeys(part, RouteReason.DECODE))
                left = [part[at] for at in same]
                for position in left:
                    del routed[position]
                return self._read(payloads, left, routed) if left else None
        decoded = Decoded(buffers, self._symbols.translate(buffers.enums))
        doubts = Doubts()
        self._checks.run(decoded, doubts)
        table = self._projection.table(batch, decoded)
        rows = np.arange(part.start, part.stop) if isinstance(part, range) else np.array(part)
        return _kept(rows, table, self._checks.odd_manifest(buffers), doubts, routed)


def _decoded_type(schema: WireSchema) -> pa.StructType:
    try:
        with native_call():
            return pa.struct(list(pyruhvro.avro_to_arrow_schema(schema.text)))
    except (NativeFailureError, NativePanicError):
        raise NoColumnsError(NoColumns.UNEQUAL) from None


def _calls(payloads: Sequence[bytes], rows: int) -> Iterator[Sequence[int]]:
    """Yield the positions of ``payloads`` in runs that are small enough for one native call."""
    if len(payloads) <= rows and sum(map(len, payloads)) <= CALL_BYTES:
        yield from [range(len(payloads))] if payloads else []
        return
    first = size = 0
    for position, payload in enumerate(payloads):
        if position > first and (size + len(payload) > CALL_BYTES or position - first == rows):
            yield range(first, position)
            first, size = position, 0
        size += len(payload)
    yield range(first, len(payloads))


def _kept(rows: Ints, table: pa.RecordBatch, odd: Bools, doubts: Doubts, routed: dict[int, RouteReason]) -> _Piece:
    if not doubts.reasons:
        return _Piece(rows, table, odd)
    routed.update({int(rows[at]): reason for at, reason in doubts.reasons.items()})
    keep = np.ones(len(rows), np.bool_)
    keep[list(doubts.reasons)] = False
    return _Piece(rows[keep], table.filter(pa.array(keep)), odd[keep])


def _joined(pieces: list[_Piece], routed: dict[int, RouteReason]) -> ColumnBatch:
    if len(pieces) == 1:
        [(rows, table, odd)] = pieces
        return ColumnBatch(rows, table, odd, routed)
    if not pieces:
        empty = pa.RecordBatch.from_pylist([], schema=layout())
        return ColumnBatch(np.zeros(0, np.int64), empty, np.zeros(0, np.bool_), routed)
    return ColumnBatch(
        np.concatenate([piece.rows for piece in pieces]),
        pa.concat_batches([piece.table for piece in pieces]),
        np.concatenate([piece.odd for piece in pieces]),
        routed,
    )
