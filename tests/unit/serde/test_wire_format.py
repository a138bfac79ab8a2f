from __future__ import annotations

import pytest

from workers.reasons import Reason, Rejection
from workers.records import Headers, StoredRecord
from workers.serde.limits import TURN_LIMITS, Limits
from workers.serde.wire_format import Frame, Tombstone, frame, guid_header, parse

GUID = "3f090ba1-4c81-57e0-8078-b546d49c8a09"


def record(value: bytes | None, headers: Headers = ()) -> StoredRecord:
    return StoredRecord(0, 0, b"key", value, headers)


def reason(value: bytes | None, headers: Headers = ()) -> Reason | None:
    parsed = parse(record(value, headers), TURN_LIMITS)
    return parsed.reason if isinstance(parsed, Rejection) else None


def test_a_prefix_names_the_schema_and_leaves_the_payload() -> None:
    assert parse(record(b"\x00\x00\x00\x01\x02payload"), TURN_LIMITS) == Frame(258, b"payload")
    assert parse(record(frame(258, b"payload")), TURN_LIMITS) == Frame(258, b"payload")


def test_a_null_value_is_a_tombstone_whatever_its_headers_say() -> None:
    assert isinstance(parse(record(None, (guid_header(GUID), ("__value_schema_id", b"x"))), TURN_LIMITS), Tombstone)


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x00\x00\x01", b"{", b"\x01\x02\x03\x04"])
def test_less_than_a_frame_is_truncated_and_no_tombstone(value: bytes) -> None:
    assert reason(value) is Reason.TRUNCATED_FRAME


@pytest.mark.parametrize("value", [b"\x01\x00\x00\x00\x01payload", b'{"tenant":"acme"}'])
def test_another_first_byte_is_bad_magic(value: bytes) -> None:
    assert reason(value) is Reason.BAD_MAGIC


def test_a_valid_header_wins_over_a_prefix_and_leaves_the_whole_value() -> None:
    value = frame(7, b"payload")
    assert parse(record(value, (guid_header(GUID),)), TURN_LIMITS) == Frame(GUID, value)


@pytest.mark.parametrize("header", [None, b"", b"\x01", b"\x00" + bytes(16), b"\x01" + bytes(15), b"\x01" + bytes(17)])
def test_a_malformed_header_counts_only_where_there_is_no_prefix(header: bytes | None) -> None:
    headers: Headers = (("__value_schema_id", header),)
    assert parse(record(frame(7, b"p"), headers), TURN_LIMITS) == Frame(7, b"p")
    assert reason(b"bare avro", headers) is Reason.BAD_HEADER_FRAMING
    assert reason(b"", headers) is Reason.BAD_HEADER_FRAMING


def test_a_valid_header_beside_a_malformed_one_of_the_same_name_is_taken() -> None:
    headers: Headers = (guid_header(GUID), ("__value_schema_id", b"?"))
    assert parse(record(b"bare", headers), TURN_LIMITS) == Frame(GUID, b"bare")


def test_bare_avro_is_taken_only_where_configured() -> None:
    assert reason(b"\x08acme") is Reason.BAD_MAGIC
    assert parse(record(b"\x08acme"), TURN_LIMITS, bare_schema=1) == Frame(1, b"\x08acme")


def test_a_record_over_the_limit_is_too_large_and_one_at_it_is_not() -> None:
    limits = Limits(record_bytes=100)
    assert isinstance(parse(record(frame(1, bytes(95))), limits), Frame)
    over = parse(record(frame(1, bytes(96))), limits)
    assert isinstance(over, Rejection)
    assert (over.reason, over.schema_id) == (Reason.TOO_LARGE, "1")


def test_no_frame_is_written_for_an_id_no_registry_issues() -> None:
    with pytest.raises(ValueError, match="outside"):
        frame(2**31, b"")
