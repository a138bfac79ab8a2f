"""Records in readable JSON, as golden payloads show them, written as Avro the way a producer's serializer writes them.

A union holds the bare value of its branch, timestamps are integers, ``bytes`` are text of one character per byte.
What is left out takes the default of the schema.

Source: the Avro 1.12 specification, "Schema Declaration"; docs/producer-guide.md, "Checking payloads".
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import fastavro

from workers.serde.avro_schema import (
    ArrayType,
    EnumType,
    Field,
    MapType,
    Node,
    Primitive,
    RecordType,
    UnionType,
    parse_schema,
    plain,
)
from workers.serde.limits import Limits
from workers.serde.schemas import Schema

_RANGES: Final = {"int": range(-(2**31), 2**31), "long": range(-(2**63), 2**63)}


class NotWritableError(ValueError):
    """A record that no serializer writes with the schema.

    ``field`` is the dotted path of the place, None for all; ``expected`` says by types what should be there and what
    is, for instance ``long, got text``, None where it is not known. Values are never quoted.
    """

    def __init__(self, path: str, expected: str | None = None) -> None:
        super().__init__(f"{path or 'the record'} does not fit the schema")
        self.field = path or None
        self.expected = expected


class Written(NamedTuple):
    """A payload, and the dotted paths of what the record holds and the schema does not: no serializer writes it."""

    payload: bytes
    left_out: tuple[str, ...]


class ReadableWriter:
    """Writes readable records with one writer's schema, which must be an admitted one."""

    def __init__(self, schema_text: str, limits: Limits) -> None:
        document = json.loads(schema_text)
        self._root = parse_schema(document, limits.schema_depth)
        self._schema = fastavro.parse_schema(cast("Schema", plain(document)))

    def write(self, record: object) -> Written:
        """Return the Avro payload of ``record``, parsed JSON.

        Raises:
            NotWritableError: it does not fit the schema. Array and map items add no part to the path.
        """
        filler = _Filler()
        filled = filler.fill(self._root, record, "")
        buffer = io.BytesIO()
        try:
            fastavro.schemaless_writer(buffer, self._schema, filled, disable_tuple_notation=True)
        except (ValueError, TypeError, KeyError, OverflowError):
            raise NotWritableError("") from None
        return Written(buffer.getvalue(), tuple(dict.fromkeys(filler.left_out)))


class _Filler:
    """Completes a record by the defaults of its schema, and refuses what fastavro would bend to fit."""

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def fill(self, node: Node, value: object, path: str) -> object:
        """Return ``value`` as fastavro is to write it."""
        match node, value:
            case Primitive(), _:
                return _primitive(node, value, path)
            case EnumType(), str() if value in node.symbols:
                return value
            case ArrayType(), list():
                return [self._item(node.items, item, path) for item in value]
            case MapType(), dict():
                return {_text(name, path): self._item(node.items, item, path) for name, item in value.items()}
            case UnionType(), _:
                return self._branch(node, value, path)
            case RecordType(), dict():
                return self._record(node, value, path)
            case _:
                raise _misfit(node, value, path)

    def _item(self, node: Node, item: object, path: str) -> object:
        try:
            return self.fill(node, item, path)
        except NotWritableError as error:
            if error.field == path and error.expected is not None:
                raise NotWritableError(path, f"{error.expected} in an item") from None
            raise

    def _branch(self, union: UnionType, value: object, path: str) -> object:
        problem, furthest = None, len(path)
        known = len(self.left_out)
        for branch in union.branches:
            try:
                return self.fill(branch, value, path)
            except NotWritableError as error:
                del self.left_out[known:]
                # The branch that got furthest is the one that was meant; items add no part to the path.
                length = len(error.field or "")
                if length > furthest or (length == furthest and _holds_items(branch, value)):
                    problem, furthest = error, length
        raise problem or _misfit(union, value, path)

    def _record(self, record: RecordType, value: Mapping[str, Any], path: str) -> dict[str, object]:
        names = {entry.name for entry in record.fields}
        self.left_out += [_join(path, name) for name in value if name not in names]
        return {entry.name: self._field(entry, value, _join(path, entry.name)) for entry in record.fields}

    def _field(self, entry: Field, value: Mapping[str, Any], path: str) -> object:
        if entry.name in value:
            return self.fill(entry.type, value[entry.name], path)
        if not entry.has_default:
            raise NotWritableError(path, f"{_named(entry.type)}, got nothing")
        return self.fill(entry.type, entry.default, path)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _primitive(node: Primitive, value: object, path: str) -> object:
    match node.kind, value:
        case "null", None:
            return None
        case "boolean", bool():
            return value
        case (("float" | "double"), (int() | float())) if not isinstance(value, bool):
            return value
        case (("int" | "long"), int()) if not isinstance(value, bool) and value in _RANGES[node.kind]:
            return value
        case "string", str():
            return _text(value, path)
        case "bytes", str() if value.isascii() or max(value) <= "\xff":
            return value.encode("latin-1")
        case _:
            raise _misfit(node, value, path)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotWritableError(path, "string, got text that is not Unicode") from None
    return value


def _misfit(node: Node, value: object, path: str) -> NotWritableError:
    got = _got(node, value)
    return NotWritableError(path, f"{_named(node)}, got {got}" if got else _named(node))


def _named(node: Node) -> str:
    """Return the Avro type of ``node`` in words; null in a union goes without saying."""
    match node:
        case Primitive():
            return f"{node.kind} ({node.logical})" if node.logical else node.kind
        case EnumType():
            return f"one of {', '.join(node.symbols)}"
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case UnionType():
            names = [_named(branch) for branch in node.branches if not _is_null(branch)]
            return " or ".join(dict.fromkeys(names)) or "null"
        case _:
            return "record"


def _holds_items(node: Node, value: object) -> bool:
    return isinstance(node, ArrayType | MapType) and isinstance(value, list if isinstance(node, ArrayType) else dict)


def _is_null(node: Node) -> bool:
    return isinstance(node, Primitive) and node.kind == "null"


def _got(node: Node, value: object) -> str:
    """Return the type of ``value`` in words, and what is wrong with it where the type is right; empty: a symbol."""
    branches = node.branches if isinstance(node, UnionType) else (node,)
    kinds = {branch.kind for branch in branches if isinstance(branch, Primitive)}
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer out of range" if kinds & _RANGES.keys() else "integer"
        case float():
            return "decimal number"
        case str() if any(isinstance(branch, EnumType) for branch in branches):
            return ""
        case str() if "bytes" in kinds:
            return "text with characters above U+00FF"
        case str():
            return "text that is not Unicode" if "string" in kinds else "text"
        case list():
            return "array"
        case _:
            return "object"
