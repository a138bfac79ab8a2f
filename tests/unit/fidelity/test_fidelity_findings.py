"""Contradictions inside a manifest: found, ordered, told once, and never a matter of the level."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from fidelity_manifests import DIGEST, REMOVED, artifact, call, edited, exact, parsed

from workers.processing.fidelity import RuntimeManifest, grade, parse_avro, to_avro
from workers.processing.fidelity.catalogue import Kind, codes_of
from workers.processing.fidelity.findings import DigestOutcome, Findings, find


def found(changes: Mapping[str, Any], model_id: str | None = None) -> list[tuple[str, str]]:
    return [(code, field) for code, field in find(parsed(edited(exact(), changes)), model_id).found]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def of_seed_text(text: str, digest: str) -> Findings:
    manifest = parse_avro(edited(to_avro(parsed(exact())), {"model.seed.value": text, "model.seed.sha256": digest}))
    assert isinstance(manifest, RuntimeManifest)
    return find(manifest, None)


def test_an_exact_manifest_contradicts_nothing() -> None:
    assert find(parsed(exact()), None) == Findings((), ())


@pytest.mark.parametrize(
    "digest", [sha256('{ "b": 1, "a": 1.0 }'), sha256('{"a":1,"b":1}'), sha256('{"a":1,"b":1}').upper()]
)
def test_a_digest_may_be_that_of_the_text_or_of_its_canonical_form(digest: str) -> None:
    assert of_seed_text('{ "b": 1, "a": 1.0 }', digest) == Findings((), (DigestOutcome.MATCH,))


def test_integers_beyond_doubles_are_hashed_as_the_double_they_stand_for() -> None:
    assert of_seed_text("1" + "0" * 30, sha256("1e+30")).digests == ("match",)
    assert of_seed_text("9007199254740993", sha256("9007199254740992")).digests == ("match",)


def test_another_digest_is_a_mismatch_and_leaves_the_level_alone() -> None:
    changes = {"model.seed.sha256": DIGEST}
    assert found(changes) == [("digest_mismatch", "model.seed")]
    assert grade(parsed(edited(exact(), changes))) == grade(parsed(exact()))


def test_a_matching_digest_upgrades_nothing() -> None:
    mapped = artifact("value", "mapped")
    with_digest = {**mapped, "sha256": sha256("1")}
    assert found({"model.seed": with_digest}) == []
    assert grade(parsed(edited(exact(), {"model.seed": with_digest}))) == grade(
        parsed(edited(exact(), {"model.seed": mapped}))
    )


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\ud800":1}', '[{"a":1,"\\udfff":2}]'])
def test_a_value_without_canonical_form_is_unverifiable_unless_its_text_matches(text: str) -> None:
    assert of_seed_text(text, DIGEST) == Findings((), (DigestOutcome.UNVERIFIABLE,))
    assert of_seed_text(text, sha256(text)).digests == ("match",)


def test_a_call_error_shows_in_which_way_it_is_weak() -> None:
    assert found({"tools.calls.0.error": artifact("hash")}) == [("call_error_hash_only", "tools.calls.c.error")]
    assert found({"tools.calls.0.error": artifact("unavailable", "unknown")}) == [
        ("call_error_unavailable", "tools.calls.c.error")
    ]
    for provenance in ("declared", "mapped", "unknown"):
        assert found({"tools.calls.0.error": artifact("value", provenance)}) == [
            ("call_error_unproven", "tools.calls.c.error")
        ]
    assert found({"tools.calls.0.error": artifact("absent", "declared")}) == []
    assert found({"tools.calls.0.error": artifact("value")}) == []


@pytest.mark.parametrize("model_id", ["n", "p/n", None, ""])
def test_a_model_that_agrees_or_is_unknown_is_no_mismatch(model_id: str | None) -> None:
    assert found({}, model_id) == []


@pytest.mark.parametrize("model_id", ["N", "p", "q/n", "n-2026-01-01"])
def test_a_fingerprint_that_names_another_model_is_a_mismatch(model_id: str) -> None:
    assert found({}, model_id) == [("model_mismatch", "model.name")]


def test_a_manifest_without_model_name_or_provider_is_compared_by_what_it_has() -> None:
    assert found({"model.name": REMOVED}, "other") == []
    assert found({"model.provider": REMOVED}, "n") == []
    assert found({"model.provider": REMOVED}, "p/n") == [("model_mismatch", "model.name")]


def test_findings_come_by_code_then_in_the_order_of_the_sweep_each_once() -> None:
    wrong = {**artifact("value"), "sha256": DIGEST}
    weak = artifact("hash", "mapped")
    changes = {
        "tools.definitions": [
            {"name": "t", "definition": artifact("value")},
            {"name": "t", "definition": wrong},
            {"name": "t", "definition": wrong},
        ],
        "tools.calls": [
            call("b", output=wrong, error=wrong),
            call("a", error=artifact("unavailable")),
            call("a", error=weak),
            call("a", error=weak),
        ],
        "prompts.input": wrong,
    }
    assert found(changes, "other") == [
        ("digest_mismatch", "prompts.input"),
        ("digest_mismatch", "tools.definitions.t"),
        ("digest_mismatch", "tools.calls.b.output"),
        ("digest_mismatch", "tools.calls.b.error"),
        ("call_error_hash_only", "tools.calls.a.error"),
        ("call_error_unavailable", "tools.calls.a.error"),
        ("call_error_unproven", "tools.calls.a.error"),
        ("model_mismatch", "model.name"),
        ("duplicate_call_id", "tools.calls.a"),
        ("duplicate_tool_name", "tools.definitions.t"),
    ]
    assert [code for code, _ in found(changes, "other")] == sorted(
        (code for code, _ in found(changes, "other")), key=codes_of(Kind.FINDING).index
    )
    assert len(find(parsed(edited(exact(), changes)), None).digests) == 5


def test_a_value_captured_by_hash_is_not_checked_against_itself() -> None:
    assert find(parsed(edited(exact(), {"model.seed": artifact("hash")})), None).digests == ()


def test_the_report_does_not_know_the_findings() -> None:
    assert "digest_mismatch" not in json.dumps(grade(parsed(edited(exact(), {"model.seed.sha256": DIGEST}))).as_dict())
