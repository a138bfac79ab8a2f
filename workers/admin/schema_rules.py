"""What a subject promises its readers beyond compatibility: one table of rules per subject.

Source: docs/schemas.md, "Evolution".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from workers.admin.schema_compatibility import describe
from workers.serde.avro_schema import ArrayType, EnumType, Field, MapType, Node, Primitive, RecordType, UnionType


class Problem(NamedTuple):
    """A broken rule: the file, the dotted path of the field (None for the whole), what is wrong, how to repair it."""

    file: str
    field: str | None
    problem: str
    fix: str

    def __str__(self) -> str:
        place = f" field `{self.field}`" if self.field else ""
        return f"{self.file}:{place} {self.problem}.\n{self.fix}"


class Finding(NamedTuple):
    """A problem without its file."""

    field: str | None
    problem: str
    fix: str


Rule: TypeAlias = Callable[[RecordType, Sequence[RecordType]], Iterator[Finding]]
"""Judges one version; the second argument holds the earlier ones, oldest first."""

FROZEN: Final = ("level", "missing_evidence.impact")
"""Enums of the verdict whose symbols are fixed for good."""

_CONTENT: Final = "content"
_UNKNOWN: Final = "unknown"


def subject_problems(subject: str, file: str, schema: RecordType, earlier: Sequence[RecordType]) -> Iterator[Problem]:
    """Yield what breaks the rules of ``subject`` in ``schema``, the content of ``file``."""
    for rule in (*_ALL_SUBJECTS, *_RULES[subject]):
        for finding in rule(schema, earlier):
            yield Problem(file, *finding)


def _walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield every node with the dotted path of its field, outer ones first."""
    yield path, node
    match node:
        case RecordType():
            for entry in node.fields:
                yield from _walk(entry.type, f"{path}.{entry.name}" if path else entry.name)
        case UnionType():
            for branch in node.branches:
                yield from _walk(branch, path)
        case ArrayType() | MapType():
            yield from _walk(node.items, path)


def _records(schema: RecordType) -> dict[str, RecordType]:
    return {path: node for path, node in _walk(schema) if isinstance(node, RecordType)}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _no_bytes(schema: RecordType, _earlier: Sequence[RecordType]) -> Iterator[Finding]:
    for path, node in _walk(schema):
        if isinstance(node, Primitive) and node.kind == "bytes":
            yield Finding(path, "is bytes, which tools show as noise and fast decoders refuse", "Use a string.")


def _nothing_removed_or_retyped(schema: RecordType, earlier: Sequence[RecordType]) -> Iterator[Finding]:
    if not earlier:
        return
    now = _records(schema)
    for path, old in _records(earlier[-1]).items():
        if path not in now:
            continue  # its field is reported where the record around it is compared
        fields = {entry.name: entry for entry in now[path].fields}
        for entry in old.fields:
            new = fields.get(entry.name)
            if new is None:
                yield Finding(
                    _join(path, entry.name),
                    "is gone, and fields are never renamed or removed",
                    "Put it back; stop filling it instead.",
                )
            elif describe(entry.type) != describe(new.type):
                yield Finding(
                    _join(path, entry.name),
                    f"was {describe(entry.type)} and is {describe(new.type)}",
                    "Keep the type and add a nullable field for the new one.",
                )


def _new_fields(schema: RecordType, earlier: Sequence[RecordType]) -> Iterator[tuple[str, RecordType, Field]]:
    """Yield the fields that the version before does not have, with the path and the record they are in."""
    before = _records(earlier[-1]) if earlier else {}
    for path, record in _records(schema).items():
        if path in before:
            known = {entry.name for entry in before[path].fields}
            for entry in record.fields:
                if entry.name not in known:
                    yield path, record, entry


def _new_fields_are_nullable(schema: RecordType, earlier: Sequence[RecordType]) -> Iterator[Finding]:
    for path, _, entry in _new_fields(schema, earlier):
        first = entry.type.branches[0] if isinstance(entry.type, UnionType) else entry.type
        if not entry.has_default or entry.default is not None or describe(first) != "null":
            yield Finding(
                _join(path, entry.name),
                "is new and not nullable with the default null",
                'Make it `["null", …]` with `"default": null`.',
            )


def _new_fields_come_last(schema: RecordType, earlier: Sequence[RecordType]) -> Iterator[Finding]:
    before = _records(earlier[-1]) if earlier else {}
    for path, record, entry in _new_fields(schema, earlier):
        known = {field.name for field in before[path].fields}
        place = [field.name for field in record.fields].index(entry.name)
        if any(field.name in known for field in record.fields[place:]):
            yield Finding(
                _join(path, entry.name), "is new and stands before older fields", "Move it to the end of its record."
            )


def _content_is_last(schema: RecordType, _earlier: Sequence[RecordType]) -> Iterator[Finding]:
    names = [entry.name for entry in schema.fields]
    for name in names[names.index(_CONTENT) + 1 :] if _CONTENT in names else ():
        yield Finding(name, f"stands behind `{_CONTENT}`, which is the largest", f"Move it before `{_CONTENT}`.")


def _one_record_per_union(schema: RecordType, _earlier: Sequence[RecordType]) -> Iterator[Finding]:
    for path, node in _walk(schema):
        if isinstance(node, UnionType) and sum(isinstance(branch, RecordType) for branch in node.branches) > 1:
            yield Finding(
                path,
                "is a union of several records, which decoders resolve by guess",
                "Use one record with nullable fields, or one nullable field per record.",
            )


def _no_default_in_manifest_enums(schema: RecordType, _earlier: Sequence[RecordType]) -> Iterator[Finding]:
    for path, node in _walk(schema):
        if path.startswith("manifest.") and isinstance(node, EnumType) and node.default is not None:
            yield Finding(
                path,
                "has an enum default, which would hide an unknown symbol from grading",
                "Remove the default of the enum.",
            )


def _fingerprint_defaults_are_null(schema: RecordType, _earlier: Sequence[RecordType]) -> Iterator[Finding]:
    for entry in _records(schema).get("fingerprint", RecordType("", (), 0, 0, has_void=False)).fields:
        if not entry.has_default or entry.default is not None:
            yield Finding(
                f"fingerprint.{entry.name}",
                "defaults to something other than null, so that what was never sent would look present",
                'Set `"default": null`.',
            )


def _enums_default_to_unknown(schema: RecordType, _earlier: Sequence[RecordType]) -> Iterator[Finding]:
    for path, node in _walk(schema):
        if (
            isinstance(node, EnumType)
            and path not in FROZEN
            and (node.default, _UNKNOWN in node.symbols)
            != (
                _UNKNOWN,
                True,
            )
        ):
            yield Finding(
                path,
                f"has not the default `{_UNKNOWN}`, so that a later symbol would fail older readers",
                f'Add the symbol `{_UNKNOWN}` and `"default": "{_UNKNOWN}"` to the enum.',
            )


def _level_and_impact_are_frozen(schema: RecordType, earlier: Sequence[RecordType]) -> Iterator[Finding]:
    first = dict(_enums(earlier[0] if earlier else schema))
    for path, node in _enums(schema):
        if path in FROZEN and (node.default is not None or first.get(path, node).symbols != node.symbols):
            yield Finding(path, "is frozen: its symbols never change and it has no default", "Put it back as it was.")


def _enums(schema: RecordType) -> Iterator[tuple[str, EnumType]]:
    for path, node in _walk(schema):
        if isinstance(node, EnumType):
            yield path, node


def _enums_are_strings(schema: RecordType, _earlier: Sequence[RecordType]) -> Iterator[Finding]:
    for path, _ in _enums(schema):
        yield Finding(
            path,
            "is an enum, so that an unknown symbol would fail in decoding instead of getting a reason",
            "Use a string; the closed set is checked by the worker.",
        )


_ALL_SUBJECTS: Final[tuple[Rule, ...]] = (_no_bytes, _nothing_removed_or_retyped)
_RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "turns": (
        _new_fields_are_nullable,
        _content_is_last,
        _one_record_per_union,
        _no_default_in_manifest_enums,
        _fingerprint_defaults_are_null,
    ),
    "state-writes": (_new_fields_are_nullable, _one_record_per_union, _enums_are_strings),
    "fidelity": (_new_fields_come_last, _level_and_impact_are_frozen, _enums_default_to_unknown),
    "alerts": (_new_fields_come_last, _enums_default_to_unknown),
    "producer-paths": (_new_fields_come_last, _enums_default_to_unknown),
}
