"""Projection by name: from what a writer's schema decodes to, onto the record of our own schema.

Fields match by name or alias, numbers are promoted, enum symbols and union branches are matched one by one. Unlike
Avro's schema resolution a symbol we do not know reads as null, or as our default, and never fails the record.

Source: the Avro 1.12 specification, "Schema Resolution"; docs/producer-guide.md, "Evolution".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from workers.reasons import Reason
from workers.serde.avro_schema import ArrayType, EnumType, Field, MapType, Node, Primitive, RecordType, UnionType
from workers.serde.prescan import PayloadError

Convert: TypeAlias = Callable[[Any], Any] | None
"""Turns a decoded value into ours; None where the value is taken as it is."""

_PROMOTIONS: Final = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
}
_MILLIS: Final = "timestamp-millis"
_TO_MILLIS: Final = {"timestamp-micros": 1_000, "timestamp-nanos": 1_000_000}
_SAME_UNIT: Final = frozenset({None, _MILLIS})


class UnprojectableError(ValueError):
    """A required field of ours that the writer does not supply in a type we can read; ``field`` is its dotted path."""

    def __init__(self, field: str) -> None:
        super().__init__(f"{field or 'the record'} is required and cannot be read from the writer's schema")
        self.field = field or None


class Projection(NamedTuple):
    """How to read one writer's schema.

    ``presence`` holds the dotted paths of our fields that the writer supplies, ``unknown`` those of the writer's fields
    that we do not read.
    """

    convert: Convert
    presence: frozenset[str]
    unknown: tuple[str, ...]


def compile_projection(reader: Node, writer: Node, verbatim: frozenset[str]) -> Projection:
    """Compile the projection of ``writer`` onto ``reader``.

    Fields whose path is in ``verbatim`` are delivered as the writer wrote them, nothing matched inside.

    Raises:
        UnprojectableError: a required field of ours is not there, or not in a type we can read.
    """
    compiler = _Compiler(verbatim)
    matched = compiler.match(reader, writer, "")
    if matched is None:
        raise UnprojectableError("")
    return Projection(matched.convert, frozenset(compiler.presence), tuple(sorted(set(compiler.unknown))))


class _Match(NamedTuple):
    convert: Convert


_AS_IS: Final = _Match(None)


class _Compiler:
    def __init__(self, verbatim: frozenset[str]) -> None:
        self._verbatim = verbatim
        self.presence: set[str] = set()
        self.unknown: list[str] = []

    def match(self, reader: Node, writer: Node, path: str) -> _Match | None:
        """Return how a value of ``writer`` is read as ``reader``, None where no value can be."""
        if path in self._verbatim:
            self._note_presence(reader, writer, path)
            return _Match(_unnamed) if isinstance(writer, UnionType) and _is_named(writer) else _AS_IS
        if isinstance(writer, UnionType):
            return self._from_union(reader, writer, path)
        if isinstance(reader, UnionType):
            return self._to_union(reader, writer, path)
        match reader, writer:
            case Primitive(), Primitive():
                return _primitive(reader, writer)
            case EnumType(), EnumType():
                return _enum(reader, writer, fallback=reader.default)
            case ArrayType(), ArrayType():
                items = self.match(reader.items, writer.items, path)
                return items and _Match(_each(items.convert))
            case MapType(), MapType():
                values = self.match(reader.items, writer.items, path)
                return values and _Match(_each_value(values.convert))
            case RecordType(), RecordType():
                return self._record(reader, writer, path)
            case _:
                return None

    def _record(self, reader: RecordType, writer: RecordType, path: str) -> _Match:
        by_name = {entry.name: entry for entry in writer.fields}
        by_alias = {alias: entry for entry in writer.fields for alias in entry.aliases}
        steps: list[tuple[str, str, Convert]] = []
        missing: list[tuple[str, object]] = []
        read = set()
        for entry in reader.fields:
            place = f"{path}.{entry.name}" if path else entry.name
            source = _source(entry, by_name, by_alias)
            matched = self.match(entry.type, source.type, place) if source else None
            if source is not None and matched is not None:
                read.add(source.name)
                self.presence.add(place)
                steps.append((entry.name, source.name, matched.convert))
            else:
                self.presence = {known for known in self.presence if not known.startswith(f"{place}.")}
                missing.append((entry.name, _default(entry, place)))
        unread = [entry.name for entry in writer.fields if entry.name not in read]
        self.unknown += [f"{path}.{name}" if path else name for name in unread]
        if not unread and not missing and all(name == source and not convert for name, source, convert in steps):
            return _AS_IS
        return _Match(_project_record(steps, missing))

    def _to_union(self, reader: UnionType, writer: Node, path: str) -> _Match | None:
        nullable = any(_is_null(branch) for branch in reader.branches)
        for branch in reader.branches:
            if isinstance(branch, EnumType) and isinstance(writer, EnumType):
                return _enum(branch, writer, fallback=branch.default, nullable=nullable)
            matched = self.match(branch, writer, path)
            if matched is not None:
                return matched
        return None

    def _from_union(self, reader: Node, writer: UnionType, path: str) -> _Match | None:
        by_type: dict[object, Convert] = {}
        named = _is_named(writer)
        refused, readable = False, False
        for branch in writer.branches:
            matched = self.match(reader, branch, path)
            if matched is None:
                refused = True
                continue
            key = branch.name if named and isinstance(branch, EnumType | RecordType) else _python_type(branch)
            if key in by_type and by_type[key] is not matched.convert:
                return None  # two branches decode to one type and are read differently
            by_type[key] = matched.convert
            readable = readable or not _is_null(branch)
        if not readable:
            return None
        if not refused and not named and not any(by_type.values()):
            return _AS_IS
        return _Match(_dispatch(by_type))

    def _note_presence(self, reader: Node, writer: Node, path: str) -> None:
        """Note the fields below ``path`` that both have by name."""
        match reader, writer:
            case UnionType(), _:
                for branch in reader.branches:
                    self._note_presence(branch, writer, path)
            case _, UnionType():
                for branch in writer.branches:
                    self._note_presence(reader, branch, path)
            case ArrayType(), ArrayType():
                self._note_presence(reader.items, writer.items, path)
            case RecordType(), RecordType():
                supplied = {entry.name: entry for entry in writer.fields}
                for entry in reader.fields:
                    if entry.name in supplied:
                        self.presence.add(f"{path}.{entry.name}")
                        self._note_presence(entry.type, supplied[entry.name].type, f"{path}.{entry.name}")


def _source(entry: Field, by_name: Mapping[str, Field], by_alias: Mapping[str, Field]) -> Field | None:
    """Return the writer's field that supplies ``entry``: by its name, by one of our aliases, or by one of theirs."""
    for name in (entry.name, *entry.aliases):
        if name in by_name:
            return by_name[name]
    return by_alias.get(entry.name)


def _default(entry: Field, place: str) -> object:
    if not entry.has_default:
        raise UnprojectableError(place)
    return entry.default


def _is_named(union: UnionType) -> bool:
    """Whether the decoder names the branches of ``union``, because more than one has a name."""
    return sum(isinstance(branch, EnumType | RecordType) for branch in union.branches) > 1


def _is_null(node: Node) -> bool:
    return isinstance(node, Primitive) and node.kind == "null"


def _python_type(node: Node) -> object:
    match node:
        case Primitive():
            return _PYTHON_TYPES[node.kind]
        case EnumType():
            return str
        case ArrayType():
            return list
        case _:
            return dict


_PYTHON_TYPES: Final = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "string": str,
}


def _primitive(reader: Primitive, writer: Primitive) -> _Match | None:
    if reader.logical == _MILLIS and writer.logical not in _SAME_UNIT:
        divisor = _TO_MILLIS.get(writer.logical or "")
        return _Match(_to_millis(divisor)) if divisor and writer.kind == "long" else None
    if reader.kind == writer.kind:
        return _AS_IS
    if writer.kind in _PROMOTIONS.get(reader.kind, ()):
        return _AS_IS if reader.kind == "long" or writer.kind == "float" else _Match(float)
    if reader.kind == "string" and writer.kind == "bytes" and writer.logical is None:
        return _Match(_text)
    return None


def _to_millis(divisor: int) -> Callable[[Any], Any]:
    def convert(value: int) -> int:
        return value // divisor

    return convert


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise PayloadError(Reason.BAD_UTF8) from None


def _enum(reader: EnumType, writer: EnumType, fallback: str | None, *, nullable: bool = False) -> _Match:
    if set(writer.symbols) <= set(reader.symbols):
        return _AS_IS
    known = {symbol: symbol for symbol in reader.symbols}

    def convert(value: str) -> str | None:
        symbol = known.get(value, fallback)
        if symbol is None and not nullable:
            raise PayloadError(Reason.SCHEMA_RESOLUTION)
        return symbol

    return _Match(convert)


def _each(convert: Convert) -> Convert:
    if convert is None:
        return None
    inner = convert

    def convert_items(items: list[Any]) -> list[Any]:
        return [inner(item) for item in items]

    return convert_items


def _each_value(convert: Convert) -> Convert:
    if convert is None:
        return None
    inner = convert

    def convert_values(items: dict[str, Any]) -> dict[str, Any]:
        return {key: inner(value) for key, value in items.items()}

    return convert_values


def _unnamed(value: object) -> object:
    """Drop the branch name that the decoder adds in unions of several named types."""
    return value[1] if isinstance(value, tuple) else value


def _dispatch(by_type: Mapping[object, Convert]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:  # noqa: ANN401
        key: object = type(value)
        if key is tuple:
            key, value = value
        if key not in by_type:
            raise PayloadError(Reason.SCHEMA_RESOLUTION)
        inner = by_type[key]
        return inner(value) if inner else value

    return convert


def _project_record(steps: list[tuple[str, str, Convert]], missing: list[tuple[str, object]]) -> Callable[[Any], Any]:
    def convert(value: dict[str, Any]) -> dict[str, Any]:
        record: dict[str, Any] = {}
        try:
            for name, source, inner in steps:
                record[name] = inner(value[source]) if inner else value[source]
        except PayloadError as error:
            error.names.append(steps[len(record)][0])
            raise
        for name, default in missing:
            record[name] = copy.copy(default)
        return record

    return convert
