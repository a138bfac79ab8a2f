"""A writer's schema as the column decoder gets it: wire-equal, of few types, and with the place of every buffer.

``int``, enums and temporal types are read as ``long`` and ``uuid`` or decimal texts as ``string``: the bytes on the
wire are the same, and what the wider type lets through is checked on whole columns afterwards. Named types are written
out at each use.

Source: the Avro 1.12 specification, "Binary Encoding"; the Arrow columnar format, "Buffer Listing for Each Layout".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from workers.serde.avro_schema import ArrayType, EnumType, MapType, Node, Primitive, RecordType, UnionType
from workers.serde.columns.layout import nullable

MAX_COLUMNS: Final = 1_000
"""Widest schema taken: every row costs memory in each column, be it null."""
MAX_SPREAD: Final = 8
"""Most columns one byte of an item may stand for: a null item of a wide record takes one byte on the wire."""


class Kind(StrEnum):
    """Types that are left on the wire."""

    RECORD = "record"
    STRING = "string"
    LONG = "long"
    INT = "int"
    ENUM = "enum"
    BOOLEAN = "boolean"
    FLOAT = "float"
    DOUBLE = "double"
    ARRAY = "array"
    MAP = "map"


class NoColumns(StrEnum):
    """Why records of a schema are not decoded as columns; closed. They stay on the reference path."""

    TYPE = "type"
    """It uses ``bytes``, a bare ``null`` or a union of more than null and one type."""
    WIDTH = "width"
    """It has too many columns, or few bytes may stand for very many values."""
    MANIFEST = "manifest"
    """Its manifest differs from ours in more than the choice of fields and symbols."""
    UNEQUAL = "unequal"
    """The native decoder read samples otherwise than the reference, or crashed on them."""


class NoColumnsError(Exception):
    """A schema that is not decoded as columns."""

    def __init__(self, reason: NoColumns) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(slots=True, eq=False)
class Wire:
    """One column of the decoded batch.

    ``domain`` numbers what its values are counted in: 0 for rows, else the items of one list. ``buffer`` is the
    position of its first buffer, the validity bitmap, in the depth-first list of the batch. ``is_nullable`` tells that
    the wire carries the index of a union in front.
    """

    kind: Kind
    node: Node
    is_nullable: bool
    domain: int
    buffer: int
    names: tuple[str, ...] = ()
    fields: tuple[Wire, ...] = ()
    key: Wire | None = None
    item: Wire | None = None
    column: int = field(default=-1, init=False)

    def field_of(self, name: str) -> Wire | None:
        """Return the field of a record by the writer's name."""
        return self.fields[self.names.index(name)] if name in self.names else None

    @property
    def bytes_each(self) -> int:
        """Fewest bytes of one value without its index, null fields counted by their index alone."""
        return _FEWEST.get(self.kind, 1) + sum(1 if child.is_nullable else child.bytes_each for child in self.fields)


_FEWEST: Final = {Kind.RECORD: 0, Kind.FLOAT: 4, Kind.DOUBLE: 8}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KINDS: Final = {
    "string": Kind.STRING,
    "long": Kind.LONG,
    "int": Kind.INT,
    "boolean": Kind.BOOLEAN,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
}
_BUFFERS: Final = {Kind.RECORD: 1, Kind.STRING: 3}


@dataclass(slots=True, eq=False)
class WireSchema:
    """``text`` is what the native decoder gets, ``lists`` the column whose items each domain after 0 counts."""

    text: str
    root: Wire
    columns: tuple[Wire, ...]
    lists: tuple[Wire, ...]


def rewrite(writer: RecordType) -> WireSchema:
    """Return the wire-equal schema of ``writer``.

    Raises:
        NoColumnsError: ``writer`` holds a type that is not decoded as columns, or spreads too wide.
    """
    rewriter = _Rewriter()
    root, schema = rewriter.node(writer, domain=0)
    return WireSchema(json.dumps(schema), root, tuple(rewriter.columns), tuple(rewriter.lists))


class _Rewriter:
    def __init__(self) -> None:
        self.columns: list[Wire] = []
        self.lists: list[Wire] = []
        self._buffers = 0

    def node(self, node: Node, domain: int, *, is_nullable: bool = False) -> tuple[Wire, object]:
        if isinstance(node, UnionType):
            inner = nullable(node)
            if inner is None or is_nullable:
                raise NoColumnsError(NoColumns.TYPE)
            wire, schema = self.node(inner, domain, is_nullable=True)
            null_first = isinstance(node.branches[0], Primitive) and node.branches[0].kind == "null"
            return wire, ["null", schema] if null_first else [schema, "null"]
        match node:
            case Primitive() if node.kind in _KINDS:
                wire = self._open(_KINDS[node.kind], node, domain, is_nullable=is_nullable)
                return wire, "long" if wire.kind is Kind.INT else wire.kind.value
            case EnumType():
                return self._open(Kind.ENUM, node, domain, is_nullable=is_nullable), "long"
            case ArrayType() | MapType():
                return self._list(node, domain, is_nullable=is_nullable)
            case RecordType():
                return self._record(node, domain, is_nullable=is_nullable)
            case _:
                raise NoColumnsError(NoColumns.TYPE)

    def _open(self, kind: Kind, node: Node, domain: int, *, is_nullable: bool) -> Wire:
        wire = Wire(kind, node, is_nullable, domain, self._buffers)
        self._buffers += _BUFFERS.get(kind, 2)
        self.columns.append(wire)
        if len(self.columns) > MAX_COLUMNS:
            raise NoColumnsError(NoColumns.WIDTH)
        return wire

    def _list(self, node: ArrayType | MapType, domain: int, *, is_nullable: bool) -> tuple[Wire, object]:
        is_map = isinstance(node, MapType)
        wire = self._open(Kind.MAP if is_map else Kind.ARRAY, node, domain, is_nullable=is_nullable)
        self.lists.append(wire)
        inside, first = len(self.lists), len(self.columns)
        if is_map:
            self._buffers += 1  # the struct of key and value
            wire.key = self._open(Kind.STRING, Primitive("string"), inside, is_nullable=False)
        wire.item, schema = self.node(node.items, inside)
        fewest = is_map + (1 if wire.item.is_nullable else wire.item.bytes_each)
        if len(self.columns) - first > MAX_SPREAD * fewest:
            raise NoColumnsError(NoColumns.WIDTH)
        return wire, {"type": "map", "values": schema} if is_map else {"type": "array", "items": schema}

    def _record(self, node: RecordType, domain: int, *, is_nullable: bool) -> tuple[Wire, object]:
        wire = self._open(Kind.RECORD, node, domain, is_nullable=is_nullable)
        name = f"r{len(self.columns)}"
        parts = [self.node(entry.type, domain) for entry in node.fields]
        if not parts:
            raise NoColumnsError(NoColumns.TYPE)
        wire.names = tuple(entry.name for entry in node.fields)
        wire.fields = tuple(part for part, _ in parts)
        clean = all(_NAME.fullmatch(known) for known in wire.names)
        return wire, {
            "type": "record",
            "name": name,
            "fields": [
                {"name": known if clean else f"f{index}", "type": schema}
                for index, (known, (_, schema)) in enumerate(zip(wire.names, parts, strict=True))
            ],
        }
