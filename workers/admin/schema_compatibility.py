"""Whether data written with one schema can be read with another, by Avro's own rules.

Stricter than how workers read (`workers.serde.projection`): this is what every other consumer of a topic relies on.

Source: the Avro 1.12 specification, "Schema Resolution".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from workers.serde.avro_schema import ArrayType, EnumType, MapType, Node, Primitive, RecordType, UnionType

_PROMOTIONS: Final = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}


class Incompatibility(NamedTuple):
    """A place where reading fails: the dotted path of the field, what is wrong, and how to repair it."""

    path: str
    problem: str
    fix: str


def incompatibilities(reader: Node, writer: Node, path: str = "") -> Iterator[Incompatibility]:
    """Yield every place where data of ``writer`` cannot be read as ``reader``."""
    match reader, writer:
        case _, UnionType():
            for branch in writer.branches:
                yield from incompatibilities(reader, branch, path)
        case UnionType(), _:
            yield from _into_union(reader, writer, path)
        case RecordType(), RecordType() if _same_name(reader, writer):
            yield from _records(reader, writer, path)
        case EnumType(), EnumType() if _same_name(reader, writer):
            yield from _enums(reader, writer, path)
        case ArrayType(), ArrayType():
            yield from incompatibilities(reader.items, writer.items, path)
        case MapType(), MapType():
            yield from incompatibilities(reader.items, writer.items, path)
        case Primitive(), Primitive():
            if reader.kind != writer.kind and writer.kind not in _PROMOTIONS.get(reader.kind, ()):
                yield _retyped(reader, writer, path)
        case _:
            yield _retyped(reader, writer, path)


def describe(node: Node) -> str:
    """Return the type of ``node`` in a few words."""
    match node:
        case Primitive():
            return node.kind if node.logical is None else f"{node.kind} ({node.logical})"
        case UnionType():
            return "[" + ", ".join(describe(branch) for branch in node.branches) + "]"
        case ArrayType() | MapType():
            return f"{'array' if isinstance(node, ArrayType) else 'map'} of {describe(node.items)}"
        case _:
            return f"{'enum' if isinstance(node, EnumType) else 'record'} {node.name.rpartition('.')[2]}"


def _into_union(reader: UnionType, writer: Node, path: str) -> Iterator[Incompatibility]:
    if any(_fits(branch, writer) for branch in reader.branches):
        return
    alike = [branch for branch in reader.branches if describe(branch) == describe(writer)]
    if alike:
        yield from incompatibilities(alike[0], writer, path)  # says what is wrong inside
    else:
        yield _retyped(reader, writer, path)


def _fits(reader: Node, writer: Node) -> bool:
    return next(incompatibilities(reader, writer), None) is None


def _records(reader: RecordType, writer: RecordType, path: str) -> Iterator[Incompatibility]:
    written = {entry.name: entry for entry in writer.fields}
    for entry in reader.fields:
        place = f"{path}.{entry.name}" if path else entry.name
        source = next((written[name] for name in (entry.name, *entry.aliases) if name in written), None)
        if source is not None:
            yield from incompatibilities(entry.type, source.type, place)
        elif not entry.has_default:
            yield Incompatibility(
                place,
                "has no default, and the other version has no such field",
                'Make it nullable with `"default": null`, or publish the change as a new subject.',
            )


def _enums(reader: EnumType, writer: EnumType, path: str) -> Iterator[Incompatibility]:
    unknown = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    if unknown and reader.default is None:
        yield Incompatibility(
            path,
            f"holds the symbol{'s' if len(unknown) > 1 else ''} {', '.join(unknown)} only in one version",
            "Leave the symbols alone and add a nullable field for what is new.",
        )


def _retyped(reader: Node, writer: Node, path: str) -> Incompatibility:
    return Incompatibility(
        path,
        f"is {describe(writer)} in one version and read as {describe(reader)} in the other",
        "Keep the type and add a nullable field for the new one.",
    )


def _same_name(reader: RecordType | EnumType, writer: RecordType | EnumType) -> bool:
    return reader.name.rpartition(".")[2] == writer.name.rpartition(".")[2]
