"""What holds for every manifest: the two forms agree, nothing crashes, the grade follows from the gaps."""

from __future__ import annotations

import json
from typing import Any, Final

import rfc8785
from fidelity_manifests import manifests, through_avro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.processing.fidelity import (
    CATALOGUE,
    Impact,
    Level,
    RuntimeManifest,
    grade,
    parse_avro,
    parse_json,
    to_avro,
)
from workers.processing.fidelity.canonical import canonical
from workers.processing.fidelity.findings import find
from workers.processing.fidelity.verdict import judge_manifest

COMMON: Final = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
ODD: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(
        [0, 1, -1, 2.0, 10**400, float("inf"), "", " ", "unknown", "\ud800", [], {}, [None], {"capture": []}]
    ),
    st.text(max_size=3),
)


def read(manifest: dict[str, Any]) -> RuntimeManifest:
    parsed = parse_json(json.dumps(manifest))
    assert isinstance(parsed, RuntimeManifest), parsed
    return parsed


@COMMON
@given(manifests())
def test_both_forms_of_a_valid_manifest_get_the_same_report(manifest: dict[str, Any]) -> None:
    original = read(manifest)
    translated = parse_avro(through_avro(to_avro(original)))
    assert isinstance(translated, RuntimeManifest)
    assert grade(translated) == grade(original)
    assert to_avro(translated) == to_avro(original)
    assert find(translated, "n").found == find(original, "n").found


@COMMON
@given(manifests())
def test_the_level_follows_from_the_gaps_and_no_gap_is_told_twice(manifest: dict[str, Any]) -> None:
    report = grade(read(manifest))
    impacts = {gap.impact for gap in report.missing_evidence}
    expected = (
        Level.UNREPLAYABLE
        if Impact.BLOCKS_REPLAY in impacts
        else Level.PARTIAL
        if Impact.REDUCES_CONTROL in impacts
        else Level.CONTROLLED
        if impacts
        else Level.EXACT
    )
    assert report.level is expected
    assert report.deterministic == (not report.missing_evidence) == ("not_exact" not in report.caveats)
    keys = [(gap.field, gap.impact) for gap in report.missing_evidence]
    assert len(set(keys)) == len(keys)
    assert all(CATALOGUE[gap.code].impact is gap.impact for gap in report.missing_evidence)


@COMMON
@given(manifests())
def test_the_report_depends_on_no_value_and_no_order_of_keys(manifest: dict[str, Any]) -> None:
    def reversed_and_blinded(item: Any) -> Any:
        if isinstance(item, dict):
            blinded = {"value": None} if item.get("capture") == "value" else {}
            return {key: reversed_and_blinded(item[key]) for key in reversed(item)} | blinded
        return [reversed_and_blinded(part) for part in item] if isinstance(item, list) else item

    assert grade(read(reversed_and_blinded(manifest))) == grade(read(manifest))


@COMMON
@given(manifests(), st.data())
def test_one_odd_value_anywhere_ends_as_a_report_or_as_issues_at_that_place(
    manifest: dict[str, Any], data: st.DataObject
) -> None:
    target: Any = manifest
    path = ""
    while True:
        keys: list[Any] = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = data.draw(st.sampled_from(keys))
        path += f"/{key}"
        inner = target[key]
        if isinstance(inner, dict | list) and inner and key != "value" and data.draw(st.booleans()):
            target = inner
            continue
        break
    target[key] = data.draw(ODD)
    result = parse_json(json.dumps(manifest))
    if isinstance(result, RuntimeManifest):
        assert grade(result).level in set(Level)
        return
    paths = [issue.path for issue in result]
    assert len(set(paths)) == len(paths)
    if "Infinity" in json.dumps(manifest):
        assert paths == [""]
    else:
        assert all(found == path or found.startswith((path + "/", path.rsplit("/", 1)[0] + "/")) for found in paths)


@COMMON
@given(st.recursive(ODD, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=10))
def test_any_json_at_all_ends_as_a_manifest_or_as_issues(document: Any) -> None:
    assert isinstance(parse_json(json.dumps(document)), tuple | RuntimeManifest)


@COMMON
@given(st.binary(max_size=40) | st.text(max_size=40))
def test_any_bytes_and_any_text_end_as_issues(document: bytes | str) -> None:
    assert isinstance(parse_json(document), tuple)


@COMMON
@given(manifests(), st.sampled_from(["version", "source", "tools", "prompts", "id"]), ODD)
def test_a_verdict_never_fails_on_any_manifest(manifest: dict[str, Any], field: str, odd: Any) -> None:
    record = to_avro(read(manifest))
    record[field] = odd
    assert judge_manifest(record, "n") == judge_manifest(record, "n")


EDGE_TEXT: Final = st.text(max_size=4) | st.text('\x00\x1f\x7f"\\/\b\u2028\ud7ff\ue000\U0001f600é', max_size=4)
EXACT_NUMBERS: Final = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=500, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | EXACT_NUMBERS | EDGE_TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(EDGE_TEXT, inner, max_size=4),
    )
)
def test_the_canonical_form_is_that_of_the_rfc_whichever_encoder_writes_it(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)
