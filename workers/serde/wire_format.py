"""Confluent's wire format: which schema wrote a value, and where its payload begins.

Two forms exist: the prefix (byte 0, then a 4-byte big-endian schema id) and the header ``__value_schema_id`` (byte 1,
then the 16 bytes of the schema's GUID) in front of an unprefixed value.

Source: "Wire format" of Confluent Schema Registry; docs/producer-guide.md, "Framing".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from workers.reasons import Reason, Rejection
from workers.records import RawRecord
from workers.serde.limits import Limits

SchemaRef = int | str
"""A schema id (prefix form) or the text of a GUID (header form)."""

SCHEMA_ID_HEADER: Final = "__value_schema_id"
MAX_SCHEMA_ID: Final = 2**31 - 1
"""Registries count schema ids in a signed 32-bit integer."""

_STAGE: Final = "frame"
_PREFIX: Final = struct.Struct(">BI")
_GUID_HEADER_LENGTH: Final = 17


class Frame(NamedTuple):
    """A value split into the reference of its writer's schema and its bare Avro payload."""

    schema_id: SchemaRef
    payload: bytes


class Tombstone(NamedTuple):
    """A null value."""


def parse(record: RawRecord, limits: Limits, *, bare_schema: SchemaRef | None = None) -> Frame | Tombstone | Rejection:
    """Split the value of ``record``; no registry is asked.

    A null value is a tombstone before any framing. A valid header wins over a prefix; a malformed one counts only where
    the value has no prefix either. ``bare_schema`` is the schema of topics configured to carry Avro without any frame:
    it applies to every record without a valid header.
    """
    value = record.value
    if value is None:
        return Tombstone()
    guid, malformed = _guid_of(record.headers)
    if guid is not None:
        frame = Frame(guid, value)
    elif bare_schema is not None:
        frame = Frame(bare_schema, value)
    elif len(value) >= _PREFIX.size and value[0] == 0:
        frame = Frame(_PREFIX.unpack_from(value)[1], value[_PREFIX.size :])
    elif malformed:
        return Rejection(Reason.BAD_HEADER_FRAMING, _STAGE)
    elif len(value) < _PREFIX.size:
        return Rejection(Reason.TRUNCATED_FRAME, _STAGE)
    else:
        return Rejection(Reason.BAD_MAGIC, _STAGE)
    if len(value) > limits.record_bytes:
        return Rejection(Reason.TOO_LARGE, _STAGE, schema_id=str(frame.schema_id))
    return frame


def frame(schema_id: int, payload: bytes) -> bytes:
    """Return ``payload`` in prefix form.

    Raises:
        ValueError: ``schema_id`` is outside what a registry issues.
    """
    if not 0 <= schema_id <= MAX_SCHEMA_ID:
        raise ValueError(f"schema id {schema_id} is outside 0..{MAX_SCHEMA_ID}")
    return _PREFIX.pack(0, schema_id) + payload


def guid_header(guid: str) -> tuple[str, bytes]:
    """Return the header of the header form for the schema ``guid``."""
    return SCHEMA_ID_HEADER, b"\x01" + UUID(guid).bytes


def _guid_of(headers: Iterable[tuple[str, bytes | None]]) -> tuple[str | None, bool]:
    """Return the GUID of the last valid header, and whether a malformed one was seen."""
    guid, malformed = None, False
    for name, value in headers:
        if name != SCHEMA_ID_HEADER:
            continue
        if value is not None and len(value) == _GUID_HEADER_LENGTH and value[0] == 1:
            guid = str(UUID(bytes=value[1:]))
        else:
            malformed = True
    return guid, malformed
