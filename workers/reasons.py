"""Every reason a record may be dead-lettered for: one closed catalogue with its class and the fix.

Sources: the failure handling of framing and decoding (docs/reasons.md is generated from here).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class ReasonClass(StrEnum):
    """Who has to act on a dead letter."""

    PRODUCER = "producer"
    OURS = "ours"
    OPERATOR = "operator"


class Reason(StrEnum):
    """Closed set of dead-letter reasons."""

    BAD_MAGIC = "bad_magic"
    TRUNCATED_FRAME = "truncated_frame"
    BAD_HEADER_FRAMING = "bad_header_framing"
    UNKNOWN_SCHEMA_ID = "unknown_schema_id"
    SCHEMA_REJECTED = "schema_rejected"
    SCHEMA_RESOLUTION = "schema_resolution"
    PAYLOAD_TRUNCATED = "payload_truncated"
    TRAILING_BYTES = "trailing_bytes"
    BAD_UTF8 = "bad_utf8"
    BAD_INDEX = "bad_index"
    BAD_VALUE = "bad_value"
    LIMIT_EXCEEDED = "limit_exceeded"
    DECODE_FAILED = "decode_failed"
    INVALID_RECORD = "invalid_record"
    MISSING_KEY = "missing_key"
    OPERATOR_SKIP = "operator_skip"
    PROCESSING_FAILED = "processing_failed"
    OUTPUT_TOO_LARGE = "output_too_large"
    OUTPUT_REJECTED = "output_rejected"
    TOO_LARGE = "too_large"
    MISSING_EVENT_TIME = "missing_event_time"
    UNKNOWN_KIND = "unknown_kind"
    BAD_KEY = "bad_key"
    NOT_OPERATOR = "not_operator"
    PARK_OVERFLOW = "park_overflow"
    REJECTED = "rejected"


class ReasonEntry(NamedTuple):
    """What a reason means, who acts, and how it is fixed."""

    reason: Reason
    reason_class: ReasonClass
    meaning: str
    fix: str


_P, _O, _Op = ReasonClass.PRODUCER, ReasonClass.OURS, ReasonClass.OPERATOR

CATALOGUE: Final = {
    entry.reason: entry
    for entry in (
        ReasonEntry(
            Reason.BAD_MAGIC,
            _P,
            "The first byte is not 0.",
            "Serialize with a Confluent-compatible Avro serializer: byte 0, then the 4-byte schema id.",
        ),
        ReasonEntry(
            Reason.TRUNCATED_FRAME,
            _P,
            "The value ends inside the 5-byte frame.",
            "Send the whole frame; an empty value is not a tombstone, null is.",
        ),
        ReasonEntry(
            Reason.BAD_HEADER_FRAMING,
            _P,
            "The header __value_schema_id is not byte 1 and a 16-byte GUID.",
            "Write the header with the serializer of the registry, or drop it and frame by prefix.",
        ),
        ReasonEntry(
            Reason.UNKNOWN_SCHEMA_ID,
            _P,
            "The registry does not know the schema id, also after the grace.",
            "Register the schema before the first record; check that producer and worker use one registry.",
        ),
        ReasonEntry(
            Reason.SCHEMA_REJECTED,
            _P,
            "The writer's schema cannot be projected onto ours or is outside the limits.",
            "Evolve from the published schema; `engram-stream schemas check` tells what is wrong.",
        ),
        ReasonEntry(
            Reason.SCHEMA_RESOLUTION,
            _P,
            "A value of the writer's schema does not fit the type it is read as.",
            "Keep to the published type of the field.",
        ),
        ReasonEntry(
            Reason.PAYLOAD_TRUNCATED,
            _P,
            "The payload ends before the record does.",
            "Serialize with the schema whose id is in the frame.",
        ),
        ReasonEntry(
            Reason.TRAILING_BYTES,
            _P,
            "Bytes are left after the record.",
            "Serialize with the schema whose id is in the frame.",
        ),
        ReasonEntry(Reason.BAD_UTF8, _P, "A string is not UTF-8.", "Encode strings as UTF-8."),
        ReasonEntry(
            Reason.BAD_INDEX,
            _P,
            "An enum or union index is outside its schema.",
            "Serialize with the schema whose id is in the frame.",
        ),
        ReasonEntry(
            Reason.BAD_VALUE,
            _P,
            "A boolean, integer, length or block count is out of range.",
            "Serialize with the schema whose id is in the frame.",
        ),
        ReasonEntry(
            Reason.LIMIT_EXCEEDED,
            _P,
            "A field is over its limit; the letter names it.",
            "Shorten the field; send large content by reference.",
        ),
        ReasonEntry(
            Reason.DECODE_FAILED,
            _P,
            "The decoder gave up for another cause.",
            "Validate the payload with `engram-stream validate`.",
        ),
        ReasonEntry(
            Reason.INVALID_RECORD,
            _P,
            "The record decodes but breaks its contract; the letter names the field.",
            "Send the field as the producer guide says.",
        ),
        ReasonEntry(
            Reason.MISSING_KEY, _P, "Key and value are both null.", "Give a tombstone the key of what it erases."
        ),
        ReasonEntry(
            Reason.OPERATOR_SKIP,
            _Op,
            "An operator skipped an unreadable record; the letter is a pointer.",
            "Nothing: it was decided by hand.",
        ),
        ReasonEntry(
            Reason.PROCESSING_FAILED,
            _O,
            "Our processing failed on the record.",
            "Report it with the letter's id, upgrade, redrive.",
        ),
        ReasonEntry(
            Reason.OUTPUT_TOO_LARGE,
            _O,
            "The output is larger than its topic allows.",
            "Raise the topic's max.message.bytes to the catalogue's, redrive.",
        ),
        ReasonEntry(
            Reason.OUTPUT_REJECTED,
            _O,
            "The broker refused the output for its content.",
            "Read the broker's log, repair the topic, redrive.",
        ),
        ReasonEntry(
            Reason.TOO_LARGE,
            _P,
            "The record is over its limit: 1,000,000 bytes for a turn, 1,048,576 for a state write.",
            "Send large content by reference.",
        ),
        ReasonEntry(
            Reason.MISSING_EVENT_TIME,
            _P,
            "Neither assembled_at nor completed_at is set.",
            "Set assembled_at when the definition is read.",
        ),
        ReasonEntry(
            Reason.UNKNOWN_KIND,
            _P,
            "The kind of the state write is unknown.",
            "Use a kind of docs/concepts/state-writes.md; upgrade the workers before producers.",
        ),
        ReasonEntry(
            Reason.BAD_KEY,
            _P,
            "A tombstone's key, or its header engram.turn-id, does not name what to erase.",
            "Key it tenant|conversation_id, with % and | escaped; a header engram.turn-id holds one turn_id.",
        ),
        ReasonEntry(
            Reason.NOT_OPERATOR,
            _P,
            "The tenant may not act for other tenants.",
            "Ask the operators to list the tenant under `operators` in the policy.",
        ),
        ReasonEntry(
            Reason.PARK_OVERFLOW,
            _O,
            "Too many records wait for another one.",
            "Redrive after the awaited records have arrived.",
        ),
        ReasonEntry(
            Reason.REJECTED,
            _P,
            "The evidence contract refuses the record; engram.dlq.detail holds the code.",
            "See the code.",
        ),
    )
}


class Rejection(NamedTuple):
    """Why one record is dead-lettered.

    ``field`` is a path of schema field names (never content), ``stage`` the stage that refused it:
    ``frame``, ``schema``, ``decode``, ``validate``, ``process`` or ``output``.
    """

    reason: Reason
    stage: str
    field: str | None = None
    schema_id: str | None = None
