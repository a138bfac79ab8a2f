"""The replay part of a verdict: always a record that the schema takes, within its limits, with totals of everything."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import pytest
from fidelity_manifests import DIGEST, artifact, call, edited, exact, parsed

from workers.processing.fidelity import to_avro
from workers.processing.fidelity.verdict import Judgement, judge_manifest
from workers.resources import resource_folder

SCHEMA: Any = json.loads((resource_folder("schemas") / "fidelity" / "v1.avsc").read_text(encoding="utf-8"))


def judged(changes: Mapping[str, Any], model_id: str | None = None) -> Judgement:
    return judge_manifest(to_avro(parsed(edited(exact(), changes))), model_id)


def written(fields: dict[str, Any]) -> Any:
    """Encode and decode the replay part with the fields of the published verdict."""
    part = {**SCHEMA, "name": "ReplayPart", "fields": [field for field in SCHEMA["fields"] if field["name"] in fields]}
    schema = fastavro.parse_schema(part)
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, fields, strict=True)
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, schema, None)


def test_a_turn_without_manifest_is_counted_apart() -> None:
    judgement = judge_manifest(None, "n")
    assert (judgement.status, judgement.level) == ("no_manifest", None)
    assert judgement.fields == written(judgement.fields)
    assert (judgement.fields["status"], judgement.fields["level"], judgement.fields["deterministic"]) == (
        "no_manifest",
        None,
        None,
    )


def test_an_exact_manifest_has_a_level_and_nothing_else() -> None:
    assert judged({}, "n").fields == {
        "status": "graded",
        "level": "exact",
        "deterministic": True,
        "manifest_id": "m-1",
        "missing_evidence": [],
        "missing_total": 0,
        "caveats": [],
        "manifest_issues": [],
        "manifest_issue_total": 0,
        "findings": [],
        "finding_total": 0,
    }


def test_gaps_caveats_findings_and_digests_are_told_and_counted() -> None:
    judgement = judged(
        {"model.seed": {**artifact("value", "mapped"), "sha256": DIGEST}, "model.determinism": "unknown"}, "x"
    )
    assert judgement.fields == written(judgement.fields)
    assert judgement.fields["missing_evidence"] == [
        {"field": "model.seed", "impact": "prevents_exactness", "code": "artifact_not_observed"},
        {"field": "model.determinism", "impact": "prevents_exactness", "code": "model_determinism_unknown"},
    ]
    assert judgement.fields["caveats"] == ["not_exact", "seed_without_guarantee"]
    assert judgement.fields["findings"] == [
        {"code": "digest_mismatch", "field": "model.seed"},
        {"code": "model_mismatch", "field": "model.name"},
    ]
    assert judgement.gap_codes == ("artifact_not_observed", "model_determinism_unknown")
    assert judgement.finding_codes == ("digest_mismatch", "model_mismatch")
    assert judgement.digest_outcomes == ("mismatch",)
    assert judgement.level == "controlled"


def test_an_invalid_manifest_has_issues_and_no_level() -> None:
    judgement = judge_manifest(edited(to_avro(parsed(exact())), {"capturedAt": "now", "source.traceId": ""}), "other")
    assert judgement.fields == written(judgement.fields)
    assert judgement.fields["manifest_issues"] == [
        {"path": "/capturedAt", "code": "bad_timestamp"},
        {"path": "/source/traceId", "code": "empty_text"},
    ]
    assert judgement.fields["manifest_issue_total"] == 2
    assert (judgement.fields["level"], judgement.fields["deterministic"], judgement.fields["findings"]) == (
        None,
        None,
        [],
    )
    assert judgement.fields["manifest_id"] == "m-1"
    assert judgement.issue_codes == ("bad_timestamp", "empty_text")


@pytest.mark.parametrize("manifest_id", ["", None, 5])
def test_an_invalid_manifest_without_usable_id_has_none(manifest_id: object) -> None:
    assert judge_manifest({"id": manifest_id}, None).fields["manifest_id"] is None


def test_lists_are_cut_while_totals_and_tallies_count_all() -> None:
    mapped = artifact("value", "mapped")
    calls = [call(f"c{number}", input=mapped, output=mapped) for number in range(200)]
    calls += [call(f"c{number}", input=mapped, output=mapped) for number in range(200)]
    judgement = judged({"tools.calls": calls})
    assert (len(judgement.fields["missing_evidence"]), judgement.fields["missing_total"]) == (256, 400)
    assert (len(judgement.fields["findings"]), judgement.fields["finding_total"]) == (32, 200)
    assert (len(judgement.gap_codes), len(judgement.finding_codes)) == (400, 200)
    broken = judge_manifest({"sideEffects": {"notes": [""] * 100}}, None)
    assert len(broken.fields["manifest_issues"]) == 20
    assert broken.fields["manifest_issue_total"] == len(broken.issue_codes) > 100


def test_the_level_is_set_before_the_list_is_cut() -> None:
    mapped = artifact("value", "mapped")
    judgement = judged(
        {"tools.calls": [call(str(number), input=mapped) for number in range(300)], "sideEffects.network": "live"}
    )
    assert judgement.level == "unreplayable"
    assert {gap["impact"] for gap in judgement.fields["missing_evidence"]} == {"prevents_exactness"}


def test_long_names_are_cut_to_256_characters() -> None:
    long = "é" * 300
    judgement = judged({"id": long, "tools.calls.0": call(long, input=artifact("value", "mapped"))})
    [gap] = judgement.fields["missing_evidence"]
    assert gap["field"] == f"tools.calls.{long}"[:255] + "…"
    assert judgement.fields["manifest_id"] == long[:256]
    fitting = "x" * (256 - len("tools.calls..input"))
    [gap] = judged({"tools.calls.0": call(fitting, input=artifact("value", "mapped"))}).fields["missing_evidence"]
    assert gap["field"] == f"tools.calls.{fitting}.input"


def test_the_path_of_an_issue_is_cut_too() -> None:
    judgement = judge_manifest(edited(to_avro(parsed(exact())), {"x" * 300: 1}), None)
    assert judgement.fields["manifest_issues"] == [{"path": "/" + "x" * 254 + "…", "code": "unknown_field"}]


def test_a_hostile_value_ends_as_an_issue() -> None:
    for text in ("[" * 500_000, '{"a":' * 100_000, "9" * 900_000, '"' + '\\"' * 400_000, "\u2028" * 1000):
        judgement = judge_manifest(edited(to_avro(parsed(exact())), {"prompts.input.value": text}), None)
        assert judgement.status == "manifest_invalid"
