"""The table of states, row by row, and the values a verdict shows."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from workers.processing.fingerprint import (
    COMPLETE_STATES,
    PARTS,
    SECOND_TIER,
    Completeness,
    FieldState,
    completeness,
    verdict_fingerprint,
)
from workers.processing.policy_rules import CompletenessPolicy
from workers.resources import resource_folder

GOOD: dict[str, Any] = {
    "definition_id": "guide",
    "definition_version": "v8",
    "definition_fallback": None,
    "state_shape_version": "s3",
    "summary_depth": 2,
    "state_counts": {"history": 10, "facts": 0},
    "model_id": "m-2026-01-01",
    "moderation_version": "mod-4",
    "not_applicable": None,
    "state_position": 7,
}
TURN: dict[str, Any] = {
    "assembled_at": 1,
    "turn_index": 1,
    "producer": {"service": "chat", "instance_id": "i", "build_id": "b", "region": "eu-1", "path": "reply"},
}
PRESENCE = frozenset(
    [f"fingerprint.{name}" for name in GOOD]
    + ["assembled_at", "turn_index"]
    + [f"producer.{name}" for name in TURN["producer"]]
)


def judge(
    policy: CompletenessPolicy | None = None, presence: frozenset[str] = PRESENCE, **changes: Any
) -> Completeness:
    return completeness(GOOD | changes, TURN, presence, policy or CompletenessPolicy())


@pytest.mark.parametrize(
    ("changes", "part", "state"),
    [
        ({"summary_depth": 0}, "summary_depth", "present"),
        ({"model_id": " Latest "}, "model_id", "alias"),
        ({"model_id": "\uff4c\uff41\uff54\uff45\uff53\uff54"}, "model_id", "alias"),
        (
            {"moderation_version": None, "not_applicable": ["moderation_version"]},
            "moderation_version",
            "not_applicable",
        ),
        ({"moderation_version": None}, "moderation_version", "null"),
        ({"moderation_version": None, "not_applicable": ["Moderation_Version"]}, "moderation_version", "null"),
        ({"moderation_version": "mod-4", "not_applicable": ["moderation_version"]}, "moderation_version", "malformed"),
        ({"moderation_version": "none", "not_applicable": ["moderation_version"]}, "moderation_version", "sentinel"),
        ({"model_id": ""}, "model_id", "sentinel"),
        ({"model_id": "\u2003"}, "model_id", "sentinel"),
        ({"model_id": "N/A"}, "model_id", "sentinel"),
        ({"state_shape_version": "0.0.0"}, "state_shape_version", "sentinel"),
        ({"state_shape_version": "prod"}, "state_shape_version", "alias"),
        ({"model_id": "m" * 200}, "model_id", "present"),
        ({"model_id": "m" * 201}, "model_id", "malformed"),
        ({"model_id": " " * 300 + "latest"}, "model_id", "alias"),
        ({"summary_depth": None}, "summary_depth", "null"),
        ({"summary_depth": -1}, "summary_depth", "sentinel"),
        ({"summary_depth": -2}, "summary_depth", "implausible"),
        ({"summary_depth": 1_000}, "summary_depth", "present"),
        ({"summary_depth": 1_001}, "summary_depth", "implausible"),
        ({"summary_depth": 1_001, "not_applicable": ["summary_depth"]}, "summary_depth", "malformed"),
        ({"state_counts": {}}, "state_counts", "null"),
        ({"state_counts": {}, "not_applicable": ["state_counts"]}, "state_counts", "not_applicable"),
        ({"state_counts": {"facts": 1}, "not_applicable": ["state_counts"]}, "state_counts", "malformed"),
        ({"state_counts": {"facts": -1}}, "state_counts", "sentinel"),
        ({"state_counts": {"facts": -2}}, "state_counts", "implausible"),
        ({"state_counts": {"facts": 100_001}}, "state_counts", "implausible"),
        ({"state_counts": {"facts": 100_000}}, "state_counts", "present"),
        ({"state_counts": {"Facts": 1}}, "state_counts", "malformed"),
        ({"state_counts": {"facts\n": 1}}, "state_counts", "malformed"),
        ({"state_counts": {"f" * 65: 1}}, "state_counts", "malformed"),
        ({"state_counts": {f"p{n}": 1 for n in range(64)}}, "state_counts", "present"),
        ({"state_counts": {f"p{n}": 1 for n in range(65)}}, "state_counts", "malformed"),
        ({"state_counts": {"Facts": -2}}, "state_counts", "malformed"),
        ({"definition_id": "main"}, "definition", "present"),
        ({"definition_version": "production"}, "definition", "alias"),
        ({"definition_id": "unknown", "definition_version": "production"}, "definition", "sentinel"),
        ({"definition_id": None, "definition_version": "production"}, "definition", "null"),
        ({"definition_id": None}, "definition", "null"),
        ({"definition_fallback": True}, "definition", "fallback"),
        ({"definition_fallback": False}, "definition", "present"),
        ({"definition_fallback": True, "definition_version": None}, "definition", "null"),
        ({"definition_fallback": True, "definition_version": "latest"}, "definition", "alias"),
        ({"definition_fallback": True, "not_applicable": ["definition"]}, "definition", "malformed"),
        (
            {"definition_id": None, "definition_version": None, "not_applicable": ["definition"]},
            "definition",
            "not_applicable",
        ),
        (
            {"definition_id": None, "definition_version": None, "not_applicable": ["definition_id"]},
            "definition",
            "null",
        ),
    ],
)
def test_a_part_takes_the_first_row_of_the_table_that_matches(changes: dict[str, Any], part: str, state: str) -> None:
    result = judge(**changes)
    assert result.states[part] == state
    assert result.complete is (state in COMPLETE_STATES)
    assert [name for name, _ in result.gaps] == ([] if result.complete else [part])
    assert all(result.states[other] is FieldState.PRESENT for other in PARTS if other != part)


def test_a_value_that_the_writers_schema_lacks_is_absent_whatever_was_decoded() -> None:
    result = judge(presence=PRESENCE - {"fingerprint.moderation_version"}, moderation_version="mod-0")
    assert result.states["moderation_version"] == "absent_in_writer_schema"
    assert not result.complete


@pytest.mark.parametrize("member", ["definition_id", "definition_version"])
def test_a_definition_is_absent_when_the_writers_schema_lacks_either_of_its_fields(member: str) -> None:
    result = judge(presence=PRESENCE - {f"fingerprint.{member}"}, definition_id=None, definition_version=None)
    assert result.states["definition"] == "absent_in_writer_schema"


def test_attestation_and_fallback_count_only_when_the_writers_schema_has_them() -> None:
    presence = PRESENCE - {"fingerprint.not_applicable", "fingerprint.definition_fallback"}
    result = judge(presence=presence, model_id=None, not_applicable=["model_id", "weather"], definition_fallback=True)
    assert result.states["model_id"] == "null"
    assert result.states["definition"] == "present"
    assert result.unknown_attestations == 0


def test_a_missing_fingerprint_marks_all_six_parts_and_absent_ones_as_absent() -> None:
    presence = PRESENCE - {"fingerprint.summary_depth"}
    result = completeness(None, TURN, presence, CompletenessPolicy())
    assert result.states == dict.fromkeys(PARTS, "null") | {"summary_depth": "absent_in_writer_schema"}
    assert result.missing_tier2 == ("state_position",)
    assert not result.complete


def test_unknown_attestations_are_counted_and_change_nothing() -> None:
    result = judge(not_applicable=["weather", "definition_id", "weather"])
    assert result.complete
    assert result.unknown_attestations == 3


def test_the_second_tier_is_reported_in_its_own_order_and_never_makes_a_turn_incomplete() -> None:
    bare = {"assembled_at": None, "turn_index": None, "producer": {"service": "chat"}}
    result = completeness(GOOD | {"state_position": None}, bare, PRESENCE, CompletenessPolicy())
    assert result.missing_tier2 == SECOND_TIER
    assert result.complete
    unwritten = completeness(GOOD, TURN, PRESENCE - {"producer.region", "assembled_at"}, CompletenessPolicy())
    assert unwritten.missing_tier2 == ("assembled_at", "region")


def test_patterns_and_required_pieces_come_from_the_policy() -> None:
    policy = CompletenessPolicy(patterns={"model_id": re.compile(r"m-\d+")}, required_pieces=frozenset({"history"}))
    assert judge(policy, model_id="m-12").complete
    assert judge(policy, model_id="m-12b").states["model_id"] == "malformed"
    assert judge(policy, state_counts={"facts": 1}).states["state_counts"] == "null"
    assert judge(policy, state_counts={"facts": 1}, not_applicable=["state_counts"]).states["state_counts"] == "null"


def test_two_policies_never_share_a_judgement() -> None:
    strict, lax = CompletenessPolicy(), CompletenessPolicy(aliases=frozenset())
    for _ in range(2):
        assert judge(strict, model_id="latest").states["model_id"] == "alias"
        assert judge(lax, model_id="latest").states["model_id"] == "present"


def test_a_verdict_shows_the_values_as_sent() -> None:
    shown = verdict_fingerprint(GOOD | {"model_id": " Latest ", "piece_digests": {"facts": "00"}})
    assert shown is not None
    assert shown["model_id"] == " Latest "
    assert shown["state_counts"] == [{"name": "facts", "count": 0}, {"name": "history", "count": 10}]


def test_a_verdict_tells_counts_of_nothing_from_no_counts() -> None:
    shown = verdict_fingerprint(GOOD | {"state_counts": {}})
    assert shown is not None
    assert shown["state_counts"] == []


@pytest.mark.parametrize("counts", [{"facts": 1, "Facts": 2}, {f"p{n}": 1 for n in range(65)}, {"\U0001f600": 1}, None])
def test_counts_with_a_bad_or_surplus_key_are_left_out_of_a_verdict(counts: dict[str, int] | None) -> None:
    shown = verdict_fingerprint(GOOD | {"state_counts": counts, "model_id": "m" * 201, "definition_id": "d" * 200})
    assert shown is not None
    assert shown["state_counts"] is None
    assert shown["model_id"] is None
    assert shown["definition_id"] == "d" * 200


def test_the_verdicts_schema_has_the_states_the_parts_and_the_fields_of_the_code() -> None:
    schema = json.loads((resource_folder("schemas") / "fidelity" / "v1.avsc").read_text())
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    states = fields["completeness"]["fields"][0]["type"]
    assert states["symbols"] == [*FieldState, states["default"]]
    assert [field["name"] for field in fields["completeness"]["fields"]] == list(PARTS)
    assert {field["name"] for field in fields["fingerprint"][1]["fields"]} == set(verdict_fingerprint(GOOD) or {})
    assert verdict_fingerprint(None) is None
