from __future__ import annotations

from typing import Any

import pytest
from serde_builders import (
    admitted,
    drop_field,
    field_of,
    read,
    read_record,
    record_of,
    small_turn,
    turn_schema,
    turn_with_content,
    write,
)

from workers.reasons import Reason, Rejection
from workers.serde.limits import Limits


def refused(result: Any) -> tuple[Reason, str | None]:
    assert isinstance(result, Rejection), result
    assert result.schema_id == "1"
    return result.reason, result.field


def test_every_field_of_ours_is_there_and_what_the_writer_lacks_is_null_or_empty() -> None:
    schema = drop_field(drop_field(turn_schema(), "fingerprint"), "content.events")
    turn = read_record(schema, turn_with_content())
    assert set(turn) == {entry["name"] for entry in turn_schema()["fields"]}
    assert (turn["fingerprint"], turn["content"]["events"]) == (None, [])
    turn["content"]["events"].append("changed")
    assert read_record(schema, turn_with_content())["content"]["events"] == []


@pytest.mark.parametrize("at", [-(2**63), -1, 0, 253_402_300_800_000, 2**63 - 1])
def test_times_stay_raw_integers_up_to_the_extremes_of_a_long(at: int) -> None:
    assert read_record(turn_schema(), small_turn(assembled_at=at))["assembled_at"] == at


@pytest.mark.parametrize(("unit", "factor"), [("timestamp-micros", 1_000), ("timestamp-nanos", 1_000_000)])
def test_finer_times_are_brought_to_milliseconds(unit: str, factor: int) -> None:
    schema = turn_schema()
    field_of(schema, "assembled_at")["type"] = ["null", {"type": "long", "logicalType": unit}]
    for millis in (1_790_000_000_123, -1):
        turn = read_record(schema, small_turn(assembled_at=millis * factor + 999))
        assert turn["assembled_at"] == millis


@pytest.mark.parametrize("declared", [{"type": "long", "logicalType": "local-timestamp-millis"}, "string"])
def test_a_time_in_a_type_we_cannot_read_is_absent(declared: Any) -> None:
    schema = turn_schema()
    field_of(schema, "completed_at")["type"] = declared
    value = "2026-11-30" if declared == "string" else 1
    assert read_record(schema, small_turn(completed_at=value))["completed_at"] is None


def test_integers_are_promoted() -> None:
    schema = turn_schema()
    field_of(schema, "turn_index")["type"] = "int"
    assert read_record(schema, small_turn(turn_index=7))["turn_index"] == 7


def test_bytes_are_read_as_text_only_when_they_are_utf8() -> None:
    schema = turn_schema()
    field_of(schema, "provider_id")["type"] = ["null", "bytes"]
    assert read_record(schema, small_turn(provider_id="né".encode()))["provider_id"] == "né"
    assert refused(read(schema, write(schema, small_turn(provider_id=b"\xff")))) == (Reason.BAD_UTF8, "provider_id")


def test_an_unknown_symbol_outside_the_manifest_reads_as_null() -> None:
    schema = turn_schema()
    field_of(schema, "status")["type"][1]["symbols"].append("cancelled")
    assert read_record(schema, small_turn(status="cancelled"))["status"] is None
    assert read_record(schema, small_turn(status="error"))["status"] == "error"


def test_unknown_fields_are_dropped_outside_the_manifest_and_kept_inside() -> None:
    schema = turn_schema()
    schema["fields"].insert(0, {"name": "extra", "type": {"type": "array", "items": "double"}})
    manifest = field_of(schema, "manifest")
    manifest["type"] = [
        "null",
        {
            "type": "record",
            "name": "M",
            "fields": [
                {"name": "version", "type": "int"},
                {"name": "later", "type": "string"},
                {"name": "mode", "type": {"type": "enum", "name": "E", "symbols": ["new_symbol"]}},
            ],
        },
    ]
    written = {"version": 3, "later": "x", "mode": "new_symbol"}
    turn = read_record(schema, small_turn(extra=[0.5], manifest=written))
    assert "extra" not in turn
    assert turn["manifest"] == written


def test_a_manifest_in_a_union_of_several_records_is_delivered_as_it_was_written() -> None:
    schema = turn_schema()
    other = {"type": "record", "name": "V3", "fields": [{"name": "version", "type": "int"}]}
    field_of(schema, "manifest")["type"].append(other)
    turn = read_record(schema, small_turn(manifest=("engram.V3", {"version": 3})))
    assert turn["manifest"] == {"version": 3}


def test_branches_of_a_union_match_in_any_order_and_number() -> None:
    schema = turn_schema()
    field_of(schema, "user_key")["type"] = ["string", "long", "null"]
    field_of(schema, "tenant")["type"] = ["null", "string"]
    assert read_record(schema, small_turn(user_key="u-1"))["user_key"] == "u-1"
    assert read_record(schema, small_turn(user_key=None))["user_key"] is None
    assert refused(read(schema, write(schema, small_turn(user_key=7)))) == (Reason.SCHEMA_RESOLUTION, "user_key")
    assert refused(read(schema, write(schema, small_turn(tenant=None)))) == (Reason.SCHEMA_RESOLUTION, "tenant")


def test_records_inside_unions_of_several_records_are_told_apart_by_name() -> None:
    schema = turn_schema()
    other = {"type": "record", "name": "Blob", "fields": [{"name": "size_bytes", "type": "long"}]}
    field_of(schema, "snapshot")["type"].append(other)
    record_of(field_of(schema, "snapshot"))["fields"].append({"name": "kind", "type": "string"})
    turn = read_record(schema, small_turn(snapshot=("engram.Blob", {"size_bytes": 3})))
    assert turn["snapshot"] == {"ref": None, "sha256": None, "size_bytes": 3, "expires_at": None}


def test_a_union_whose_branches_decode_to_one_type_and_read_differently_is_absent() -> None:
    schema = turn_schema()
    other = {"type": "map", "values": "string"}
    field_of(schema, "snapshot")["type"].append(other)
    record_of(field_of(schema, "snapshot"))["fields"].append({"name": "kind", "type": "string"})
    assert "snapshot" in admitted(schema).presence


def test_an_error_inside_a_list_names_the_field_and_no_index() -> None:
    schema = turn_schema()
    payload = write(schema, turn_with_content(memories=[{"id": "m-1"}, {"id": "SPOIL"}]))
    assert refused(read(schema, payload.replace(b"SPOIL", b"SPO\xffL"))) == (Reason.BAD_UTF8, "content.memories.id")


def test_items_are_limited_per_list_and_per_record() -> None:
    schema = turn_schema()
    turn = turn_with_content(memories=[{"id": "m"}] * 30, events=[{"type": "e"}] * 30)
    payload = write(schema, turn)
    assert not isinstance(read(schema, payload, Limits(collection_items=30, record_items=60)), Rejection)
    assert refused(read(schema, payload, Limits(collection_items=29))) == (Reason.LIMIT_EXCEEDED, "content.memories")
    assert refused(read(schema, payload, Limits(record_items=59))) == (Reason.LIMIT_EXCEEDED, "content.events")
