"""The policy: what it refuses, what its version depends on, and whom overrides and waivers concern."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import ConfigurationError
from workers.processing.fingerprint import text_state
from workers.processing.policy import Policy
from workers.processing.policy_reference import PAGE, policy_markdown
from workers.processing.policy_values import format_duration, parse_duration

ROOT = Path(__file__).parents[3]
TODAY = date(2026, 1, 10)
GAPS = ("absent_in_writer_schema", "null", "sentinel", "alias", "malformed", "implausible")
WAIVER = {"service": "chat", "field": "model_id", "owner": "me", "ticket": "T-1", "expires": date(2026, 1, 20)}


def read(**keys: Any) -> Policy:
    return Policy.from_data(keys, "p.yaml", TODAY)


def refused(data: object) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        Policy.from_data(data, "p.yaml", TODAY)
    first, *lines = str(caught.value).split("\n  ")
    assert first.startswith("policy p.yaml: ")
    return lines or [first.removeprefix("policy p.yaml: ")]


def milliseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "must be a mapping of keys, got null; write {} for the defaults"),
        ({"sentinel": ["x"]}, "sentinel: there is no such key; did you mean `sentinels`?"),
        ({"zzz": 1}, "zzz: there is no such key; remove it"),
        ({"sentinels": [None]}, "sentinels[0]: must be text, got null; put the value in quotes"),
        ({"aliases": ["a", 1.0]}, "aliases[1]: must be text, got a number; put the value in quotes"),
        ({"aliases": "latest"}, "aliases: must be a list, got text"),
        ({"skew": 60}, "skew: write a whole number and a unit of ms, s, m, h or d, such as 60s or 30m, got a number"),
        ({"own_lag_max": "0s"}, "own_lag_max: must be more than 0, got text"),
        ({"own_lag_max": "4000d"}, "own_lag_max: write at most 3650d, got text"),
        ({"caps": {"count": 0}}, "caps.count: must be greater than or equal to 1, got a number"),
        ({"caps": 3}, "caps: must be a mapping, got a number"),
        ({"n_min": True}, "n_min: must be a whole number, got true or false"),
        (
            {"fidelity_bounds": {"invalid": 1.5}},
            "fidelity_bounds.invalid: must be less than or equal to 1, got a number",
        ),
        (
            {"fidelity_bounds_by_service": {'a"b': {}}},
            'fidelity_bounds_by_service.a"b: must match [A-Za-z0-9._:/-]{1,64}, as services in labels do, got text',
        ),
        (
            {"patterns": {"model_id": "("}},
            "patterns: the pattern of model_id is not a regular expression of Python; correct it, got a mapping",
        ),
        (
            {"required_pieces": ["Facts"]},
            "required_pieces: write names of pieces that match [a-z][a-z0-9_]{0,63}, got a list",
        ),
        (
            {"overrides": [{"aliases": []}]},
            (
                "overrides[0]: give `tenant` or `definition`; what holds for all belongs at the top of the file, "
                "got a mapping"
            ),
        ),
        (
            {"overrides": [{"tenant": "acme"}]},
            "overrides[0]: give at least one of sentinels, aliases, caps, patterns, required_pieces, got a mapping",
        ),
        (
            {"waivers": [WAIVER | {"state": "present"}]},
            f"waivers[0].state: write one of *, {', '.join(GAPS)}, got text",
        ),
        (
            {"waivers": [WAIVER | {"expires": date(2026, 2, 10)}]},
            "waivers[0].expires: is more than 30 days ahead; write 2026-02-09 or earlier",
        ),
        ({"waivers": [WAIVER | {"expires": "soon"}]}, "waivers[0].expires: write a date such as 2026-01-31, got text"),
        (
            {"waivers": [WAIVER | {"expires": datetime(2026, 1, 11, 4, tzinfo=UTC)}]},
            "waivers[0].expires: must be a date such as 2026-01-31, got a date with a time",
        ),
    ],
)
def test_an_error_names_the_key_the_type_of_the_value_and_the_fix(data: object, problem: str) -> None:
    assert refused(data) == [problem]


def test_patterns_are_only_for_text_fields() -> None:
    [problem] = refused({"patterns": {"model": "x"}})
    assert "'model' can have no pattern" in problem
    assert "model_id" in problem


def test_all_problems_are_reported_at_once() -> None:
    bad_waiver = {"service": "chat", "field": "model", "owner": "", "ticket": "T", "expires": date(2026, 1, 11)}
    assert len(refused({"n_min": "3", "skew": "x", "waivers": [bad_waiver]})) == 4


def test_an_expired_waiver_does_not_make_the_file_wrong() -> None:
    assert read(waivers=[WAIVER | {"expires": date(2020, 1, 1)}]).waivers


def test_the_version_depends_on_what_decides_a_state_and_on_nothing_else() -> None:
    default = Policy().version
    assert len(default) == 12
    assert int(default, 16) >= 0
    alike = read(sentinels=["0.0.0", " Unknown", "NULL", "none", "n/a", "", "none"], n_min=5, waivers=[WAIVER], caps={})
    assert alike.version == default
    different = [
        read(sentinels=["x"]),
        read(aliases=[]),
        read(caps={"depth": 999}),
        read(patterns={"model_id": "m.*"}),
        read(required_pieces=["facts"]),
        read(overrides=[{"tenant": "acme", "aliases": []}]),
        read(overrides=[{"tenant": "acm*", "aliases": []}]),
        read(overrides=[{"definition": "acme", "aliases": []}]),
    ]
    assert len({default, *(policy.version for policy in different)}) == len(different) + 1


def test_the_version_of_the_defaults_never_changes_unnoticed() -> None:
    """Verdicts carry it: another one means that turns are judged otherwise."""
    assert Policy().version == "9538317ec6f7"


def test_later_overrides_replace_lists_and_single_caps_and_patterns() -> None:
    policy = read(
        caps={"count": 50},
        patterns={"model_id": "m.*"},
        overrides=[
            {"tenant": "acme*", "aliases": ["next"], "caps": {"depth": 7}, "patterns": {"definition_id": "d.*"}},
            {"definition": "batch-*", "aliases": ["Edge "], "required_pieces": ["facts"]},
        ],
    )
    both = policy.completeness_for("acme-2", "batch-9")
    assert (both.count_cap, both.depth_cap) == (50, 7)
    assert both.aliases == {"edge"}
    assert set(both.patterns) == {"model_id", "definition_id"}
    assert both.required_pieces == {"facts"}
    first = policy.completeness_for("acme-2", None)
    assert first.aliases == {"next"}
    assert (first.depth_cap, len(first.required_pieces)) == (7, 0)
    neither = policy.completeness_for("other", "d" * 1_000)
    assert (neither.depth_cap, neither.aliases) == (1_000, Policy().aliases)
    assert policy.completeness_for("acme", "batch-1") is both
    assert text_state("edge", "model_id", both) == "alias"


def test_a_waiver_covers_its_gap_through_its_last_day_and_is_then_reported() -> None:
    book = read(waivers=[WAIVER | {"path": "legacy-*", "state": "null"}]).waiver_book
    last, after = milliseconds("2026-01-20T23:59:59.999Z"), milliseconds("2026-01-21T00:00:00Z")
    assert book.waived("chat", "legacy-1", "model_id", "null", last)
    assert not book.waived("chat", "legacy-1", "model_id", "null", after)
    assert [waiver.ticket for waiver in book.active(last)] == ["T-1"]
    assert book.expired(last) == ()
    assert book.active(after) == ()
    assert [waiver.ticket for waiver in book.expired(after)] == ["T-1"]
    for other in (
        ("chat2", "legacy-1", "model_id", "null"),
        ("chat", "unset", "model_id", "null"),
        ("chat", "legacy-1", "definition", "null"),
        ("chat", "legacy-1", "model_id", "alias"),
    ):
        assert not book.waived(*other, last)


def test_the_longest_of_several_waivers_decides() -> None:
    later = WAIVER | {"expires": date(2026, 2, 1), "service": "*"}
    book = read(waivers=[WAIVER, later, WAIVER | {"expires": date(2025, 1, 1)}]).waiver_book
    assert book.waived("chat", "unset", "model_id", "null", milliseconds("2026-02-01T12:00:00Z"))
    assert not Policy().waiver_book.waived("chat", "unset", "model_id", "null", 0)


def test_a_services_bounds_replace_those_of_all_one_by_one() -> None:
    policy = read(
        fidelity_bounds={"invalid": 0.2, "missing": None}, fidelity_bounds_by_service={"chat": {"invalid": None}}
    )
    chat, other = policy.fidelity_bounds_of("chat"), policy.fidelity_bounds_of("other")
    assert (chat.unreplayable, chat.invalid, chat.missing) == (0.05, None, None)
    assert (other.unreplayable, other.invalid, other.missing) == (0.05, 0.2, None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2m", 120), ("30 m", 1_800), ("60s", 60), (" 24h ", 86_400), ("7 d", 604_800), ("5ms", 0.005)],
)
def test_durations_are_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@given(st.integers(0, 10**10).map(lambda n: timedelta(milliseconds=n)))
def test_a_duration_written_is_the_duration_read(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


def test_the_page_is_current() -> None:
    hint = "run python -m workers.processing.policy_reference"
    assert (ROOT / PAGE).read_text(encoding="utf-8") == policy_markdown(), hint
