"""The table of decoded records: our own schema as Arrow types.

Records are structs, enums are codes; these and all integers are int64, as wide as what the decoder reads.
Fields are nullable throughout, because a writer may lack any optional one.

Source: the Avro 1.12 specification, "Complex Types"; schemas/turns.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import pyarrow as pa

from workers.serde.avro_schema import ArrayType, EnumType, Field, MapType, Node, Primitive, RecordType, UnionType
from workers.serde.avro_schema import parse_schema as parse
from workers.serde.schemas import load

UNKNOWN_SYMBOL: Final = -1
"""Code of an enum symbol that our schema does not have."""

ENUM_CODE: Final = pa.int64()
"""Type of an enum: the position of the symbol in our schema, or `UNKNOWN_SYMBOL`."""

_OUR_DEPTH: Final = 32
_PRIMITIVES: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "string": pa.utf8(),
}


@cache
def turn_type() -> RecordType:
    """Return our latest schema of a turn as a tree."""
    root = parse(load("turns"), _OUR_DEPTH)
    assert isinstance(root, RecordType)  # noqa: S101 - our own file, released with its tests
    return root


@cache
def layout() -> pa.Schema:
    """Return the schema of the table that columns of turns are decoded into: our fields by name, in our order."""
    return pa.schema([_field(entry) for entry in turn_type().fields])


def arrow_type(node: Node) -> pa.DataType:
    """Return the Arrow type of values of ``node``, a type of our own schema.

    Raises:
        TypeError: our schema would have a type that no table has: bytes, or a union of more than null and one type.
    """
    match node:
        case Primitive() if node.kind in _PRIMITIVES:
            return _PRIMITIVES[node.kind]
        case EnumType():
            return ENUM_CODE
        case ArrayType():
            return pa.list_(pa.field("item", arrow_type(node.items)))
        case MapType():
            optional = isinstance(node.items, UnionType)
            return pa.map_(pa.utf8(), pa.field("value", arrow_type(node.items), nullable=optional))
        case RecordType():
            return pa.struct([_field(entry) for entry in node.fields])
        case UnionType() if (inner := nullable(node)) is not None:
            return arrow_type(inner)
        case _:
            raise TypeError("our schemas hold neither bytes nor unions of several types")


def nullable(union: UnionType) -> Node | None:
    """Return the one type of ``union`` beside null, None where it is not of that form."""
    others = [branch for branch in union.branches if not (isinstance(branch, Primitive) and branch.kind == "null")]
    return others[0] if len(others) == 1 and len(union.branches) == 2 else None


def _field(entry: Field) -> pa.Field:
    return pa.field(entry.name, arrow_type(entry.type))
