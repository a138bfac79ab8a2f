"""Hostile bytes, one kind after the other."""

from __future__ import annotations

from typing import Any

import pytest

from workers.reasons import Reason
from workers.serde.avro_schema import parse_schema
from workers.serde.limits import Limits
from workers.serde.prescan import PayloadError, check, compile_scan

INT_MAX, INT_MIN = b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f"
LONG_MAX, LONG_MIN = b"\xfe" + b"\xff" * 8 + b"\x01", b"\xff" * 9 + b"\x01"
INTS = {"type": "array", "items": "int"}
STRINGS = {"type": "map", "values": "string"}
ENUM = {"type": "enum", "name": "E", "symbols": ["a", "b"]}


def outcome(declared: Any, payload: bytes, limits: Limits | None = None) -> Reason | None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": declared}]}
    try:
        check(compile_scan(parse_schema(schema, 32)), payload, limits or Limits())
    except PayloadError as error:
        named = error.field == (None if error.reason is Reason.TRAILING_BYTES else "f")
        return error.reason if named else None
    return None


@pytest.mark.parametrize(
    ("declared", "payload"),
    [
        ("boolean", b"\x00"),
        ("boolean", b"\x01"),
        ("int", INT_MAX),
        ("int", INT_MIN),
        ("long", LONG_MAX),
        ("long", LONG_MIN),
        ("float", bytes(4)),
        ("double", bytes(8)),
        ("bytes", b"\x04\xff\xfe"),
        ("string", b"\x04\xc3\xa9"),
        ("string", b"\x00"),
        ("null", b""),
        (ENUM, b"\x02"),
        (["null", "string"], b"\x02\x02x"),
        (["null", "string"], b"\x82\x00\x02x"),
        (INTS, b"\x00"),
        (INTS, b"\x04\x02\x02\x00"),
        (INTS, b"\x03\x04\x02\x02\x00"),
        (INTS, b"\x02\x02\x01\x02\x02\x00"),
        (STRINGS, b"\x02\x02k\x02v\x00"),
    ],
)
def test_what_the_encoding_allows_passes(declared: Any, payload: bytes) -> None:
    assert outcome(declared, payload) is None


@pytest.mark.parametrize(
    ("declared", "payload", "reason"),
    [
        ("boolean", b"\x02", Reason.BAD_VALUE),
        ("int", b"\x80\x80\x80\x80\x10", Reason.BAD_VALUE),
        ("int", b"\x80\x80\x80\x80\x80\x00", Reason.BAD_VALUE),
        ("long", b"\xff" * 9 + b"\x02", Reason.BAD_VALUE),
        ("long", b"\x80" * 10 + b"\x00", Reason.BAD_VALUE),
        ("string", b"\x01", Reason.BAD_VALUE),
        ("string", LONG_MIN, Reason.BAD_VALUE),
        ("bytes", b"\x03", Reason.BAD_VALUE),
        ("string", LONG_MAX, Reason.PAYLOAD_TRUNCATED),
        ("string", b"\x08ab", Reason.PAYLOAD_TRUNCATED),
        ("double", bytes(7), Reason.PAYLOAD_TRUNCATED),
        ("long", b"\x80", Reason.PAYLOAD_TRUNCATED),
        ("int", b"", Reason.PAYLOAD_TRUNCATED),
        ("string", b"\x04\xc3\x28", Reason.BAD_UTF8),
        ("string", b"\x06\xed\xa0\x80", Reason.BAD_UTF8),
        (STRINGS, b"\x02\x02\xff\x00\x00", Reason.BAD_UTF8),
        (ENUM, b"\x04", Reason.BAD_INDEX),
        (ENUM, b"\x01", Reason.BAD_INDEX),
        (["null", "string"], b"\x04", Reason.BAD_INDEX),
        (["null", "string"], b"\x01", Reason.BAD_INDEX),
        (["null", "string"], LONG_MAX, Reason.BAD_INDEX),
        (INTS, b"\x04\x02", Reason.PAYLOAD_TRUNCATED),
        (INTS, b"\x02\x02", Reason.PAYLOAD_TRUNCATED),
        (INTS, LONG_MAX, Reason.LIMIT_EXCEEDED),
        (INTS, LONG_MIN + b"\x02", Reason.LIMIT_EXCEEDED),
        (INTS, b"\x01\x01\x02\x00", Reason.BAD_VALUE),
        (INTS, b"\x01\x04\x02\x00", Reason.BAD_VALUE),
        (INTS, b"\x00\x00", Reason.TRAILING_BYTES),
        ("null", b"\x00", Reason.TRAILING_BYTES),
    ],
)
def test_what_it_does_not_allow_has_its_own_reason(declared: Any, payload: bytes, reason: Reason) -> None:
    assert outcome(declared, payload) is reason


def test_items_add_up_over_blocks() -> None:
    block = b"\x04\x02\x02"
    assert outcome(INTS, block * 5 + b"\x00", Limits(collection_items=10)) is None
    assert outcome(INTS, block * 6 + b"\x00", Limits(collection_items=10)) is Reason.LIMIT_EXCEEDED
    assert outcome(INTS, block * 6 + b"\x00", Limits(record_items=10)) is Reason.LIMIT_EXCEEDED
