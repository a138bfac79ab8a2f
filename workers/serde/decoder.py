"""Decode framed payloads into records of our own schema: strict scan, fastavro, projection by name.

This is the reference; whatever is quicker must give the same.
"""

from __future__ import annotations

import io
from functools import partial
from typing import Any, Final, TypeAlias, cast

import fastavro

from workers.reasons import Reason, Rejection
from workers.serde.admission import WriterSchema
from workers.serde.limits import Limits
from workers.serde.prescan import PayloadError, check
from workers.serde.wire_format import Frame

Record: TypeAlias = dict[str, Any]
"""A record of our schema: every field is there, timestamps are integers (milliseconds since the epoch)."""

_STAGE: Final = "decode"
_read: Final = partial(
    fastavro.schemaless_reader,
    reader_schema=None,
    return_named_type=True,  # names the branch, but only
    return_named_type_override=True,  # in unions of several named types
)


def decode(frame: Frame, writer: WriterSchema, limits: Limits) -> Record | Rejection:
    """Return the payload of ``frame``, written with ``writer``, as a record of our schema, or why it is refused.

    Fields the writer does not supply hold their default: None, or an empty list. An enum symbol we do not know reads
    as None, or as the enum's default. Verbatim fields (a turn's manifest) hold what the writer wrote.
    """
    try:
        check(writer.scan, frame.payload, limits)
        value = cast("Record", _read(io.BytesIO(frame.payload), writer.plain_schema))
        convert = writer.projection.convert
        return cast("Record", convert(value)) if convert else value
    except PayloadError as error:
        return Rejection(error.reason, _STAGE, error.field, str(writer.ref))
    except Exception:  # noqa: BLE001 - a decoder that gives up must never stop a partition
        return Rejection(Reason.DECODE_FAILED, _STAGE, None, str(writer.ref))
