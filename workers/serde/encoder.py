"""Encode our own records: strict, and equal records give equal bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, cast

import fastavro

from workers.serde.avro_schema import plain
from workers.serde.schemas import Schema
from workers.serde.wire_format import frame


class Encoder:
    """Writes records of one subject with the schema id that workers looked up at start."""

    __slots__ = ("_schema", "schema_id")

    def __init__(self, schema: Schema, schema_id: int) -> None:
        self._schema = fastavro.parse_schema(cast("Schema", plain(schema)))
        self.schema_id = schema_id

    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return ``record`` framed by prefix.

        Every field must be there under its own name and of its own type (timestamps: integers, milliseconds since the
        epoch), and no other key: a typing mistake fails here instead of vanishing from the output.

        Raises:
            ValueError, TypeError: the record does not fit the schema.
        """
        return frame(self.schema_id, self.payload(record))

    def payload(self, record: Mapping[str, Any]) -> bytes:
        """Return ``record`` as bare Avro; otherwise like `encode`."""
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self._schema, record, strict=True, disable_tuple_notation=True)
        return buffer.getvalue()
