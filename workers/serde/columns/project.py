"""Projection of decoded columns onto our layout, compiled once per writer's schema.

It follows the rules of `workers.serde.projection` and refuses what it cannot follow. Columns that have our type already
are taken as they are; the codes of all enums are translated in one go.

Source: the Avro 1.12 specification, "Schema Resolution"; docs/producer-guide.md, "Evolution".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from workers.serde.avro_schema import ArrayType, EnumType, Field, MapType, Node, Primitive, RecordType, UnionType
from workers.serde.columns.buffers import Buffers, Ints, Joined
from workers.serde.columns.layout import ENUM_CODE, UNKNOWN_SYMBOL, arrow_type, nullable, turn_type
from workers.serde.columns.wire import NoColumns, NoColumnsError, Wire, WireSchema

NULL_SYMBOL: Final = -2
"""Code of a symbol that is read as null."""
NO_SYMBOL: Final = -128
"""Code of an index outside the writer's enum."""

_VERBATIM: Final = "manifest"
_MILLIS: Final = "timestamp-millis"
_TO_MILLIS: Final = {"timestamp-micros": 1_000, "timestamp-nanos": 1_000_000}
_WHOLE: Final = frozenset({"int", "long"})


class Decoded(NamedTuple):
    """One batch on its way: its buffers, and the codes of its enums in the place of the writer's indexes."""

    buffers: Buffers
    codes: Joined


Build: TypeAlias = Callable[[pa.Array, Decoded], pa.Array]
"""Turns a decoded column into ours."""


class Within(NamedTuple):
    """A column, and the nullable records around it in its domain: a value counts only where none of them is null."""

    wire: Wire
    around: tuple[Wire, ...]


@dataclass(slots=True, eq=False)
class Projection:
    """How to read the columns of one writer's schema.

    ``bound`` holds the columns by the dotted path of our field; ``required`` those that may be null where ours may not,
    outside the manifest and inside it; ``odd`` those of the manifest that are not ours. ``symbols`` holds our code by
    the writer's index, per enum.
    """

    bound: dict[str, Wire] = field(default_factory=dict)
    required: list[Within] = field(default_factory=list)
    required_of_manifest: list[Within] = field(default_factory=list)
    odd: list[Within] = field(default_factory=list)
    symbols: dict[Wire, list[int]] = field(default_factory=dict)
    root: Build = field(init=False)

    def table(self, batch: pa.RecordBatch, decoded: Decoded) -> pa.RecordBatch:
        """Return ``batch`` in our layout."""
        return pa.RecordBatch.from_struct_array(self.root(batch.to_struct_array(), decoded))


def compile_projection(schema: WireSchema, decoded_type: pa.StructType) -> Projection:
    """Compile the projection of turns written with ``schema``; ``decoded_type`` is what the native decoder makes of it.

    Raises:
        NoColumnsError: the manifest is of a type that is not read as columns.
    """
    projection = Projection()
    projection.root = _Compiler(projection).record(turn_type(), schema.root, decoded_type, _Place("", (), False))
    return projection


class SymbolTable:
    """Translates the indexes of all enums of a schema at once."""

    def __init__(self, enums: list[Wire], symbols: Mapping[Wire, list[int]]) -> None:
        counts = [len(wire.node.symbols) for wire in enums if isinstance(wire.node, EnumType)]
        self._width = max(counts, default=1)
        table = np.full((len(enums), self._width), NO_SYMBOL, np.int8)
        for row, (wire, count) in enumerate(zip(enums, counts, strict=True)):
            table[row, :count] = symbols.get(wire, [UNKNOWN_SYMBOL] * count)
        self._table = table.ravel()
        self._bases = np.arange(len(enums)) * self._width

    def translate(self, indexes: Joined) -> Joined:
        """Return our codes; `NO_SYMBOL` marks an index that the writer's enum does not have."""
        values = indexes.values
        outside = None
        if len(values) and (values.min() < 0 or values.max() >= self._width):
            outside = (values < 0) | (values >= self._width)
            values = np.where(outside, 0, values)
        codes = self._table[values + np.repeat(self._bases, indexes.lengths)]
        if outside is not None:
            codes[outside] = NO_SYMBOL
        return Joined(indexes.group, codes, indexes.lengths, indexes.ends)


class _Place(NamedTuple):
    path: str
    around: tuple[Wire, ...]
    verbatim: bool

    def inside(self, name: str, record: Wire) -> _Place:
        path = f"{self.path}.{name}" if self.path else name
        around = (*self.around, record) if record.is_nullable else self.around
        return _Place(path, around, self.verbatim or path == _VERBATIM)

    @property
    def items(self) -> _Place:
        return self._replace(around=())


def _as_is(array: pa.Array, decoded: Decoded) -> pa.Array:
    return array


class _Compiler:
    def __init__(self, projection: Projection) -> None:
        self._to = projection

    def match(self, reader: Node, wire: Wire, decoded: pa.DataType, place: _Place) -> Build | None:
        """Return how ``wire`` is read as ``reader``, None where it is not."""
        inner = nullable(reader) if isinstance(reader, UnionType) else reader
        build = self._typed(inner, wire, decoded, place, is_nullable=inner is not reader) if inner else None
        if build is None:
            if place.verbatim:
                raise NoColumnsError(NoColumns.MANIFEST)
            return None
        self._to.bound[place.path] = wire
        if wire.is_nullable and inner is reader:
            required = self._to.required_of_manifest if place.verbatim else self._to.required
            required.append(Within(wire, place.around))
        return build

    def _typed(
        self, reader: Node, wire: Wire, decoded: pa.DataType, place: _Place, *, is_nullable: bool
    ) -> Build | None:
        match reader, wire.node:
            case Primitive(), Primitive() as writer:
                return _primitive(reader, writer, verbatim=place.verbatim)
            case EnumType(), EnumType() as writer:
                codes = _codes(reader, writer, place, is_nullable=is_nullable)
                self._to.symbols[wire] = codes
                return _as_is if codes == list(range(len(codes))) else _enum(wire)
            case ArrayType(), ArrayType():
                return self._array(reader, wire, decoded, place)
            case MapType(), MapType():
                return self._map(reader, wire, decoded, place)
            case RecordType(), RecordType():
                return self.record(reader, wire, decoded, place)
            case _:
                return None

    def record(self, reader: RecordType, wire: Wire, decoded: pa.StructType, place: _Place) -> Build:
        parts: list[tuple[int, Build]] = []
        read = set()
        for entry in reader.fields:
            inside = place.inside(entry.name, wire)
            at = _source(entry, wire, by_alias=not inside.verbatim or inside.path == _VERBATIM)
            build = self.match(entry.type, wire.fields[at], decoded.field(at).type, inside) if at is not None else None
            if at is not None and build is not None:
                read.add(at)
                parts.append((at, build))
            else:
                parts.append((-1, _missing(entry)))
        if place.verbatim:
            left = [column for at, column in enumerate(wire.fields) if at not in read]
            self._to.odd += [Within(column, place.inside("", wire).around) for column in left]
        target = arrow_type(reader)
        if decoded.equals(target) and all(build is _as_is for _, build in parts):
            return _as_is
        return _struct(wire, target, parts)

    def _array(self, reader: ArrayType, wire: Wire, decoded: pa.ListType, place: _Place) -> Build | None:
        assert wire.item is not None  # noqa: S101 - for the type checker
        items = self.match(reader.items, wire.item, decoded.value_type, place.items)
        target = arrow_type(reader)
        if items is _as_is and decoded.equals(target):
            return _as_is
        return items and _list(wire, target, items)

    def _map(self, reader: MapType, wire: Wire, decoded: pa.MapType, place: _Place) -> Build | None:
        assert wire.item is not None  # noqa: S101 - for the type checker
        values = self.match(reader.items, wire.item, decoded.item_type, place.items)
        target = arrow_type(reader)
        if values is _as_is and decoded.equals(target):
            return _as_is
        return values and _map(wire, target, values)


def _source(entry: Field, wire: Wire, *, by_alias: bool) -> int | None:
    """Return which field of the writer supplies ``entry``: by name, by one of our aliases, or by one of theirs."""
    for name in (entry.name, *entry.aliases) if by_alias else (entry.name,):
        if name in wire.names:
            return wire.names.index(name)
    if by_alias and isinstance(wire.node, RecordType):
        found = [at for at, theirs in enumerate(wire.node.fields) if entry.name in theirs.aliases]
        return found[-1] if found else None
    return None


def _primitive(reader: Primitive, writer: Primitive, *, verbatim: bool) -> Build | None:
    whole = reader.kind in _WHOLE and writer.kind in _WHOLE
    if verbatim:
        return _as_is if whole or reader.kind == writer.kind else None
    if reader.logical == _MILLIS and writer.logical not in {None, _MILLIS}:
        divisor = _TO_MILLIS.get(writer.logical or "")
        return _to_millis(divisor) if divisor and writer.kind == "long" else None
    if reader.kind == writer.kind or (reader.kind == "long" and writer.kind == "int"):
        return _as_is
    return None


def _codes(reader: EnumType, writer: EnumType, place: _Place, *, is_nullable: bool) -> list[int]:
    ours = {symbol: code for code, symbol in enumerate(reader.symbols)}
    if place.verbatim:
        fallback = UNKNOWN_SYMBOL
    elif reader.default in ours:
        fallback = ours[reader.default]
    else:
        fallback = NULL_SYMBOL if is_nullable else NO_SYMBOL
    return [ours.get(symbol, fallback) for symbol in writer.symbols]


def _validity(wire: Wire, decoded: Decoded) -> pa.Buffer | None:
    found: pa.Buffer | None = decoded.buffers.raw[wire.buffer]
    return found


def _enum(wire: Wire) -> Build:
    def build(array: pa.Array, decoded: Decoded) -> pa.Array:
        codes = decoded.codes.of(wire).astype(np.int64)
        if NULL_SYMBOL in codes:
            valid = decoded.buffers.valid(wire)
            unread = codes == NULL_SYMBOL
            return pa.array(codes, ENUM_CODE, mask=unread if valid is None else unread | ~valid)
        return pa.Array.from_buffers(ENUM_CODE, len(codes), [_validity(wire, decoded), pa.py_buffer(codes)])

    return build


def _to_millis(divisor: int) -> Build:
    def build(array: pa.Array, decoded: Decoded) -> pa.Array:
        validity, numbers = array.buffers()
        if not len(array):
            return array
        millis: Ints = np.frombuffer(numbers, np.int64) // divisor
        return pa.Array.from_buffers(pa.int64(), len(array), [validity, pa.py_buffer(millis)])

    return build


def _struct(wire: Wire, target: pa.StructType, parts: list[tuple[int, Build]]) -> Build:
    def build(array: pa.Array, decoded: Decoded) -> pa.Array:
        children = [make(array if at < 0 else array.field(at), decoded) for at, make in parts]
        return pa.Array.from_buffers(target, len(array), [_validity(wire, decoded)], children=children)

    return build


def _list(wire: Wire, target: pa.ListType, items: Build) -> Build:
    def build(array: pa.Array, decoded: Decoded) -> pa.Array:
        raw = decoded.buffers.raw
        buffers = [raw[wire.buffer], raw[wire.buffer + 1]]
        return pa.Array.from_buffers(target, len(array), buffers, children=[items(array.values, decoded)])

    return build


def _map(wire: Wire, target: pa.MapType, values: Build) -> Build:
    entries = pa.struct([target.key_field, target.item_field])

    def build(array: pa.Array, decoded: Decoded) -> pa.Array:
        raw = decoded.buffers.raw
        pairs = [array.keys, values(array.items, decoded)]
        inside = pa.Array.from_buffers(entries, len(array.keys), [None], children=pairs)
        return pa.Array.from_buffers(target, len(array), [raw[wire.buffer], raw[wire.buffer + 1]], children=[inside])

    return build


def _missing(entry: Field) -> Build:
    """Return what stands for a field that the writer lacks: null, or the empty list that is its default."""
    target = arrow_type(entry.type)
    if not isinstance(entry.type, ArrayType) or entry.default != []:
        return lambda array, decoded: pa.nulls(len(array), target)
    empty = pa.array([], target.value_type)

    def build(array: pa.Array, decoded: Decoded) -> pa.Array:
        offsets = pa.py_buffer(np.zeros(len(array) + 1, np.int32))
        return pa.Array.from_buffers(target, len(array), [None, offsets], children=[empty])

    return build
