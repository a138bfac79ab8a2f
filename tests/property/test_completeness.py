"""Completeness against a second reading of its table: row by row over the raw values, without caches or shortcuts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from workers.processing.fingerprint import COMPLETE_STATES, PARTS, completeness, verdict_fingerprint
from workers.processing.policy_rules import CompletenessPolicy

MEMBERS = {part: (part,) for part in PARTS} | {"definition": ("definition_id", "definition_version")}
FIELDS = tuple(name for names in MEMBERS.values() for name in names)
SENTINELS = {"", "unknown", "n/a", "none", "null", "0.0.0"}
ALIASES = {"latest", "production", "prod", "default", "main", "current", "live"}

Row = tuple[str, Callable[[str, Any, bool, Mapping[str, Any]], bool]]
"""A state, and its test of (field, value, attested, policy) for a field that the writer's schema has."""


def plain(value: str) -> str:
    return unicodedata.normalize("NFKC", value).strip().casefold()


def integers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return list(value.values())
    return [value] if isinstance(value, int) else []


def badly_keyed(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return len(value) > 64 or any(re.fullmatch("[a-z][a-z0-9_]{0,63}", key) is None for key in value)


def breaks_pattern(name: str, value: Any, policy: Mapping[str, Any]) -> bool:
    return isinstance(value, str) and name in policy["patterns"] and not re.fullmatch(policy["patterns"][name], value)


ROWS: tuple[Row, ...] = (
    ("not_applicable", lambda _, value, attested, __: attested and (value is None or value == {})),
    (
        "null",
        lambda _, value, __, policy: (
            value is None or (isinstance(value, dict) and (not value or bool(policy["required"] - set(value))))
        ),
    ),
    (
        "sentinel",
        lambda _, value, __, ___: plain(value) in SENTINELS if isinstance(value, str) else -1 in integers(value),
    ),
    (
        "alias",
        lambda name, value, _, __: isinstance(value, str) and name != "definition_id" and plain(value) in ALIASES,
    ),
    (
        "malformed",
        lambda name, value, attested, policy: (
            attested
            or (isinstance(value, str) and len(value) > 200)
            or breaks_pattern(name, value, policy)
            or badly_keyed(value)
        ),
    ),
    (
        "implausible",
        lambda name, value, _, __: any(
            n < 0 or n > (1_000 if name == "summary_depth" else 100_000) for n in integers(value)
        ),
    ),
)


def expected(fingerprint: dict[str, Any], part: str, presence: frozenset[str], policy: Mapping[str, Any]) -> str:
    names = MEMBERS[part]
    if not all(f"fingerprint.{name}" in presence for name in names):
        return "absent_in_writer_schema"
    attests = "fingerprint.not_applicable" in presence and fingerprint.get("not_applicable")
    for state, test in ROWS:
        if any(test(name, fingerprint.get(name), part in (attests or ()), policy) for name in names):
            return state
    fallback = "fingerprint.definition_fallback" in presence and fingerprint.get("definition_fallback")
    return "fallback" if part == "definition" and fallback else "present"


texts = st.one_of(
    st.none(),
    st.sampled_from(["", " ", "Latest", "MAIN ", "n/a", "0.0.0", "v1", "v12x", "\uff2e\uff35\uff2c\uff2c", "x" * 201]),
    st.text(max_size=5),
)
numbers = st.sampled_from([0, 1, -1, -2, 999, 1_000, 1_001, 100_000, 100_001])
names = st.sampled_from(["facts", "history", "Facts", "f" * 65, "a1_", "1a", "fa\n"])
many = st.just({f"p{n}": 0 for n in range(65)})
fingerprints = st.fixed_dictionaries(
    {
        "definition_id": texts,
        "definition_version": texts,
        "definition_fallback": st.sampled_from([None, True, False]),
        "state_shape_version": texts,
        "summary_depth": st.none() | numbers,
        "state_counts": st.none() | st.dictionaries(names, numbers, max_size=3) | many,
        "model_id": texts,
        "moderation_version": texts,
        "not_applicable": st.none() | st.lists(st.sampled_from([*PARTS, "weather", "definition_id"]), max_size=4),
        "state_position": st.none() | numbers,
    }
)
presences = st.sets(st.sampled_from([*FIELDS, "not_applicable", "definition_fallback"]), max_size=2).map(
    lambda missing: frozenset(
        f"fingerprint.{name}" for name in {*FIELDS, "not_applicable", "definition_fallback"} - missing
    )
)


@settings(max_examples=600, deadline=None)
@given(st.none() | fingerprints, presences, st.booleans(), st.booleans())
def test_every_part_has_the_state_that_the_table_gives_it(
    fingerprint: dict[str, Any] | None, presence: frozenset[str], requires: bool, pattern: bool
) -> None:
    required = frozenset({"facts"}) if requires else frozenset[str]()
    patterns = {"model_id": r"v\d+", "definition_id": r"[a-z]*"} if pattern else {}
    policy = CompletenessPolicy(
        patterns={name: re.compile(text) for name, text in patterns.items()}, required_pieces=required
    )
    result = completeness(fingerprint, {"producer": {}}, presence, policy)
    reading = {"required": required, "patterns": patterns}
    assert result.states == {part: expected(fingerprint or {}, part, presence, reading) for part in PARTS}
    assert result.complete is all(state in COMPLETE_STATES for state in result.states.values())
    assert result.complete is (not result.gaps)


@settings(max_examples=200, deadline=None)
@given(fingerprints)
def test_a_verdicts_fingerprint_holds_nothing_long_and_counts_in_order(fingerprint: dict[str, Any]) -> None:
    shown = verdict_fingerprint(fingerprint)
    assert shown is not None
    assert all(len(value) <= 200 for value in shown.values() if isinstance(value, str))
    sent = fingerprint["state_counts"]
    if sent is None or badly_keyed(sent):
        assert shown["state_counts"] is None
        return
    assert {entry["name"]: entry["count"] for entry in shown["state_counts"]} == sent
    encoded = [entry["name"].encode() for entry in shown["state_counts"]]
    assert encoded == sorted(encoded)
