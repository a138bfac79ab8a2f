"""Dead letters as they are written."""

from __future__ import annotations

import hashlib

from workers.outputs.dlq import PREFIX, LetterWriter
from workers.reasons import Reason, Rejection
from workers.records import Output, Partition, StoredRecord

SOURCE = Partition("turns", 3)
REJECTION = Rejection(Reason.LIMIT_EXCEEDED, "validate", "content.reply.text", "1")


def letter(record: StoredRecord, *, max_bytes: int = 1_000_000, truncate: bool = False) -> Output:
    return LetterWriter("turns-dlq", max_bytes, "host:worker", "abc").letter(
        SOURCE, record, REJECTION, truncate=truncate
    )


def facts(output: Output) -> dict[str, bytes | None]:
    return {name.removeprefix(PREFIX): content for name, content in output.headers if name.startswith(PREFIX)}


def test_a_letter_holds_the_record_byte_for_byte_with_repeated_headers_in_order() -> None:
    headers = (("a", b"1"), ("b", None), ("a", b"2"), ("traceparent", b"00-1-2-01"))
    written = letter(StoredRecord(17, 1234, b"key", b"\x00\xff", headers))
    assert (written.key, written.value, written.timestamp, written.partition) == (b"key", b"\x00\xff", 1234, 3)
    assert written.headers[: len(headers)] == headers


def test_a_letter_says_where_it_comes_from_why_and_who_has_to_act() -> None:
    said = facts(letter(StoredRecord(17, 1234, b"key", b"value")))
    assert said == {
        "id": b"turns:3:17",
        "reason": b"limit_exceeded",
        "stage": b"validate",
        "class": b"producer",
        "topic": b"turns",
        "partition": b"3",
        "offset": b"17",
        "timestamp": b"1234",
        "schema_id": b"1",
        "detail": b"content.reply.text",
        "worker": b"host:worker",
        "config_version": b"abc",
        "first_seen": b"1234",
        "attempt": b"1",
    }


def test_a_redriven_record_keeps_when_it_was_first_seen_and_its_attempts() -> None:
    headers = (("engram.first-append", b"99"), ("engram.attempt", b"3"))
    said = facts(letter(StoredRecord(17, 1234, b"key", b"value", headers)))
    assert (said["first_seen"], said["attempt"]) == (b"99", b"3")


def test_a_letter_too_large_for_its_topic_goes_without_its_value_but_with_size_and_digest() -> None:
    value = b"x" * 5_000
    written = letter(StoredRecord(17, 1234, b"key", value), max_bytes=5_000)
    assert written.value is None
    said = facts(written)
    assert (said["truncated"], said["size"]) == (b"1", b"5000")
    assert said["sha256"] == hashlib.sha256(value).hexdigest().encode()


def test_a_letter_that_was_refused_goes_without_its_value_whatever_its_size() -> None:
    assert letter(StoredRecord(17, 1234, b"key", b"small"), truncate=True).value is None
