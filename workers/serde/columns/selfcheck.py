"""Samples of a writer's schema, decoded as columns and by the reference before any record is trusted to columns."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pyarrow as pa

from workers.processing.columns.routes import RouteReason
from workers.reasons import Rejection
from workers.serde.admission import WriterSchema
from workers.serde.avro_schema import ArrayType, EnumType, MapType, Node, Primitive, RecordType, UnionType
from workers.serde.columns.layout import UNKNOWN_SYMBOL, nullable, turn_type
from workers.serde.decoder import decode
from workers.serde.limits import Limits
from workers.serde.wire_format import Frame

SAMPLES: Final = 24
_OTHER: Final = object()
_DECODED_OTHERWISE: Final = frozenset({RouteReason.DECODE, RouteReason.ISOLATION, RouteReason.PANIC})


def samples(root: RecordType) -> list[bytes]:
    """Return payloads of ``root``, always the same, with short texts and lists and numbers of every size."""
    rng = Random(len(root.fields))  # noqa: S311 - samples, no secrets
    return [b"".join(_encoded(root, rng)) for _ in range(SAMPLES)]


def agrees(
    payloads: list[bytes],
    rows: list[int],
    table: pa.RecordBatch,
    routed: dict[int, RouteReason],
    writer: WriterSchema,
    limits: Limits,
) -> bool:
    """Return whether each payload became what the reference makes of it, or was left to it for a rule of turns.

    Nothing agrees where no payload came through.
    """
    reference = [decode(Frame(writer.ref, payload), writer, limits) for payload in payloads]
    refused = [isinstance(result, Rejection) for result in reference]
    if any(reason in _DECODED_OTHERWISE and not refused[at] for at, reason in routed.items()):
        return False
    if not rows or any(refused[at] for at in rows):
        return False
    return records(table) == [as_columns(reference[at]) for at in rows]


def records(table: pa.RecordBatch) -> list[Any]:
    """Return the rows of ``table`` as records, symbols by name."""
    return [_readable(turn_type(), row) for row in table.to_pylist(maps_as_pydicts="strict")]


def as_columns(record: object) -> Any:  # noqa: ANN401 - a record as deep as the schema
    """Return a record of the reference as a table can show it: without the manifest's fields that are not ours."""
    return _readable(turn_type(), record)


def _readable(node: Node, value: Any) -> Any:  # noqa: ANN401
    if value is None:
        return None
    match node:
        case UnionType():
            inner = nullable(node)
            return inner and _readable(inner, value)
        case RecordType():
            return {entry.name: _readable(entry.type, value.get(entry.name)) for entry in node.fields}
        case ArrayType():
            return [_readable(node.items, item) for item in value]
        case MapType():
            return {key: _readable(node.items, item) for key, item in value.items()}
        case EnumType() if isinstance(value, int):
            return _OTHER if value == UNKNOWN_SYMBOL else node.symbols[value]
        case EnumType():
            return value if value in node.symbols else _OTHER
        case _:
            return value


def _encoded(node: Node, rng: Random) -> Iterator[bytes]:
    match node:
        case UnionType():
            index = rng.randrange(len(node.branches))
            yield _varint(index)
            yield from _encoded(node.branches[index], rng)
        case RecordType():
            for entry in node.fields:
                yield from _encoded(entry.type, rng)
        case ArrayType() | MapType():
            count = rng.randrange(3)
            yield _varint(count) if count else b""
            for item in range(count):
                yield _text(f"k{item}") if isinstance(node, MapType) else b""
                yield from _encoded(node.items, rng)
            yield _varint(0)
        case EnumType():
            yield _varint(rng.randrange(len(node.symbols)))
        case Primitive():
            yield _primitive(node.kind, rng)


def _primitive(kind: str, rng: Random) -> bytes:
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([rng.randrange(2)])
        case "int":
            return _varint(rng.randrange(-(2**31), 2**31) >> rng.randrange(32))
        case "long":
            return _varint(rng.randrange(-(2**63), 2**63) >> rng.randrange(64))
        case "float":
            return struct.pack("<f", rng.randrange(1_000) / 4)
        case "double":
            return struct.pack("<d", rng.random())
        case _:
            return _text("".join(rng.choices("abcxyz", k=rng.choice((1, 2, 3, 63, 64)))))


def _text(text: str) -> bytes:
    return _varint(len(text)) + text.encode()


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])
