from __future__ import annotations

from typing import Any

import pytest
from serde_builders import admitted, read_record, small_turn, turn_schema, turn_with_content, write

from workers.processing.state_write_kinds import KINDS
from workers.reasons import Reason, Rejection
from workers.serde.decoder import decode
from workers.serde.limits import Limits
from workers.serde.schemas import load
from workers.serde.validation import validate_state_write, validate_turn
from workers.serde.wire_format import Frame


def judged(record: dict[str, Any]) -> tuple[Reason, str | None] | None:
    rejection = validate_turn(read_record(turn_schema(), record))
    return None if rejection is None else (rejection.reason, rejection.field)


def test_the_smallest_turn_is_valid_and_so_is_one_with_only_a_completion() -> None:
    assert judged(small_turn()) is None
    assert judged(small_turn(assembled_at=None, completed_at=-1)) is None


def test_a_turn_without_any_event_time_is_refused() -> None:
    assert judged(small_turn(assembled_at=None)) == (Reason.MISSING_EVENT_TIME, None)


@pytest.mark.parametrize("tenant", ["", "a|b", "a b", "acmé", "a" * 65, "acme\n"])
def test_a_tenant_is_1_to_64_plain_characters(tenant: str) -> None:
    assert judged(small_turn(tenant=tenant)) == (Reason.INVALID_RECORD, "tenant")
    assert judged(small_turn(tenant="Ac.me_7-" * 8)) is None


@pytest.mark.parametrize("name", ["conversation_id", "turn_id"])
@pytest.mark.parametrize("value", ["", "x" * 201, "a\nb", "a\x00", "a\x7f", "a\x85"])
def test_an_id_is_1_to_200_characters_without_control_characters(name: str, value: str) -> None:
    assert judged(small_turn(**{name: value})) == (Reason.INVALID_RECORD, name)
    assert judged(small_turn(**{name: "é|% " * 50})) is None


def test_a_pointer_to_a_snapshot_needs_its_end_and_a_lone_hash_does_not() -> None:
    assert judged(small_turn(snapshot={"ref": "s3://b/k"})) == (Reason.INVALID_RECORD, "snapshot.expires_at")
    assert judged(small_turn(snapshot={"ref": "s3://b/k", "expires_at": 1})) is None
    assert judged(small_turn(snapshot={"sha256": "0" * 64})) is None


@pytest.mark.parametrize(
    ("turn", "field"),
    [
        (small_turn(user_key="u" * 201), "user_key"),
        (small_turn(provider_id="p" * 1_001), "provider_id"),
        (small_turn(producer={"service": "s" * 1_001}), "producer.service"),
        (small_turn(producer={"service": "s", "path": "p" * 1_001}), "producer.path"),
        (small_turn(snapshot={"sha256": "0" * 1_001}), "snapshot.sha256"),
        (turn_with_content(reply={"text": "t" * 200_001}), "content.reply.text"),
        (turn_with_content(user_message={"ref": "r" * 1_001}), "content.user_message.ref"),
        (turn_with_content(memories=[{"id": "m"}] * 201), "content.memories"),
        (turn_with_content(memories=[{"id": "m", "text": "t" * 200_001}]), "content.memories.text"),
        (turn_with_content(memories=[{"id": "m" * 1_001}]), "content.memories.id"),
        (turn_with_content(events=[{"type": "e"}] * 501), "content.events"),
        (turn_with_content(events=[{"type": "e", "data": "d" * 200_001}]), "content.events.data"),
        (turn_with_content(events=[{"type": "e" * 1_001}]), "content.events.type"),
    ],
)
def test_a_field_over_its_limit_is_refused_by_name(turn: dict[str, Any], field: str) -> None:
    assert judged(turn) == (Reason.LIMIT_EXCEEDED, field)


def test_fields_at_their_limit_pass_counted_in_characters() -> None:
    content = {"text": "é" * 200_000}
    events = [{"type": "e" * 1_000}] * 500
    assert judged(small_turn(user_key="ü" * 200)) is None
    assert judged(turn_with_content(reply=content, memories=[{"id": "m"}] * 200, events=events)) is None


def test_odd_fingerprints_never_refuse_a_turn() -> None:
    odd = {"definition_id": "", "model_id": "m" * 5_000, "state_counts": {"Odd Key": -1}, "summary_depth": -1}
    assert judged(small_turn(fingerprint=odd)) is None


COUNTS = {"counts": [{"piece": "facts", "count": 3}]}
MEMORY = {
    "memory_id": "units",
    "tenant": "acme",
    "scope": "workspace",
    "scope_id": "ws-1",
    "schema_version": 3,
    "evidence_refs": [],
    "derived_from": [],
    "supersedes": [],
    "body": [],
}
PAYLOADS: dict[str, Any] = {
    "state": COUNTS,
    "activation": {
        "activation_id": "a-1",
        "definition_id": "d",
        "effective_at": 1,
        "tenants": [],
        "units": [],
        "weights": [],
        "stages": [],
        "labels": [],
    },
    "pin": {"definition_id": "d", "version": "v1"},
    "change": {"to": "m-2"},
    "memory": MEMORY,
}


def state_write(**changes: Any) -> dict[str, Any]:
    return {
        "record_id": "r-1",
        "tenant": "acme",
        "scope_type": "conversation",
        "scope_id": "c-42",
        "kind": "fact_written",
        "t_e": 1,
        "writer": {"service": "memory"},
        **changes,
    }


def judged_write(record: dict[str, Any]) -> tuple[Reason, str | None] | None:
    schema = load("state-writes")
    decoded = decode(Frame(2, write(schema, record)), admitted(schema, "state-writes", Limits()), Limits())
    assert not isinstance(decoded, Rejection), decoded
    rejection = validate_state_write(decoded)
    return None if rejection is None else (rejection.reason, rejection.field)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_kind_is_taken_with_its_payload_and_refused_without_it(kind: Any) -> None:
    payload = {} if kind.payload is None else {kind.payload: PAYLOADS[kind.payload]}
    assert judged_write(state_write(kind=kind.name, **payload)) is None
    without = judged_write(state_write(kind=kind.name))
    assert without == (None if kind.payload is None else (Reason.INVALID_RECORD, kind.payload))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": "fact_renamed"}, (Reason.UNKNOWN_KIND, "kind")),
        ({"kind": ""}, (Reason.UNKNOWN_KIND, "kind")),
        ({"scope_type": "tenant"}, (Reason.INVALID_RECORD, "scope_type")),
        ({"scope_id": ""}, (Reason.INVALID_RECORD, "scope_id")),
        ({"scope_id": "a\nb"}, (Reason.INVALID_RECORD, "scope_id")),
        ({"record_id": ""}, (Reason.INVALID_RECORD, "record_id")),
        ({"tenant": "a|b"}, (Reason.INVALID_RECORD, "tenant")),
        ({"seq": 0}, (Reason.INVALID_RECORD, "seq")),
        ({"seq": 1}, None),
    ],
)
def test_a_state_write_names_the_field_it_breaks(changes: dict[str, Any], expected: object) -> None:
    assert judged_write(state_write(**changes)) == expected
