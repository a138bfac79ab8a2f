"""Admission of a writer's schema: checked once per id, then every record of it decodes by a compiled plan.

Source: docs/producer-guide.md, "What a schema may hold" and "Evolution".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Final, cast

import fastavro

from workers.reasons import Reason, Rejection
from workers.serde.avro_schema import Node, RecordType, UnsupportedSchemaError, parse_schema, plain
from workers.serde.limits import Limits
from workers.serde.prescan import Scan, compile_scan
from workers.serde.projection import Projection, UnprojectableError, compile_projection
from workers.serde.schemas import Schema, load
from workers.serde.wire_format import SchemaRef

VERBATIM: Final = {"turns": frozenset({"manifest"})}
"""Per subject, the fields delivered as the writer wrote them: grading names what it does not know inside them."""

_STAGE: Final = "schema"
_OUR_DEPTH: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class WriterSchema:
    """An admitted writer's schema.

    ``presence`` holds the dotted paths of our fields that the writer supplies, by name or alias (array and map items
    add no part to a path); a default never counts. ``unknown_fields`` holds the dotted paths of the writer's fields
    that are not read, verbatim fields apart: unknown ones, and optional ones of a type that cannot be read.
    """

    ref: SchemaRef
    text: str = field(repr=False)
    presence: frozenset[str]
    unknown_fields: tuple[str, ...]
    plain_schema: Schema = field(repr=False)
    scan: Scan = field(repr=False)
    projection: Projection = field(repr=False)


def admit(schema_text: str, subject: str, limits: Limits, ref: SchemaRef) -> WriterSchema | Rejection:
    """Check the schema ``ref``, given as JSON text, against our latest schema of ``subject``.

    A field or an enum symbol we do not know never refuses a schema; a required field of ours that is missing or cannot
    be read does, as do schemas outside ``limits`` and types we never decode.
    """
    try:
        return _examine(schema_text, subject, limits, ref)
    except (UnsupportedSchemaError, UnprojectableError) as error:
        return _rejected(ref, error.field)
    except (ValueError, TypeError, KeyError, RecursionError, fastavro.schema.SchemaParseException):
        return _rejected(ref, None)


def _examine(schema_text: str, subject: str, limits: Limits, ref: SchemaRef) -> WriterSchema:
    if len(schema_text.encode("utf-8", "replace")) > limits.schema_bytes:
        raise UnsupportedSchemaError(f"the text is over {limits.schema_bytes} bytes", "")
    document = json.loads(schema_text)
    writer = parse_schema(document, limits.schema_depth)
    if not isinstance(writer, RecordType):
        raise UnsupportedSchemaError("the root is not a record", "")
    if writer.nodes > limits.schema_nodes:
        raise UnsupportedSchemaError(f"its types describe over {limits.schema_nodes} values", "")
    projection = compile_projection(_reader(subject), writer, VERBATIM.get(subject, frozenset()))
    plain_schema = cast("Schema", fastavro.parse_schema(cast("Schema", plain(document))))
    return WriterSchema(
        ref, schema_text, projection.presence, projection.unknown, plain_schema, compile_scan(writer), projection
    )


def _rejected(ref: SchemaRef, place: str | None) -> Rejection:
    return Rejection(Reason.SCHEMA_REJECTED, _STAGE, place, str(ref))


@cache
def _reader(subject: str) -> Node:
    return parse_schema(load(subject), _OUR_DEPTH)
