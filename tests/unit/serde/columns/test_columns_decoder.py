"""The column decoder takes what it can decode exactly and names what it leaves; nothing stops it."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from column_builders import assert_equal_to_reference, both
from serde_builders import field_of, record_of, small_turn, turn_schema, turn_with_content, write

from workers.processing.columns.routes import RouteReason
from workers.processing.fidelity import NotRepresentableError, RuntimeManifest, parse_json, to_avro
from workers.reasons import Rejection
from workers.serde.admission import WriterSchema, admit
from workers.serde.columns import decoder as decoder_module
from workers.serde.columns import selfcheck
from workers.serde.columns.decoder import ColumnDecoder
from workers.serde.columns.layout import layout
from workers.serde.columns.selfcheck import records
from workers.serde.columns.wire import NoColumns
from workers.serde.decoder import Record, decode
from workers.serde.encoder import Encoder
from workers.serde.limits import TURN_LIMITS, Limits
from workers.serde.schemas import Schema, load
from workers.testing.golden import golden_payloads
from workers.testing.traffic.conversations import Conversations, stepping_clock

CASES = Path(__file__).parents[3] / "conformance" / "data" / "fidelity-cases.jsonl"


def with_field(type_: Any) -> Schema:
    """Return our schema with one more field at its end."""
    schema = turn_schema()
    schema["fields"].append({"name": "extra", "type": type_})
    return schema


def no_columns(schema: Schema) -> NoColumns | ColumnDecoder:
    text = json.dumps(schema)
    writer = admit(text, "turns", TURN_LIMITS, 1)
    assert isinstance(writer, WriterSchema), writer
    return ColumnDecoder.create(writer, text, TURN_LIMITS)


def routed(*turns: dict[str, Any], limits: Limits = TURN_LIMITS) -> dict[int, RouteReason]:
    """Return the rows of our own writer that leave, after a look at those that stay."""
    payloads = [write(turn_schema(), turn) for turn in turns]
    writer, decoder = both(turn_schema(), limits)
    batch = decoder.decode(payloads)
    if limits is TURN_LIMITS:
        assert_equal_to_reference(batch, payloads, writer)
    return batch.routed


def reason_of(turn: dict[str, Any], limits: Limits = TURN_LIMITS) -> RouteReason | None:
    """Return why ``turn`` leaves, between two that stay."""
    found = routed(small_turn(), turn, small_turn(), limits=limits)
    assert set(found) <= {1}
    return found.get(1)


def test_generated_traffic_stays_in_the_table_whole_and_in_order() -> None:
    steps = Conversations(random.Random(3), stepping_clock(), incident_after=None, state_write_share=0.5).steps()
    encoder = Encoder(load("turns"), 1)
    payloads = [encoder.payload(next(steps).turn.record) for _ in range(120)]
    writer, decoder = both(turn_schema())
    batch = decoder.decode(payloads)
    assert_equal_to_reference(batch, payloads, writer)
    assert len(batch.rows) == 120
    assert batch.table.schema.equals(layout())


def test_golden_turns_are_read_as_the_reference_reads_them() -> None:
    golden = [entry for entry in golden_payloads() if entry.subject == "turns"]
    writer, decoder = both(load("turns", golden[0].version))
    payloads = [entry.payload for entry in golden]
    batch = decoder.decode(payloads)
    assert_equal_to_reference(batch, payloads, writer)
    assert len(batch.rows) == len(golden)


def test_published_manifests_inside_turns_are_read_as_the_reference_reads_them() -> None:
    manifests = []
    for line in CASES.read_text(encoding="utf-8").split("\n")[:250]:
        model = parse_json(json.loads(line)["manifest_json"]) if line else None
        if isinstance(model, RuntimeManifest):
            with contextlib.suppress(NotRepresentableError):
                manifests.append(to_avro(model))
    payloads = [write(turn_schema(), small_turn(manifest=manifest)) for manifest in manifests]
    writer, decoder = both(turn_schema())
    batch = decoder.decode(payloads)
    assert_equal_to_reference(batch, payloads, writer)
    assert len(batch.rows) == len(payloads) > 50


def test_no_payload_and_no_batch_are_both_fine() -> None:
    _, decoder = both(turn_schema())
    empty = decoder.decode([])
    assert (len(empty.rows), empty.table.schema, empty.routed) == (0, layout(), {})
    assert decoder.decode([b""]).routed == {0: RouteReason.DECODE}
    assert decoder.decode([b""] * 400).table.num_rows == 0


def test_a_large_batch_is_decoded_in_several_calls_and_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    payloads = [write(turn_schema(), small_turn(turn_id=f"t-{number}")) for number in range(25)]
    payloads[11] = payloads[11][:-2]
    monkeypatch.setattr(decoder_module, "CALL_BYTES", 4 * len(payloads[0]))
    writer, decoder = both(turn_schema())
    batch = decoder.decode(payloads)
    assert_equal_to_reference(batch, payloads, writer)
    left = set(batch.routed)
    assert 11 in left
    assert left <= {8, 9, 10, 11, 12, 13}
    assert [row["turn_id"] for row in records(batch.table)] == [f"t-{n}" for n in range(25) if n not in left]


def wide(columns: int, type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Wide", "fields": [{"name": f"f{n}", "type": type_} for n in range(columns)]}


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        ("bytes", NoColumns.TYPE),
        (["null", "bytes"], NoColumns.TYPE),
        ("null", NoColumns.TYPE),
        (["null", "string", "long"], NoColumns.TYPE),
        (["string", "long"], NoColumns.TYPE),
        (["string"], NoColumns.TYPE),
        ({"type": "record", "name": "Nothing", "fields": []}, NoColumns.TYPE),
        ({"type": "array", "items": ["null", wide(200, ["null", "long"])]}, NoColumns.WIDTH),
        (wide(1_000, "long"), NoColumns.WIDTH),
    ],
)
def test_a_schema_that_columns_cannot_hold_stays_on_the_reference_with_a_reason(type_: Any, reason: NoColumns) -> None:
    assert no_columns(with_field(type_)) is reason


@pytest.mark.parametrize("path", ["manifest.source.provenance", "manifest.environment.runtime", "manifest.version"])
def test_a_manifest_of_other_types_stays_on_the_reference(path: str) -> None:
    schema = turn_schema()
    other = {"type": "enum", "name": "Other", "symbols": ["a"]} if path.endswith("runtime") else "string"
    field_of(schema, path)["type"] = other
    # `Provenance` is used further on under its name
    text = json.dumps(schema).replace('"type": "Provenance"', '"type": "string"')
    assert no_columns(json.loads(text)) is NoColumns.MANIFEST


def test_a_decoder_that_disagrees_with_the_reference_on_samples_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(*args: Any) -> Record | Rejection:
        decoded = decode(*args)
        return decoded if isinstance(decoded, Rejection) else {**decoded, "turn_index": 7}

    monkeypatch.setattr(selfcheck, "decode", other)
    assert no_columns(turn_schema()) is NoColumns.UNEQUAL


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("int", b"\x02", b"\x82\x80\x80\x80\x80\x00"),
        ("int", b"\xfe\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x10"),
        ("long", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x7f"),
        ("long", b"\x7f", b"\x80" * 10 + b"\x00"),
        ("boolean", b"\x01", b"\x02"),
        ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, b"\x02", b"\x04"),
        ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, b"\x00", b"\x01"),
        (["null", "string"], b"\x02\x02x", b"\x04\x02x"),
        ("string", b"\x04\xc3\xa9", b"\x04\xc3\x28"),
        ("string", b"\x02x", b"\x01"),
        ({"type": "array", "items": "long"}, b"\x02\x04\x00", b"\x01\x0a\x04\x00"),
        ({"type": "map", "values": "float"}, b"\x02\x02k\x00\x00\x80\x3f\x00", b"\x02\x02k\x00\x00\x80\x3f"),
        ({"type": "array", "items": "double"}, b"\x00", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ],
)
def test_bytes_that_the_reference_refuses_are_never_in_the_table(type_: Any, good: bytes, bad: bytes) -> None:
    writer, decoder = both(with_field(type_))
    rest = write(turn_schema(), small_turn())
    payloads = [rest + good, rest + bad, rest + good]
    for batch in (payloads, [payloads[1]], payloads[::2]):
        assert_equal_to_reference(decoder.decode(batch), batch, writer)
    assert decoder.decode(payloads[::2]).routed == {}
    assert decoder.decode([payloads[1]]).routed == {0: RouteReason.DECODE}


def test_a_block_that_tells_its_size_goes_to_the_reference_which_takes_it() -> None:
    writer, decoder = both(with_field({"type": "array", "items": "long"}))
    rest = write(turn_schema(), small_turn())
    payloads = [rest + b"\x00", rest + b"\x01\x02\x04\x00", rest + b"\x02\x04\x00"]
    batch = decoder.decode(payloads)
    assert_equal_to_reference(batch, payloads, writer)
    assert batch.routed == {1: RouteReason.DECODE}


LIMITED: list[tuple[int, Callable[[str], dict[str, Any]]]] = [
    (200, lambda text: {"user_key": text}),
    (1_000, lambda text: {"provider_id": text}),
    *(
        (1_000, lambda text, name=name: {"producer": {"service": "s", name: text}})
        for name in ("service", "region", "build_id", "instance_id", "sdk", "sdk_version", "path")
    ),
    (1_000, lambda text: {"snapshot": {"ref": text, "expires_at": 1}}),
    (1_000, lambda text: {"snapshot": {"sha256": text}}),
    (1_000, lambda text: turn_with_content(reply={"ref": text})),
    (1_000, lambda text: turn_with_content(user_message={"sha256": text})),
    (1_000, lambda text: turn_with_content(memories=[{"id": "m"}, {"id": text}])),
    (1_000, lambda text: turn_with_content(memories=[{"id": "m", "store": text}])),
    (1_000, lambda text: turn_with_content(events=[{"type": text}])),
    (1_000, lambda text: turn_with_content(events=[{"type": "e"}, {"type": "e", "ref": text}])),
    (200_000, lambda text: turn_with_content(reply={"text": text})),
    (200_000, lambda text: turn_with_content(user_message={"text": text})),
    (200_000, lambda text: turn_with_content(memories=[{"id": "m", "text": text}])),
    (200_000, lambda text: turn_with_content(events=[{"type": "e", "data": text}])),
]


@pytest.mark.parametrize(("limit", "make"), LIMITED)
def test_a_text_at_its_limit_stays_and_one_character_more_leaves(
    limit: int, make: Callable[[str], dict[str, Any]]
) -> None:
    assert reason_of(small_turn(**make("x" * limit))) is None
    assert reason_of(small_turn(**make("x" * (limit + 1)))) is RouteReason.LIMIT


def test_texts_of_fingerprint_and_manifest_have_no_limit_here() -> None:
    assert reason_of(small_turn(fingerprint={"model_id": "m" * 5_000, "state_counts": {"k" * 500: 1}})) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tenant": "a" * 64}, None),
        ({"tenant": "a" * 65}, RouteReason.LIMIT),
        ({"tenant": ""}, RouteReason.INVALID_TURN),
        ({"tenant": "a b"}, RouteReason.INVALID_TURN),
        ({"tenant": "é"}, RouteReason.INVALID_TURN),
        ({"conversation_id": ""}, RouteReason.INVALID_TURN),
        ({"conversation_id": "c" * 200}, None),
        ({"conversation_id": "c" * 201}, RouteReason.LIMIT),
        ({"conversation_id": "c\x7f"}, RouteReason.INVALID_TURN),
        ({"turn_id": "t\n"}, RouteReason.INVALID_TURN),
        ({"turn_id": "t\x80"}, RouteReason.INVALID_TURN),
        ({"turn_id": "\x9ft"}, RouteReason.INVALID_TURN),
        ({"turn_id": "\xa0\xdf\u2028"}, None),
        ({"assembled_at": None}, RouteReason.INVALID_TURN),
        ({"assembled_at": None, "completed_at": -(2**63)}, None),
        ({"snapshot": {"ref": "r"}}, RouteReason.INVALID_TURN),
        ({"snapshot": {"ref": "r", "expires_at": 0}}, None),
        ({"snapshot": {"sha256": "r"}}, None),
        (turn_with_content(memories=[{"id": "m"}] * 200, events=[{"type": "e"}] * 500), None),
        (turn_with_content(memories=[{"id": "m"}] * 201), RouteReason.LIMIT),
        (turn_with_content(events=[{"type": "e"}] * 501), RouteReason.LIMIT),
        ({"fingerprint": {"not_applicable": ["x"] * 10_000}}, None),
        ({"fingerprint": {"not_applicable": ["x"] * 10_001}}, RouteReason.LIMIT),
        ({"fingerprint": {"state_counts": {f"k{number}": number for number in range(100)}}}, None),
    ],
)
def test_a_row_that_may_break_a_rule_of_turns_leaves_alone(changes: dict[str, Any], reason: RouteReason | None) -> None:
    assert reason_of(small_turn(**changes)) is reason


def test_a_record_of_too_many_items_leaves_however_they_are_spread() -> None:
    limits = Limits(record_items=30)
    spread = {"not_applicable": ["x"] * 10, "state_counts": {f"k{number}": 1 for number in range(10)}}
    assert reason_of(small_turn(fingerprint=spread, **turn_with_content(memories=[{"id": "m"}] * 10)), limits) is None
    over = turn_with_content(memories=[{"id": "m"}] * 11)
    assert reason_of({**over, "fingerprint": spread}, limits) is RouteReason.LIMIT


@pytest.mark.parametrize("others", [0, 3, 100])
def test_a_key_twice_in_a_map_leaves_alone_among_few_and_many_keys(others: int) -> None:
    fingerprint: dict[str, Any] = {"state_counts": {f"k{number}": 1 for number in range(others)} | {"aa": 1, "ab": 2}}
    good = write(turn_schema(), small_turn(fingerprint=fingerprint))
    twice = good.replace(b"\x04ab", b"\x04aa")
    assert twice != good
    writer, decoder = both(turn_schema())
    batch = decoder.decode([good, twice, good])
    assert_equal_to_reference(batch, [good, twice, good], writer)
    assert batch.routed == {1: RouteReason.DUPLICATE_KEY}


def test_null_in_a_required_field_leaves_inside_the_manifest_as_a_doubt_about_it() -> None:
    schema = turn_schema()
    field_of(schema, "producer.service")["type"] = ["null", "string"]
    field_of(schema, "manifest.sideEffects.network")["type"] = [
        "null",
        field_of(schema, "manifest.sideEffects.network")["type"],
    ]
    manifest = to_avro_of_first_case()
    without = {**manifest, "sideEffects": {**manifest["sideEffects"], "network": None}}
    turns = [small_turn(manifest=manifest), small_turn(producer={}), small_turn(manifest=without), small_turn()]
    payloads = [write(schema, turn) for turn in turns]
    writer, decoder = both(schema)
    batch = decoder.decode(payloads)
    assert_equal_to_reference(batch, payloads, writer)
    assert batch.routed == {1: RouteReason.DECODE, 2: RouteReason.INVALID}


def test_a_value_of_the_manifest_that_is_not_ours_marks_its_row() -> None:
    schema = turn_schema()
    record_of(field_of(schema, "manifest"))["fields"].append({"name": "budget", "type": ["null", "long"]})
    record_of(field_of(schema, "manifest.tools.definitions"))["fields"].append(
        {"name": "cost", "type": ["null", "int"]}
    )
    manifest = to_avro_of_first_case()
    definition = {"name": "t", "definition": manifest["prompts"]["input"]}
    tools = {**manifest["tools"], "definitions": [definition, {**definition, "cost": 0}]}
    turns = [
        small_turn(),
        small_turn(manifest=manifest),
        small_turn(manifest={**manifest, "budget": 0}),
        small_turn(manifest={**manifest, "tools": tools}),
        small_turn(manifest={**manifest, "tools": {**tools, "definitions": [definition] * 2}}),
    ]
    payloads = [write(schema, turn) for turn in turns]
    writer, decoder = both(schema)
    batch = decoder.decode(payloads)
    assert_equal_to_reference(batch, payloads, writer)
    assert batch.odd_manifest.tolist() == [False, False, True, True, False]


def to_avro_of_first_case() -> dict[str, Any]:
    model = parse_json(json.loads(CASES.read_text(encoding="utf-8").split("\n")[0])["manifest_json"])
    assert isinstance(model, RuntimeManifest)
    return to_avro(model)


def test_a_crash_of_native_code_routes_the_batch_and_disables_the_decoder() -> None:
    _, decoder = both(turn_schema())
    good = write(turn_schema(), small_turn())
    fixed = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}}],
    }
    honest, decoder._schema.text = decoder._schema.text, json.dumps(fixed)
    assert decoder.decode([good, good]).routed == dict.fromkeys(range(2), RouteReason.PANIC)
    assert decoder.disabled
    decoder._schema.text = honest
    assert decoder.decode([good]).routed == {0: RouteReason.PANIC}


def test_many_failing_rows_end_the_search_for_them() -> None:
    _, decoder = both(turn_schema())
    good = write(turn_schema(), small_turn())
    batch = decoder.decode([good, good[:-1]] * 200)
    assert set(batch.routed.values()) == {RouteReason.ISOLATION}
    assert len(batch.routed) == 400


def test_the_reference_needs_none_of_the_libraries_of_columns() -> None:
    program = (
        "import sys\n"
        "for name in ('numpy', 'pyarrow', 'pyruhvro'):\n"
        "    sys.modules[name] = None\n"
        "import workers.serde.decoder, workers.serde.validation, workers.processing.turns\n"
        "import workers.processing.columns.routes\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
