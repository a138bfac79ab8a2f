"""Tables of columns read back as the records that the reference decodes, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from workers.reasons import Rejection
from workers.serde.admission import WriterSchema, admit
from workers.serde.avro_schema import ArrayType, Node, RecordType, UnionType
from workers.serde.columns.decoder import ColumnBatch, ColumnDecoder
from workers.serde.columns.layout import nullable, turn_type
from workers.serde.columns.selfcheck import as_columns, records
from workers.serde.decoder import decode
from workers.serde.limits import TURN_LIMITS, Limits
from workers.serde.schemas import Schema
from workers.serde.validation import validate_turn
from workers.serde.wire_format import Frame


def both(schema: Schema, limits: Limits = TURN_LIMITS) -> tuple[WriterSchema, ColumnDecoder]:
    """Admit ``schema`` and return its decoder, which must exist."""
    text = json.dumps(schema)
    writer = admit(text, "turns", limits, 1)
    assert isinstance(writer, WriterSchema), writer
    decoder = ColumnDecoder.create(writer, text, limits)
    assert isinstance(decoder, ColumnDecoder), decoder
    return writer, decoder


def assert_equal_to_reference(batch: ColumnBatch, payloads: Sequence[bytes], writer: WriterSchema) -> None:
    """Every payload has one place, and what is in the table is what the reference decodes and takes."""
    rows = batch.rows.tolist()
    assert rows == sorted(rows)
    assert sorted([*rows, *batch.routed]) == list(range(len(payloads)))
    assert batch.table.num_rows == len(rows) == len(batch.odd_manifest)
    batch.table.validate(full=True)
    for at, record, odd in zip(rows, records(batch.table), batch.odd_manifest.tolist(), strict=True):
        expected = decode(Frame(1, payloads[at]), writer, TURN_LIMITS)
        assert not isinstance(expected, Rejection), (at, expected)
        assert validate_turn(expected) is None, at
        assert record == as_columns(expected), at
        assert odd or not _has_unknown(expected["manifest"]), at


def _has_unknown(manifest: Any) -> bool:
    node = next(entry.type for entry in turn_type().fields if entry.name == "manifest")
    return _unknown(node, manifest)


def _unknown(node: Node, value: Any) -> bool:
    match node:
        case UnionType():
            inner = nullable(node)
            return value is not None and inner is not None and _unknown(inner, value)
        case RecordType():
            ours = {entry.name: entry.type for entry in node.fields}
            return value is not None and any(
                _unknown(ours[name], item) if name in ours else item is not None for name, item in value.items()
            )
        case ArrayType():
            return value is not None and any(_unknown(node.items, item) for item in value)
        case _:
            return False
