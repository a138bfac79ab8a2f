"""Tables of turns as the column decoder makes them, built from records; and turns around manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from workers.serde.avro_schema import ArrayType, EnumType, MapType, Node, Primitive, RecordType, UnionType
from workers.serde.columns.layout import UNKNOWN_SYMBOL, layout, nullable, turn_type


def table_of(turns: Iterable[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return the table of ``turns``: records of our schema, of which fields may be missing or unknown."""
    root = turn_type()
    rows = [_coded(root, turn) for turn in turns]
    return pa.RecordBatch.from_pylist(rows, schema=layout())


def manifests_of(manifests: Iterable[Mapping[str, Any] | None]) -> pa.StructArray:
    """Return the column ``manifest`` that holds ``manifests``, given in the Avro form."""
    return table_of([turn(manifest=manifest) for manifest in manifests]).column("manifest")


def turn(**fields: Any) -> dict[str, Any]:
    """Return a valid turn with little in it."""
    return {
        "tenant": "acme",
        "conversation_id": "c-1",
        "turn_id": "t-1",
        "turn_index": None,
        "user_key": None,
        "assembled_at": 1_790_000_000_000,
        "completed_at": None,
        "producer": {
            "service": "chat",
            "region": None,
            "build_id": None,
            "instance_id": None,
            "process_started_at": None,
            "sdk": None,
            "sdk_version": None,
            "path": None,
        },
        "fingerprint": None,
        "provider_id": None,
        "status": None,
        "snapshot": None,
        "manifest": None,
        "content": None,
        **fields,
    }


def manifest_type() -> RecordType:
    """Return our schema of a manifest as a tree."""
    [union] = [entry.type for entry in turn_type().fields if entry.name == "manifest"]
    node = nullable(union) if isinstance(union, UnionType) else None
    assert isinstance(node, RecordType)
    return node


def is_odd(manifest: Mapping[str, Any] | None) -> bool:
    """Return whether a manifest has a value in a field that is not ours."""
    return _has_unlisted(manifest_type(), manifest)


def _has_unlisted(node: Node, value: Any) -> bool:
    if isinstance(node, UnionType):
        inner = nullable(node)
        return inner is not None and _has_unlisted(inner, value)
    if isinstance(node, RecordType) and value is not None:
        own = {entry.name: entry.type for entry in node.fields}
        return any(
            held is not None and (name not in own or _has_unlisted(own[name], held)) for name, held in value.items()
        )
    if isinstance(node, ArrayType) and value is not None:
        return any(_has_unlisted(node.items, item) for item in value)
    return False


def _coded(node: Node, value: Any) -> Any:
    if value is None:
        return None
    match node:
        case RecordType():
            return {entry.name: _coded(entry.type, value.get(entry.name)) for entry in node.fields}
        case ArrayType():
            return [_coded(node.items, item) for item in value]
        case MapType():
            return list(value.items())
        case EnumType():
            return node.symbols.index(value) if value in node.symbols else UNKNOWN_SYMBOL
        case UnionType() if (inner := nullable(node)) is not None:
            return _coded(inner, value)
        case Primitive():
            return value
    raise TypeError(f"no column holds {node}")
