"""Avro schemas as trees of nodes: names resolved, recursion and everything we never decode refused.

A named type used twice is one shared node, so a tree is a graph without cycles and stays as small as its text.

Source: the Avro 1.12 specification, "Schema Declaration"; docs/producer-guide.md, "What a schema may hold".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeGuard

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MAX_NAME: Final = 512
"""Longest name of a field, or of one part of a type's name, in characters."""
_PLAIN_KEYS: Final = ("type", "name", "namespace", "fields", "items", "values", "symbols")


class UnsupportedSchemaError(ValueError):
    """A schema that is no Avro schema, or holds what we do not take in; ``field`` is the dotted path of the place."""

    def __init__(self, why: str, path: str) -> None:
        super().__init__(f"{why} (at {path or 'the root'})")
        self.field = path or None


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """A primitive type with its logical type."""

    kind: str
    logical: str | None = None
    height: int = field(default=1, init=False)
    nodes: int = field(default=1, init=False)

    @property
    def has_void(self) -> bool:
        """Whether a value of zero bytes may be inside."""
        return self.kind == "null"


@dataclass(frozen=True, slots=True, eq=False)
class EnumType:
    """An enum."""

    name: str
    symbols: tuple[str, ...]
    default: str | None
    height: int = field(default=1, init=False)
    nodes: int = field(default=1, init=False)
    has_void: bool = field(default=False, init=False)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayType:
    """An array."""

    items: Node
    has_void: bool = field(default=False, init=False)

    @property
    def height(self) -> int:
        """Levels of nesting from here down."""
        return 1 + self.items.height

    @property
    def nodes(self) -> int:
        """Values of one instance with one item."""
        return 1 + self.items.nodes


@dataclass(frozen=True, slots=True, eq=False)
class MapType:
    """A map."""

    items: Node
    has_void: bool = field(default=False, init=False)

    @property
    def height(self) -> int:
        """Levels of nesting from here down."""
        return 1 + self.items.height

    @property
    def nodes(self) -> int:
        """Values of one instance with one item."""
        return 1 + self.items.nodes


@dataclass(frozen=True, slots=True, eq=False)
class UnionType:
    """A union; ``has_void`` ignores a null branch, which takes the byte of its index.

    ``nodes`` counts every branch, though a value has only one: the work of matching two schemas grows with all of them.
    """

    branches: tuple[Node, ...]
    height: int
    nodes: int
    has_void: bool


class Field(NamedTuple):
    """A field of a record. ``default`` is parsed JSON and counts only where ``has_default``."""

    name: str
    aliases: tuple[str, ...]
    type: Node
    has_default: bool
    default: object


@dataclass(frozen=True, slots=True, eq=False)
class RecordType:
    """A record; ``nodes`` counts a shared type at each of its uses."""

    name: str
    fields: tuple[Field, ...]
    height: int
    nodes: int
    has_void: bool


Node: TypeAlias = Primitive | EnumType | ArrayType | MapType | UnionType | RecordType


def parse_schema(schema: object, max_depth: int) -> Node:
    """Return the tree of ``schema`` (parsed JSON), nested at most ``max_depth`` levels.

    Raises:
        UnsupportedSchemaError: it is no valid schema, is recursive or too deep, or uses ``fixed`` or array or map items
            that hold values of zero bytes (a few bytes could then stand for any number of values).
    """
    root = _Parser(max_depth).node(schema, "", "", 1)
    if root.height > max_depth:
        raise UnsupportedSchemaError(f"nests {root.height} levels, at most {max_depth} are taken", "")
    return root


def plain(schema: object) -> object:
    """Return ``schema`` (parsed JSON) reduced to what the bytes depend on.

    Logical types go, so that temporal values stay raw integers and no extreme overflows a date class; so do the
    defaults, aliases and texts of a writer, whose mistakes must not matter.
    """
    if isinstance(schema, list):
        return [plain(branch) for branch in schema]
    if isinstance(schema, dict):
        return {key: schema[key] if key == "symbols" else plain(schema[key]) for key in _PLAIN_KEYS if key in schema}
    return schema


def _is_name(name: object) -> TypeGuard[str]:
    """Whether ``name`` can be shown as part of a place: it goes into headers of letters, into verdicts and answers.

    Avro's rule, with letters of any script as some registries take them; never what UTF-8 cannot hold.
    """
    return isinstance(name, str) and len(name) <= MAX_NAME and name.isidentifier()


class _Parser:
    """Turns parsed JSON into nodes, remembering the named types seen so far."""

    def __init__(self, max_depth: int) -> None:
        self._max_depth = max_depth
        self._named: dict[str, Node | None] = {}  # None while the type is still being read

    def node(self, schema: object, namespace: str, path: str, depth: int) -> Node:
        if depth > self._max_depth:
            raise UnsupportedSchemaError(f"nests more than {self._max_depth} levels", path)
        if isinstance(schema, list):
            return self._union(schema, namespace, path, depth)
        if isinstance(schema, str):
            return self._reference(schema, namespace, path)
        if not isinstance(schema, dict):
            raise UnsupportedSchemaError("a type is a name, an object or a list", path)
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self.node(kind, namespace, path, depth + 1)
        if kind in PRIMITIVES:
            logical = schema.get("logicalType")
            return Primitive(kind, logical if isinstance(logical, str) else None)
        match kind:
            case "record" | "error":
                return self._record(schema, namespace, path, depth)
            case "enum":
                return self._enum(schema, namespace, path)
            case "array":
                return ArrayType(self._items(schema.get("items"), namespace, path, depth))
            case "map":
                return MapType(self._items(schema.get("values"), namespace, path, depth))
            case "fixed":
                raise UnsupportedSchemaError("`fixed` is not taken, send a string", path)
            case _:
                return self._reference(kind, namespace, path)

    def _reference(self, name: str, namespace: str, path: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self._named:
            raise UnsupportedSchemaError("a type is used that is not defined before", path)
        known = self._named[full]
        if known is None:
            raise UnsupportedSchemaError("recursive types are not taken", path)
        return known

    def _items(self, schema: object, namespace: str, path: str, depth: int) -> Node:
        items = self.node(schema, namespace, path, depth + 1)
        if items.has_void:
            raise UnsupportedSchemaError("items may not hold values of zero bytes", path)
        return items

    def _union(self, branches: list[object], namespace: str, path: str, depth: int) -> UnionType:
        nodes = tuple(self.node(branch, namespace, path, depth + 1) for branch in branches)
        if not nodes or any(isinstance(node, UnionType) for node in nodes):
            raise UnsupportedSchemaError("a union is empty or directly inside another", path)
        return UnionType(
            nodes,
            1 + max(node.height for node in nodes),
            1 + sum(node.nodes for node in nodes),
            any(node.has_void for node in nodes if not isinstance(node, Primitive)),
        )

    def _open(self, schema: dict[str, object], namespace: str, path: str) -> tuple[str, str]:
        """Reserve the name of a named type; return its full name and the namespace inside it."""
        name = schema.get("name")
        if not isinstance(name, str) or not all(_is_name(part) for part in name.split(".")):
            raise UnsupportedSchemaError("a named type has no name, or one that Avro does not allow", path)
        own = schema.get("namespace")
        space = name.rpartition(".")[0] or (own if isinstance(own, str) else namespace)
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self._named:
            raise UnsupportedSchemaError("a named type is defined twice", path)
        self._named[full] = None
        return full, space

    def _enum(self, schema: dict[str, object], namespace: str, path: str) -> EnumType:
        full, _ = self._open(schema, namespace, path)
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
            raise UnsupportedSchemaError("an enum has no symbols", path)
        default = schema.get("default")
        node = EnumType(full, tuple(symbols), default if isinstance(default, str) else None)
        self._named[full] = node
        return node

    def _record(self, schema: dict[str, object], namespace: str, path: str, depth: int) -> RecordType:
        full, space = self._open(schema, namespace, path)
        declared = schema.get("fields")
        if not isinstance(declared, list):
            raise UnsupportedSchemaError("a record has no fields", path)
        fields = tuple(self._field(entry, space, path, depth) for entry in declared)
        if len({entry.name for entry in fields}) != len(fields):
            raise UnsupportedSchemaError("a record has two fields of one name", path)
        node = RecordType(
            full,
            fields,
            1 + max((entry.type.height for entry in fields), default=0),
            1 + sum(entry.type.nodes for entry in fields),
            not fields or any(entry.type.has_void for entry in fields),
        )
        self._named[full] = node
        return node

    def _field(self, entry: object, namespace: str, path: str, depth: int) -> Field:
        if not isinstance(entry, dict) or not _is_name(name := entry.get("name")):
            raise UnsupportedSchemaError("a field has no name, or one that Avro does not allow", path)
        aliases = entry.get("aliases")
        return Field(
            name,
            tuple(alias for alias in aliases if isinstance(alias, str)) if isinstance(aliases, list) else (),
            self.node(entry.get("type"), namespace, f"{path}.{name}" if path else name, depth + 1),
            "default" in entry,
            entry.get("default"),
        )
