"""Whatever columns decode is what the reference decodes and takes; whatever they doubt is left to it."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import pytest
from column_builders import assert_equal_to_reference, both
from hypothesis import given, settings
from hypothesis import strategies as st
from serde_builders import drop_field, field_of, record_of, small_turn, turn_schema, turn_with_content, write
from test_serde import rich_parts, values

from workers.processing.columns.routes import RouteReason
from workers.reasons import Rejection
from workers.serde.admission import WriterSchema
from workers.serde.avro_schema import parse_schema
from workers.serde.columns import decoder as decoder_module
from workers.serde.columns.decoder import ColumnDecoder
from workers.serde.decoder import decode
from workers.serde.limits import TURN_LIMITS
from workers.serde.schemas import Schema
from workers.serde.validation import validate_turn
from workers.serde.wire_format import Frame

CORRUPTED = {"ours": 8_000, "newer": 2_000}
PER_BATCH = 40

some = settings(max_examples=25, deadline=None)


def _older() -> Schema:
    schema = turn_schema()
    for path in ("status", "turn_index", "completed_at", "producer.path", "content.events", "manifest.tools.calls"):
        drop_field(schema, path)
    drop_field(schema, "fingerprint.state_counts")
    return schema


def _newer() -> Schema:
    schema = turn_schema()
    artifact = {"type": "record", "name": "Extra", "fields": [{"name": "x", "type": ["double", "null"]}]}
    schema["fields"].insert(3, {"name": "mood", "type": ["null", {"type": "map", "values": ["string", "null"]}]})
    schema["fields"].append({"name": "tail", "type": {"type": "array", "items": artifact}})
    record_of(field_of(schema, "producer"))["fields"].append({"name": "host", "type": "double"})
    record_of(field_of(schema, "manifest"))["fields"].append({"name": "budget", "type": ["null", "long"]})
    record_of(field_of(schema, "manifest.tools.calls"))["fields"].append({"name": "took", "type": ["null", "boolean"]})
    record_of(field_of(schema, "manifest.source"))["fields"].insert(1, {"name": "kind", "type": ["null", "string"]})
    return schema


def _reordered() -> Schema:
    schema = turn_schema()
    for fields in (schema["fields"], record_of(field_of(schema, "producer"))["fields"]):
        fields.reverse()
    # named types are defined at their first use
    return _defined_first(schema)


def _defined_first(schema: Schema) -> Schema:
    """Write every named type out where it is used first."""
    known: dict[str, Any] = {}

    def collect(node: Any) -> None:
        if isinstance(node, list):
            for branch in node:
                collect(branch)
        elif isinstance(node, dict):
            if "name" in node and node.get("type") in {"record", "enum"}:
                known[node["name"]] = node
            for entry in node.get("fields", ()):
                collect(entry["type"])
            collect(node.get("items"))
            collect(node.get("values"))
            collect(node.get("type"))

    seen: set[str] = set()

    def place(node: Any) -> Any:
        if isinstance(node, list):
            return [place(branch) for branch in node]
        name = node if isinstance(node, str) else node.get("name")
        if name in known:
            if name in seen:
                return name
            seen.add(name)
            node = known[name]
        if isinstance(node, str):
            return node
        done = dict(node)
        if "fields" in node:
            done["fields"] = [{**entry, "type": place(entry["type"])} for entry in node["fields"]]
        for key in ("items", "values"):
            if key in node:
                done[key] = place(node[key])
        return done

    collect(schema)
    placed: Schema = place(schema)
    return placed


def _more_symbols() -> Schema:
    schema = turn_schema()
    field_of(schema, "status")["type"][1]["symbols"] = ["cancelled", "error", "completed"]
    symbols = ["none", "weird", "live", *(f"s{number}" for number in range(100))]
    field_of(schema, "manifest.sideEffects.isolation")["type"]["symbols"] = symbols
    field_of(schema, "manifest.source.captureMethod")["type"]["symbols"].reverse()
    return schema


def _other_types() -> Schema:
    schema = turn_schema()
    field_of(schema, "turn_index")["type"] = "int"
    field_of(schema, "assembled_at")["type"] = [{"type": "long", "logicalType": "timestamp-micros"}, "null"]
    field_of(schema, "completed_at")["type"] = ["null", {"type": "long", "logicalType": "timestamp-nanos"}]
    field_of(schema, "conversation_id")["type"] = {"type": "string", "logicalType": "uuid"}
    field_of(schema, "turn_id")["type"] = ["null", "string"]
    field_of(schema, "producer.region")["type"] = "string"
    field_of(schema, "provider_id")["type"] = ["null", "long"]
    field_of(schema, "user_key").update(name="user", aliases=["user_key"])
    field_of(schema, "fingerprint.not_applicable")["type"][1]["items"] = ["null", "string"]
    field_of(schema, "manifest.id")["type"] = ["string", "null"]
    field_of(schema, "manifest.version")["type"] = "long"
    return schema


WRITERS = {
    "ours": turn_schema,
    "older": _older,
    "newer": _newer,
    "reordered": _reordered,
    "more symbols": _more_symbols,
    "other types": _other_types,
}


@cache
def pair(name: str) -> tuple[WriterSchema, ColumnDecoder]:
    return both(WRITERS[name]())


@cache
def turns(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Turns of one writer: of any values, but with ids that are valid more often than not."""
    ids = st.sampled_from(["c-1", "t.2", "é" * 70, "x" * 200, "x" * 201, "", "a\x00", "a\x85", "é\xa0"])
    tenants = st.sampled_from(["acme", "A-1._", "a" * 64, "a" * 65, "", "a b", "é"])
    return st.builds(
        lambda turn, tenant, conversation, id_: {
            **turn,
            "tenant": tenant,
            "conversation_id": conversation,
            "turn_id": id_,
        },
        values(parse_schema(WRITERS[name](), 32)),
        st.just("acme") | tenants,
        st.just("c-42") | ids,
        st.just("t-7") | ids,
    )


@pytest.mark.parametrize("name", WRITERS)
@given(data=st.data())
@some
def test_turns_of_any_admitted_writer_are_what_the_reference_decodes(name: str, data: st.DataObject) -> None:
    writer, decoder = pair(name)
    payloads = [write(WRITERS[name](), turn) for turn in data.draw(st.lists(turns(name), min_size=1, max_size=4))]
    batch = decoder.decode(payloads)
    assert_equal_to_reference(batch, payloads, writer)
    for at, reason in batch.routed.items():
        ending = decode(Frame(1, payloads[at]), writer, TURN_LIMITS)
        sure = isinstance(ending, Rejection) or validate_turn(ending) is not None
        assert sure or reason in {RouteReason.LIMIT, RouteReason.DECODE, RouteReason.INVALID}, (at, reason)


def rich_turn(**changes: Any) -> dict[str, Any]:
    content = turn_with_content(reply={"text": "é" * 20}, memories=[{"id": "m"}], events=[{"type": "e", "at": -1}])
    return {**content, **copy.deepcopy(rich_parts()), **changes}


def corrupted(payload: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return ``payload`` with bits flipped, cut, extended, or spliced with ``other``."""
    place = rng.randrange(len(payload))
    match rng.randrange(6):
        case 0:
            flipped = bytearray(payload)
            for _ in range(rng.randint(1, 3)):
                flipped[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
            return bytes(flipped)
        case 1:
            return payload[:place]
        case 2:
            return payload + rng.randbytes(rng.randint(1, 9))
        case 3:
            return payload[:place] + other[rng.randrange(len(other)) :]
        case 4:
            hostile = rng.choice(
                [b"\x80\x00", b"\x80" * 9 + b"\x01", b"\xff" * 9 + b"\x7f", b"\x01", b"\x03\x00", b"\xff"]
            )
            return payload[:place] + hostile + payload[place + rng.randint(0, 2) :]
        case _:
            return payload[:place] + payload[place + 1 :]


@pytest.mark.parametrize("name", CORRUPTED)
def test_corrupted_payloads_never_give_a_wrong_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # search for every row, so that no failing neighbour hides what a payload does
    monkeypatch.setattr(decoder_module, "MAX_FAILURES", PER_BATCH * PER_BATCH)
    monkeypatch.setattr(decoder_module, "LEAST_HALVED", 2)
    rng = random.Random(7)
    schema = WRITERS[name]()
    writer, decoder = pair(name)
    extra = {"mood": {"a": "b", "c": None}, "tail": [{"x": 1.5}, {"x": None}]} if name == "newer" else {}
    made = [rich_turn(**extra), small_turn(**extra), rich_turn(content=None, status=None, **extra)]
    for turn in made if name == "newer" else ():
        turn["producer"] = {**turn["producer"], "host": 0.5}
    good = [write(schema, turn) for turn in made]
    decoded = 0
    for _ in range(CORRUPTED[name] // PER_BATCH):
        payloads = [corrupted(rng.choice(good), rng.choice(good), rng) for _ in range(PER_BATCH)]
        batch = decoder.decode(payloads)
        assert_equal_to_reference(batch, payloads, writer)
        decoded += len(batch.rows)
        assert RouteReason.ISOLATION not in batch.routed.values()
    assert decoded > CORRUPTED[name] // 20


def test_a_few_bad_payloads_take_only_their_nearest_neighbours_out_of_the_table() -> None:
    writer, decoder = pair("ours")
    good = write(turn_schema(), rich_turn())
    payloads = [good] * 200
    bad = {17: good[:-3], 90: good + b"\x00", 91: good.replace(b"\x08acme", b"\x08ac\xffe"), 199: b""}
    for at, payload in bad.items():
        payloads[at] = payload
    batch = decoder.decode(payloads)
    assert_equal_to_reference(batch, payloads, writer)
    assert set(bad) <= set(batch.routed)
    assert set(batch.routed.values()) <= {RouteReason.DECODE, RouteReason.ISOLATION}
    assert len(batch.rows) > 150
