"""No bytes and no schema may do more than end in a reason."""

from __future__ import annotations

import json
import time
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from serde_builders import admitted, small_turn, turn_schema, turn_with_content, write

from workers.reasons import Reason, Rejection
from workers.records import StoredRecord
from workers.serde.admission import WriterSchema, admit
from workers.serde.avro_schema import (
    ArrayType,
    EnumType,
    MapType,
    Node,
    Primitive,
    RecordType,
    UnionType,
    parse_schema,
)
from workers.serde.decoder import decode
from workers.serde.encoder import Encoder
from workers.serde.limits import TURN_LIMITS, Limits
from workers.serde.schemas import SUBJECTS, load
from workers.serde.wire_format import Frame, Tombstone, frame, parse

DECODE_REASONS = {
    Reason.PAYLOAD_TRUNCATED,
    Reason.TRAILING_BYTES,
    Reason.BAD_UTF8,
    Reason.BAD_INDEX,
    Reason.BAD_VALUE,
    Reason.LIMIT_EXCEEDED,
}

LONGEST_S = 0.1

few = settings(max_examples=60, deadline=None)
many = settings(max_examples=300, deadline=None)


def values(node: Node) -> st.SearchStrategy[Any]:
    """Values of ``node`` that a strict writer takes, extremes included."""
    match node:
        case Primitive():
            return _PRIMITIVES[node.kind]
        case EnumType():
            return st.sampled_from(node.symbols)
        case ArrayType():
            return st.lists(values(node.items), max_size=3)
        case MapType():
            return st.dictionaries(st.text(max_size=5), values(node.items), max_size=3)
        case UnionType():
            return st.one_of([values(branch) for branch in node.branches])
        case RecordType():
            return st.fixed_dictionaries({entry.name: values(entry.type) for entry in node.fields})


_TEXT = st.text(max_size=8)
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 253_402_300_800_000]),
    "double": st.floats(allow_nan=False),
    "string": _TEXT,
}


@cache
def records(subject: str) -> st.SearchStrategy[dict[str, Any]]:
    return values(parse_schema(load(subject), 32))


@cache
def writer_of(subject: str) -> WriterSchema:
    return admitted(load(subject), subject)


@pytest.mark.parametrize("subject", SUBJECTS)
@given(data=st.data())
@few
def test_what_we_encode_decodes_to_the_same_record_and_equal_records_to_equal_bytes(
    subject: str, data: st.DataObject
) -> None:
    record = data.draw(records(subject))
    encoder = Encoder(load(subject), 7)
    framed = parse(StoredRecord(0, 0, None, encoder.encode(record)), Limits())
    assert framed == Frame(7, encoder.payload(record))
    assert isinstance(framed, Frame)
    assert decode(framed, writer_of(subject), Limits()) == record
    assert encoder.encode(json.loads(json.dumps(record))) == frame(7, framed.payload)


@cache
def rich_payload() -> bytes:
    """A turn of about two kilobytes with every optional part."""
    content = turn_with_content(reply={"text": "é" * 20}, memories=[{"id": "m"}], events=[{"type": "e", "at": -1}])
    return write(turn_schema(), {**content, **rich_parts()})


def rich_parts() -> dict[str, Any]:
    artifact = {"capture": "value", "provenance": "observed", "sha256": "a" * 64, "value": '{"k":"é"}'}
    manifest = {
        "version": 2,
        "id": "m-1",
        "capturedAt": "2026-11-30T10:00:00Z",
        "source": {"provenance": "observed", "captureMethod": "native", "traceId": "t"},
        "sideEffects": {
            "isolation": "none",
            "network": "none",
            "filesystem": "none",
            "externalServices": "none",
            "notes": ["n"],
        },
        "environment": {"codeVersion": "c", "runtime": {"name": "r", "version": "1"}},
        "model": {"determinism": "guaranteed", "provider": "p", "name": "n", "parameters": artifact, "seed": artifact},
        "retrieval": {
            "replayMode": "not_used",
            "determinism": "guaranteed",
            "corpus": {"version": "v"},
            "configuration": artifact,
            "output": artifact,
        },
        "tools": {
            "replayMode": "execute",
            "callsComplete": "complete",
            "determinism": "unknown",
            "definitions": [{"name": "t", "definition": artifact}],
            "calls": [{"callId": "c", "toolName": "t", "input": artifact, "output": artifact, "error": artifact}],
        },
        "prompts": {"system": artifact, "developer": artifact, "input": artifact},
    }
    fingerprint = {
        "definition_id": "d",
        "definition_version": "v7",
        "summary_depth": 2,
        "state_counts": {"history": 12, "facts": 3},
        "not_applicable": ["moderation_version"],
    }
    return {"manifest": manifest, "fingerprint": fingerprint, "snapshot": {"sha256": "0" * 64}, "status": "completed"}


def test_every_prefix_of_a_payload_is_a_truncated_one() -> None:
    payload, writer = rich_payload(), writer_of("turns")
    assert not isinstance(decode(Frame(1, payload), writer, TURN_LIMITS), Rejection)
    for length in range(len(payload)):
        result = decode(Frame(1, payload[:length]), writer, TURN_LIMITS)
        assert isinstance(result, Rejection), length
        assert result.reason is Reason.PAYLOAD_TRUNCATED, length


@given(tail=st.binary(min_size=1, max_size=40))
@example(tail=b"\x00")
@many
def test_every_tail_behind_a_payload_is_noticed(tail: bytes) -> None:
    result = decode(Frame(1, rich_payload() + tail), writer_of("turns"), TURN_LIMITS)
    assert isinstance(result, Rejection)
    assert result.reason is Reason.TRAILING_BYTES


hostile = st.sampled_from([b"\xff" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01", b"\x80" * 12, b"\x01", b"\xff\xff"])


@given(
    edits=st.lists(
        st.tuples(st.integers(0, 4_000), st.integers(0, 40), st.binary(max_size=12) | hostile), min_size=1, max_size=6
    )
)
@settings(max_examples=1_000, deadline=None)
def test_changed_bytes_end_in_a_record_or_a_reason_and_quickly(edits: list[tuple[int, int, bytes]]) -> None:
    payload = rich_payload()
    for at, dropped, inserted in edits:
        place = at % len(payload)
        payload = payload[:place] + inserted + payload[place + dropped :]
    started = time.process_time()
    result = decode(Frame(1, payload), writer_of("turns"), TURN_LIMITS)
    assert time.process_time() - started < LONGEST_S
    if isinstance(result, Rejection):
        assert result.reason in DECODE_REASONS
    else:
        assert Encoder(load("turns"), 1).payload(result) is not None


@given(value=st.none() | st.binary(max_size=60), header=st.none() | st.binary(max_size=20))
@many
def test_any_value_and_header_have_exactly_one_end(value: bytes | None, header: bytes | None) -> None:
    parsed = parse(StoredRecord(0, 0, None, value, (("__value_schema_id", header),)), TURN_LIMITS)
    assert isinstance(parsed, Tombstone) is (value is None)
    if isinstance(parsed, Frame):
        decode(parsed, writer_of("turns"), TURN_LIMITS)


@pytest.mark.parametrize("items", [100_001, 10**6, 2**62])
def test_a_few_bytes_never_stand_for_a_million_items(items: int) -> None:
    schema = turn_schema()
    schema["fields"].append({"name": "extra", "type": {"type": "array", "items": "boolean"}})
    count = _zigzag(items)
    payload = write(schema, small_turn(extra=[]))[:-1] + count
    started = time.process_time()
    result = decode(Frame(1, payload), admitted(schema), TURN_LIMITS)
    assert isinstance(result, Rejection)
    assert (result.reason, result.field) == (Reason.LIMIT_EXCEEDED, "extra")
    assert time.process_time() - started < LONGEST_S


def _zigzag(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["string", "null", "int", "record", "array", "enum", "map", "fixed", "Turn", "tenant", "type"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "name", "fields", "items", "values", "symbols", "namespace", "aliases"]), inner
        )
    ),
    max_leaves=25,
)


@given(document=json_values)
@many
def test_any_json_in_the_place_of_a_schema_is_refused_and_raises_nothing(document: Any) -> None:
    assert isinstance(admit(json.dumps(document), "turns", TURN_LIMITS, 1), Rejection)


@given(text=st.text(max_size=200))
@few
def test_any_text_in_the_place_of_a_schema_is_refused_and_raises_nothing(text: str) -> None:
    assert isinstance(admit(text, "turns", TURN_LIMITS, 1), Rejection)


@given(
    replaced=json_values, path=st.sampled_from(["tenant", "producer", "fingerprint", "manifest", "content", "status"])
)
@many
def test_any_type_of_any_field_is_admitted_or_refused_and_raises_nothing(replaced: Any, path: str) -> None:
    schema = turn_schema()
    next(entry for entry in schema["fields"] if entry["name"] == path)["type"] = replaced
    assert isinstance(admit(json.dumps(schema), "turns", TURN_LIMITS, 1), WriterSchema | Rejection)
