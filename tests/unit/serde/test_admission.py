from __future__ import annotations

import json
import time
from typing import Any

import pytest
from serde_builders import admitted, drop_field, field_of, record_of, turn_schema

from workers.reasons import Reason, Rejection
from workers.serde.admission import admit
from workers.serde.limits import TURN_LIMITS, Limits
from workers.serde.schemas import Schema


def rejection(schema: Schema | str, limits: Limits = TURN_LIMITS) -> Rejection:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    result = admit(text, "turns", limits, 77)
    assert isinstance(result, Rejection)
    assert (result.reason, result.schema_id) == (Reason.SCHEMA_REJECTED, "77")
    return result


def with_field(declared: object, name: str = "extra") -> Schema:
    schema = turn_schema()
    schema["fields"].append({"name": name, "type": declared})
    return schema


def test_our_own_schema_supplies_every_field_and_needs_no_projection() -> None:
    writer = admitted(turn_schema())
    assert {"tenant", "fingerprint.model_id", "producer.instance_id", "content.memories.text"} <= writer.presence
    assert "manifest.source.traceId" in writer.presence
    assert writer.unknown_fields == ()
    assert writer.projection.convert is None


@pytest.mark.parametrize("path", ["tenant", "turn_id", "producer", "producer.service"])
def test_a_required_field_that_is_missing_refuses_the_schema_by_name(path: str) -> None:
    assert rejection(drop_field(turn_schema(), path)).field == path


@pytest.mark.parametrize("declared", ["long", "boolean", {"type": "array", "items": "string"}, ["null", "int"]])
def test_a_required_field_of_a_type_we_cannot_read_refuses_the_schema_by_name(declared: object) -> None:
    schema = turn_schema()
    field_of(schema, "producer.service")["type"] = declared
    assert rejection(schema).field == "producer.service"


def test_an_optional_field_that_is_missing_is_absent_from_the_presence() -> None:
    writer = admitted(drop_field(drop_field(turn_schema(), "fingerprint.model_id"), "producer.region"))
    assert not {"fingerprint.model_id", "producer.region"} & writer.presence
    assert {"fingerprint", "fingerprint.definition_id", "producer"} <= writer.presence


def test_an_optional_field_of_a_type_we_cannot_read_counts_as_not_supplied() -> None:
    schema = turn_schema()
    field_of(schema, "fingerprint.summary_depth")["type"] = ["null", "string"]
    writer = admitted(schema)
    assert "fingerprint.summary_depth" not in writer.presence
    assert writer.unknown_fields == ("fingerprint.summary_depth",)


def test_a_field_known_by_an_alias_of_the_writer_is_supplied() -> None:
    schema = turn_schema()
    field_of(schema, "fingerprint.model_id").update(name="served_model", aliases=["model_id"])
    assert "fingerprint.model_id" in admitted(schema).presence


def test_fields_we_do_not_know_never_refuse_a_schema_and_are_named_outside_the_manifest() -> None:
    schema = with_field({"type": "map", "values": "double"})
    record_of(field_of(schema, "producer"))["fields"].append({"name": "pod", "type": "string"})
    record_of(field_of(schema, "manifest.source"))["fields"].append({"name": "runId", "type": "string"})
    assert admitted(schema).unknown_fields == ("extra", "producer.pod")


def test_required_fields_of_the_manifest_refuse_nothing() -> None:
    writer = admitted(drop_field(drop_field(turn_schema(), "manifest.capturedAt"), "manifest.prompts"))
    assert "manifest.capturedAt" not in writer.presence
    assert "manifest.version" in writer.presence


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
EMPTY = {"type": "record", "name": "Empty", "fields": []}
HOLLOW = {"type": "record", "name": "H", "fields": [{"name": "id", "type": "int"}, {"name": "n", "type": "null"}]}


@pytest.mark.parametrize(
    "declared",
    [
        NODE,
        {"type": "fixed", "name": "F", "size": 16},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 16}},
        {"type": "array", "items": "null"},
        {"type": "map", "values": "null"},
        {"type": "array", "items": EMPTY},
        {"type": "array", "items": ["null", EMPTY]},
        {"type": "array", "items": HOLLOW},
        "Undefined",
        ["null", ["null", "int"]],
        [],
        {"type": "enum", "name": "E", "symbols": []},
        17,
        None,
    ],
)
def test_types_we_never_decode_refuse_the_schema_and_name_the_field(declared: object) -> None:
    assert (rejection(with_field(declared)).field or "").startswith("extra")


def test_bytes_and_logical_types_in_unknown_fields_are_taken() -> None:
    schema = with_field({"type": "bytes", "logicalType": "decimal", "precision": 4})
    schema["fields"].append({"name": "day", "type": {"type": "int", "logicalType": "date"}})
    schema["fields"].append({"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}})
    assert admitted(schema).unknown_fields == ("day", "extra", "uuid")


def nested(levels: int) -> Any:
    declared: Any = "int"
    for level in range(levels):
        declared = {"type": "record", "name": f"R{level}", "fields": [{"name": "f", "type": declared}]}
    return declared


def test_32_levels_are_taken_and_33_are_not() -> None:
    assert admitted(with_field(nested(30)))
    rejection(with_field(nested(31)))


def test_depth_counts_through_names() -> None:
    schema = with_field(nested(20))
    schema["fields"].append({"name": "again", "type": {"type": "array", "items": {"type": "array", "items": "R19"}}})
    assert admitted(schema)
    for _ in range(12):
        schema["fields"][-1]["type"] = {"type": "array", "items": schema["fields"][-1]["type"]}
    rejection(schema)


@pytest.mark.parametrize("opening", ["[", '{"type":', '{"type":"array","items":', '{"type":"record","items":['])
def test_5000_levels_are_refused_and_the_process_lives(opening: str) -> None:
    rejection(opening * 5_000)
    closing = {"[": "]", "{": "}"}[opening[0]] if opening[-1] != "[" or len(opening) == 1 else "]}"
    rejection(opening * 5_000 + '"int"' + closing * 5_000)


def test_a_few_names_that_stand_for_millions_of_values_are_refused() -> None:
    declared: Any = {"type": "record", "name": "L0", "fields": [{"name": "n", "type": "null"}]}
    for level in range(1, 9):
        fields = [{"name": "f0", "type": declared}]
        fields += [{"name": f"f{number}", "type": f"L{level - 1}"} for number in range(1, 10)]
        declared = {"type": "record", "name": f"L{level}", "fields": fields}
    rejection(with_field(declared))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        '"string"',
        "{}",
        "[]",
        "null",
        "1" * 5_000,
        'syntax = "proto3";',
        '{"type":"object","properties":{}}',
        '{"type":"record","name":"T"}',
        '{"type":"record","name":"T","fields":[1]}',
    ],
)
def test_what_is_no_record_schema_is_refused(text: str) -> None:
    rejection(text)


def test_a_schema_over_256_kib_is_refused() -> None:
    schema = turn_schema()
    schema["doc"] = "x" * 262_144
    rejection(schema)
    schema["doc"] = "x" * 200_000
    assert admitted(schema)


def test_mistakes_in_a_writers_defaults_and_texts_do_not_matter() -> None:
    schema = with_field("int")
    schema["fields"][-1].update(default="not an int", doc={"odd": 1}, order="upward")
    assert admitted(schema)


def shared_unions(branches: int, levels: tuple[str, ...]) -> list[Any]:
    """Return a union of records nested by ``levels``, each record of a level holding all records of the next."""
    if not levels:
        return ["string"]
    below = shared_unions(branches, levels[1:])
    names = [branch["name"] if isinstance(branch, dict) else branch for branch in below]
    return [
        {
            "type": "record",
            "name": f"{levels[0]}_{n}",
            "fields": [{"name": levels[0], "type": names if n else below}],
        }
        for n in range(branches)
    ]


def test_unions_that_multiply_through_names_are_refused_at_once() -> None:
    schema = turn_schema()
    field_of(schema, "manifest")["type"] = shared_unions(60, ("prompts", "input", "value", "x"))
    began = time.perf_counter()
    assert rejection(schema).reason is Reason.SCHEMA_REJECTED
    assert time.perf_counter() - began < 2.0


@pytest.mark.parametrize("name", ["\ud800", "a\nb", "a b", "", "1st", "a.b", "x" * 513, 7])
def test_a_field_name_that_no_letter_can_show_refuses_the_schema(name: Any) -> None:
    assert rejection(with_field("string", name)).field is None


def test_a_type_name_that_is_none_refuses_the_schema() -> None:
    assert rejection(with_field({"type": "enum", "name": "a.\ud800", "symbols": ["A"]})).field == "extra"


def test_names_in_any_script_and_with_a_namespace_are_taken() -> None:
    schema = with_field({"type": "enum", "name": "org.example.Größe", "symbols": ["A"]}, "größe")
    assert admitted(schema).unknown_fields == ("größe",)
