"""Completeness of a fingerprint: one state for each of its six parts, by a table whose first match wins.

Source: docs/policy.md ("Completeness") for the keys, the table below for the rule. The tests of a value are functions
of that value and the policy alone, so that they can run on the distinct values of a column as well as on one turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from workers.processing.policy_rules import CompletenessPolicy, normalise

MAX_TEXT: Final = 200
"""Longest text of a fingerprint, in characters; anything longer is malformed and left out of the verdict."""
MAX_PIECES: Final = 64
"""Most keys of ``state_counts``."""
MAX_PIECE_NAME: Final = 64


class FieldState(StrEnum):
    """State of one part, in the order in which the tests are made: the first match wins."""

    ABSENT_IN_WRITER_SCHEMA = "absent_in_writer_schema"
    NOT_APPLICABLE = "not_applicable"
    NULL = "null"
    SENTINEL = "sentinel"
    ALIAS = "alias"
    MALFORMED = "malformed"
    IMPLAUSIBLE = "implausible"
    FALLBACK = "fallback"
    PRESENT = "present"


COMPLETE_STATES: Final = frozenset({FieldState.NOT_APPLICABLE, FieldState.FALLBACK, FieldState.PRESENT})
"""The states that leave a turn complete."""

ORDER: Final[Mapping[FieldState, int]] = {state: row for row, state in enumerate(FieldState)}
"""Row of a state in the table: the lower wins."""

PARTS: Final = (
    "definition",
    "state_shape_version",
    "summary_depth",
    "state_counts",
    "model_id",
    "moderation_version",
)
"""The six parts, by the names that attestations and verdicts use."""

TEXT_FIELDS: Final = ("definition_id", "definition_version", "state_shape_version", "model_id", "moderation_version")
"""Text fields of the fingerprint: those a policy may give a pattern."""

ALIAS_FIELDS: Final = frozenset(TEXT_FIELDS) - {"definition_id"}
"""Fields in which an alias hides what served. A definition may well be called ``main``."""

SECOND_TIER: Final = ("assembled_at", "instance_id", "build_id", "region", "path", "turn_index", "state_position")
"""Optional fields, counted apart, in the order in which they are reported."""

_TIER2_PATHS: Final = (
    ("assembled_at", None),
    ("producer.instance_id", "producer"),
    ("producer.build_id", "producer"),
    ("producer.region", "producer"),
    ("producer.path", "producer"),
    ("turn_index", None),
    ("fingerprint.state_position", "fingerprint"),
)
_EMPTY: Final[Mapping[str, Any]] = {}
_PIECE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Completeness:
    """Completeness of one turn.

    ``states`` holds the six parts in the order of `PARTS`; ``gaps`` are those of them that make the turn incomplete,
    as (part, state). ``missing_tier2`` names the absent fields of `SECOND_TIER` in its order. ``unknown_attestations``
    counts the entries of ``not_applicable`` that name none of the parts; they have no other effect. Equal results
    share one object: do not change ``states``.
    """

    states: Mapping[str, FieldState]
    complete: bool
    gaps: tuple[tuple[str, FieldState], ...]
    missing_tier2: tuple[str, ...]
    unknown_attestations: int


def completeness(
    fingerprint: Mapping[str, Any] | None,
    turn: Mapping[str, Any],
    presence: frozenset[str],
    policy: CompletenessPolicy,
) -> Completeness:
    """Return the completeness of ``turn``, whose fingerprint is ``fingerprint``.

    ``turn`` is projected onto our schema. ``presence`` holds the dotted paths of our schema that the writer's schema
    supplies, for instance ``fingerprint.definition_id``: a value that a default filled in never counts. A part of two
    fields (``definition``: id and version) takes the first row of the table that either field matches.
    """
    values = _EMPTY if fingerprint is None else fingerprint
    written = _written(presence)
    attested, unknown = _attestations(values.get("not_applicable") if written.attestation else None)
    states = [
        _first(
            _value_state(values.get(name), name, part in attested, policy) if supplied else _ABSENT
            for name, supplied in fields
        )
        for part, fields in written.parts
    ]
    if states[0] is FieldState.PRESENT and written.fallback and values.get("definition_fallback") is True:
        states[0] = FieldState.FALLBACK
    return _result(tuple(states), _missing_tier2(turn, values, written.tier2), unknown)


def verdict_fingerprint(fingerprint: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the fingerprint as the verdict shows it: the values as sent, without those too long or badly keyed.

    A text over `MAX_TEXT` characters becomes None. ``state_counts`` becomes a list of {name, count}, sorted by the
    UTF-8 bytes of the name, and None when one of its keys is bad or it has too many: part of a map would pass for
    the whole. The state of the part tells why it is missing.
    """
    if fingerprint is None:
        return None
    shown = {name: _shown(fingerprint.get(name)) for name in _SHOWN_FIELDS}
    counts = fingerprint.get("state_counts")
    # Valid names are ASCII, where the order of characters is that of UTF-8 bytes.
    shown["state_counts"] = (
        None
        if counts is None or _badly_keyed(counts)
        else [{"name": name, "count": counts[name]} for name in sorted(counts)]
    )
    return shown


_SHOWN_FIELDS: Final = (
    "definition_id",
    "definition_version",
    "definition_fallback",
    "state_shape_version",
    "summary_depth",
    "model_id",
    "moderation_version",
    "state_position",
)


def _shown(value: object) -> object:
    return None if isinstance(value, str) and len(value) > MAX_TEXT else value


# The tests of a value, in the order of FieldState. None of them matches: `present`.

TextTest = Callable[[str, str, str, CompletenessPolicy], bool]
"""Test of (raw value, normalised value, field name, policy)."""

TEXT_TESTS: Final[tuple[tuple[FieldState, TextTest], ...]] = (
    (FieldState.SENTINEL, lambda _, plain, __, policy: plain in policy.sentinels),
    (FieldState.ALIAS, lambda _, plain, name, policy: name in ALIAS_FIELDS and plain in policy.aliases),
    (FieldState.MALFORMED, lambda raw, _, name, policy: len(raw) > MAX_TEXT or _breaks_pattern(raw, name, policy)),
)

DEPTH_TESTS: Final[tuple[tuple[FieldState, Callable[[int, CompletenessPolicy], bool]], ...]] = (
    (FieldState.SENTINEL, lambda depth, _: depth == -1),
    (FieldState.IMPLAUSIBLE, lambda depth, policy: depth < 0 or depth > policy.depth_cap),
)

COUNTS_TESTS: Final[tuple[tuple[FieldState, Callable[[Mapping[str, int], CompletenessPolicy], bool]], ...]] = (
    (FieldState.NULL, lambda counts, policy: not counts or not policy.required_pieces <= counts.keys()),
    (FieldState.SENTINEL, lambda counts, _: -1 in counts.values()),
    (FieldState.MALFORMED, lambda counts, _: _badly_keyed(counts)),
    (
        FieldState.IMPLAUSIBLE,
        lambda counts, policy: min(counts.values()) < 0 or max(counts.values()) > policy.count_cap,
    ),
)


def text_state(value: str, name: str, policy: CompletenessPolicy) -> FieldState:
    """Return the state of the text ``value`` of the field ``name``, attestations left aside."""
    # Texts repeat from turn to turn; those over the limit do not, and would fill the cache with megabytes.
    return _repeated_text_state(value, name, policy) if len(value) <= MAX_TEXT else _text_state(value, name, policy)


def depth_state(value: int, policy: CompletenessPolicy) -> FieldState:
    """Return the state of ``summary_depth``, attestations left aside."""
    return next((state for state, test in DEPTH_TESTS if test(value, policy)), FieldState.PRESENT)


def counts_state(value: Mapping[str, int], policy: CompletenessPolicy) -> FieldState:
    """Return the state of ``state_counts``, attestations left aside."""
    return next((state for state, test in COUNTS_TESTS if test(value, policy)), FieldState.PRESENT)


def _text_state(value: str, name: str, policy: CompletenessPolicy) -> FieldState:
    plain = normalise(value)
    return next((state for state, test in TEXT_TESTS if test(value, plain, name, policy)), FieldState.PRESENT)


_repeated_text_state = lru_cache(maxsize=16_384)(_text_state)


def _breaks_pattern(value: str, name: str, policy: CompletenessPolicy) -> bool:
    pattern = policy.patterns.get(name)
    return pattern is not None and pattern.fullmatch(value) is None


def _badly_keyed(counts: Mapping[str, int]) -> bool:
    return len(counts) > MAX_PIECES or not all(len(name) <= MAX_PIECE_NAME and is_piece_name(name) for name in counts)


@lru_cache(maxsize=4_096)
def is_piece_name(name: str) -> bool:
    """Return whether ``name`` may be a key of ``state_counts``."""
    return _PIECE_NAME.fullmatch(name) is not None


def _value_state(value: object, name: str, attested: bool, policy: CompletenessPolicy) -> FieldState:
    """Return the state of a field that the writer's schema has."""
    if isinstance(value, str):
        state = text_state(value, name, policy)
    elif isinstance(value, int):
        state = depth_state(value, policy)
    elif isinstance(value, Mapping) and (value or not attested):
        state = counts_state(value, policy)
    else:
        return FieldState.NOT_APPLICABLE if attested else FieldState.NULL
    # A value that is also attested as not applicable contradicts itself.
    return FieldState.MALFORMED if attested and ORDER[state] > ORDER[FieldState.MALFORMED] else state


_ABSENT: Final = FieldState.ABSENT_IN_WRITER_SCHEMA


def _first(states: Iterable[FieldState]) -> FieldState:
    return min(states, key=ORDER.__getitem__)


def _attestations(names: Iterable[str] | None) -> tuple[frozenset[str], int]:
    if not names:
        return frozenset(), 0
    given = list(names)
    return frozenset(given), sum(name not in PARTS for name in given)


class _Written(NamedTuple):
    """What a writer's schema supplies: one per presence mask."""

    parts: tuple[tuple[str, tuple[tuple[str, bool], ...]], ...]
    tier2: tuple[tuple[str, str | None, bool], ...]
    attestation: bool
    fallback: bool


@lru_cache(maxsize=1_024)
def _written(presence: frozenset[str]) -> _Written:
    members = {part: ("definition_id", "definition_version") if part == "definition" else (part,) for part in PARTS}
    return _Written(
        tuple((part, tuple((name, f"fingerprint.{name}" in presence) for name in members[part])) for part in PARTS),
        tuple((path.rpartition(".")[2], parent, path in presence) for path, parent in _TIER2_PATHS),
        "fingerprint.not_applicable" in presence,
        "fingerprint.definition_fallback" in presence,
    )


def _missing_tier2(
    turn: Mapping[str, Any], fingerprint: Mapping[str, Any], fields: tuple[tuple[str, str | None, bool], ...]
) -> tuple[str, ...]:
    parents = {None: turn, "producer": turn.get("producer") or _EMPTY, "fingerprint": fingerprint}
    return tuple(name for name, parent, supplied in fields if not supplied or parents[parent].get(name) is None)


@lru_cache(maxsize=4_096)
def _result(states: tuple[FieldState, ...], missing_tier2: tuple[str, ...], unknown: int) -> Completeness:
    by_part = dict(zip(PARTS, states, strict=True))
    gaps = tuple((part, state) for part, state in by_part.items() if state not in COMPLETE_STATES)
    return Completeness(by_part, not gaps, gaps, missing_tier2, unknown)
