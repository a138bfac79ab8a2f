"""Schemas, payloads and frames for the tests of decoding."""

from __future__ import annotations

import copy
import io
import json
from typing import Any, cast

import fastavro

from workers.reasons import Rejection
from workers.serde.admission import WriterSchema, admit
from workers.serde.avro_schema import plain
from workers.serde.decoder import Record, decode
from workers.serde.limits import TURN_LIMITS, Limits
from workers.serde.schemas import Schema, load
from workers.serde.wire_format import Frame


def turn_schema() -> Schema:
    """Return our schema of a turn, to be changed."""
    return copy.deepcopy(load("turns"))


def field_of(schema: Schema, path: str) -> dict[str, Any]:
    """Return the declaration of the field at the dotted ``path``, looking through unions and arrays."""
    node: Any = schema
    field: dict[str, Any] = {}
    for name in path.split("."):
        field = next(entry for entry in _record(node)["fields"] if entry["name"] == name)
        node = field["type"]
    return field


def record_of(field: dict[str, Any]) -> dict[str, Any]:
    """Return the record inside a field's type."""
    return _record(field["type"])


def _record(node: Any) -> dict[str, Any]:
    if isinstance(node, list):
        return next(_record(branch) for branch in node if isinstance(branch, dict))
    if node["type"] == "array":
        return _record(node["items"])
    return cast("dict[str, Any]", node)


def drop_field(schema: Schema, path: str) -> Schema:
    """Remove the field at ``path`` from ``schema`` and return it."""
    parent, _, name = path.rpartition(".")
    fields = (record_of(field_of(schema, parent)) if parent else schema)["fields"]
    fields[:] = [entry for entry in fields if entry["name"] != name]
    return schema


def write(schema: Schema, record: dict[str, Any]) -> bytes:
    """Return ``record`` as a producer with ``schema`` writes it: missing optional fields are null."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(cast("Schema", plain(schema))), record)
    return buffer.getvalue()


def admitted(schema: Schema, subject: str = "turns", limits: Limits = TURN_LIMITS) -> WriterSchema:
    """Admit ``schema``, which must be fit for it."""
    writer = admit(json.dumps(schema), subject, limits, 1)
    assert isinstance(writer, WriterSchema), writer
    return writer


def read(schema: Schema, payload: bytes, limits: Limits = TURN_LIMITS, subject: str = "turns") -> Record | Rejection:
    """Decode ``payload`` written with ``schema``."""
    return decode(Frame(1, payload), admitted(schema, subject), limits)


def read_record(schema: Schema, record: dict[str, Any]) -> Record:
    """Write ``record`` with ``schema`` and decode it, which must succeed."""
    decoded = read(schema, write(schema, record))
    assert not isinstance(decoded, Rejection), decoded
    return decoded


def small_turn(**changes: Any) -> dict[str, Any]:
    """Return the smallest valid turn, with ``changes``."""
    return {
        "tenant": "acme",
        "conversation_id": "c-42",
        "turn_id": "t-7",
        "assembled_at": 1_790_000_000_000,
        "producer": {"service": "chat"},
        **changes,
    }


def turn_with_content(**content: Any) -> dict[str, Any]:
    """Return a valid turn whose content holds ``content`` beside empty lists."""
    return small_turn(content={"memories": [], "events": [], **content})
