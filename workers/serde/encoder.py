"""Encode our own records: strict, and equal records give equal bytes.

Source: the Avro 1.12 specification, "Binary Encoding"; docs/schemas.md, "Bytes".
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, cast

import fastavro
from fastavro.validation import ValidationError, validate

from workers.serde.avro_schema import plain
from workers.serde.schemas import Schema
from workers.serde.wire_format import frame


class Encoder:
    """Writes records of one subject under the schema id that was looked up at start.

    Timestamps are integers, milliseconds since the epoch. Maps are written in the order of their keys in the record;
    arrays in one block.
    """

    __slots__ = ("_schema", "schema_id")

    def __init__(self, schema: Schema, schema_id: int) -> None:
        self._schema = fastavro.parse_schema(cast("Schema", plain(schema)))
        self.schema_id = schema_id

    def encode(self, record: Mapping[str, Any]) -> bytes:
        """Return ``record`` framed by prefix.

        Every field must be there under its own name, and no other key: a misspelt one fails instead of vanishing.

        Raises:
            ValueError, TypeError, OverflowError: the record does not fit the schema. The message may quote the record,
                so logs take only its type.
        """
        return frame(self.schema_id, self.payload(record))

    def payload(self, record: Mapping[str, Any]) -> bytes:
        """Return ``record`` as bare Avro; otherwise like `encode`."""
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self._schema, record, strict=True, disable_tuple_notation=True)
        return buffer.getvalue()

    def check(self, record: Mapping[str, Any]) -> None:
        """Do nothing when every value of ``record`` has exactly the type of its field.

        `encode` narrows some values silently (1.5, True and 2**40 as an int). This costs as much again as encoding, so
        it serves tests.

        Raises:
            ValueError: a value has another type, or `encode` would refuse the record.
        """
        try:
            self.payload(record)
            validate(record, self._schema, strict=True)
        except (ValidationError, ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"the record does not fit the schema: {error}") from error
