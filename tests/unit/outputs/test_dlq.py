"""Dead letters as they are written."""

from __future__ import annotations

import hashlib

from workers.outputs.dlq import PREFIX, LetterWriter, added_to
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


def size_of(output: Output) -> int:
    headers = sum(len(name) + len(content or b"") for name, content in output.headers)
    return len(output.key or b"") + len(output.value or b"") + headers


def test_headers_that_no_letter_has_room_for_are_left_out_so_that_they_stop_no_partition() -> None:
    written = letter(StoredRecord(17, 1234, b"key", b"value", (("junk", b"x" * 5_000),)), max_bytes=5_000)
    assert (written.key, written.value) == (b"key", None)
    assert "junk" not in dict(written.headers)
    assert size_of(written) < 5_000
    assert (facts(written)["truncated"], facts(written)["size"]) == (b"1", b"5")


def test_a_key_that_no_letter_has_room_for_is_left_out_of_a_tombstones_too() -> None:
    written = letter(StoredRecord(17, 1234, b"k" * 5_000, None, (("a", b"1"),)), max_bytes=5_000)
    assert (written.key, written.value, facts(written)["truncated"]) == (None, None, b"1")
    assert size_of(written) < 5_000


def test_what_a_producer_writes_into_our_headers_is_no_number_of_attempts() -> None:
    headers = (("engram.first-append", b"9" * 40_000), ("engram.attempt", b"many"))
    said = facts(letter(StoredRecord(17, 1234, b"key", b"value", headers)))
    assert (said["first_seen"], said["attempt"]) == (b"1234", b"1")


def test_the_name_of_a_field_is_cut_before_it_costs_the_letter_its_value() -> None:
    rejection = Rejection(Reason.BAD_UTF8, "decode", "x" * 100_000, "1")
    record = StoredRecord(17, 1234, b"key", b"v" * 900_000)
    written = LetterWriter("turns-dlq", 1_000_000, "host:worker", "abc").letter(SOURCE, record, rejection)
    assert (written.value, len(facts(written)["detail"] or b"")) == (record.value, 256)


def test_what_is_ours_in_a_letter_is_told_from_a_records_own_headers_of_the_same_names() -> None:
    own = (("engram.dlq.id", b"theirs"), ("engram.dlq.detail", b"theirs"), ("a", b"1"))
    written = letter(StoredRecord(17, 1234, b"key", b"value", own))
    assert written.headers[: added_to(written.headers)] == own
    assert written.headers[added_to(written.headers)] == ("engram.dlq.id", b"turns:3:17")


def test_a_record_that_is_no_letter_has_nothing_of_ours() -> None:
    assert added_to((("a", b"1"),)) == 1
