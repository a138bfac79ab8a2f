"""Every published case of replay fidelity, in the JSON form and, where it can hold the case, in the Avro form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from fidelity_manifests import through_avro

from workers.processing.fidelity import (
    RULES_EDITION,
    NotRepresentableError,
    RuntimeManifest,
    grade,
    parse_avro,
    parse_json,
    to_avro,
)
from workers.processing.fidelity.verdict import judge_manifest


def _load(name: str) -> list[Any]:
    text = (Path(__file__).parent / "data" / name).read_text(encoding="utf-8")
    return [
        pytest.param(json.loads(line), id=f"{name.removesuffix('.jsonl')}-{number}")
        for number, line in enumerate(text.split("\n"), start=1)
        if line
    ]


CASES: Final = [*_load("fidelity-cases.jsonl"), *_load("fidelity-edge-cases.jsonl")]
# The other 38 valid cases hold lone surrogates; the other 63 invalid ones break the schema itself.
VALID_IN_AVRO: Final = 590
INVALID_IN_AVRO: Final = 36


class NotInAvroError(Exception):
    """The Avro form cannot hold what the case says."""


def as_record(document: Any) -> dict[str, Any]:
    """Translate a JSON manifest into an Avro record field by field, judging nothing that Avro can hold."""
    if not isinstance(document, dict) or document.get("format") != "engram.replay-runtime":
        raise NotInAvroError
    record = {key: _translated(key, value) for key, value in document.items() if key != "format"}
    if isinstance(record.get("version"), bool):
        raise NotInAvroError
    if record.get("version") == 2.0:
        record["version"] = 2
    try:
        return through_avro(record)
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        raise NotInAvroError from error


def _translated(key: str, value: Any) -> Any:
    if value is None or (key in ("definitions", "calls", "notes") and not isinstance(value, list)):
        raise NotInAvroError
    if isinstance(value, list):
        return [_translated("", item) for item in value]
    if isinstance(value, dict) and "capture" in value:
        return _artifact(value)
    if isinstance(value, dict):
        return {name: _translated(name, item) for name, item in value.items()}
    if key == "callsComplete":
        return {True: "complete", False: "incomplete"}.get(value, value) if isinstance(value, bool) else value
    return value


def _artifact(value: dict[str, Any]) -> dict[str, Any]:
    fields = {name: item for name, item in value.items() if name != "value"}
    if value["capture"] == "hash" and fields.pop("algorithm", None) != "sha256":
        raise NotInAvroError
    if any(item is None for item in fields.values()):
        raise NotInAvroError
    if "value" in value:
        fields["value"] = json.dumps(value["value"])
    return fields


# The digest of all verdicts' replay parts, by edition of the rules: when it changes, the edition has to rise.
GOLDEN: Final = {"replay-runtime-2/1": "8c188b09a611342ab2e61c05b2167ecb4c5020ce5a2ecb96b0a9706cd8c22e36"}


def _held_by_avro() -> Iterator[Any]:
    for param in CASES:
        [case] = param.values
        try:
            record = as_record(json.loads(case["manifest_json"]))
        except NotInAvroError:
            continue
        yield pytest.param(record, case, id=param.id)


IN_AVRO: Final = list(_held_by_avro())


def _verdict(manifest: Any) -> dict[str, Any]:
    if not isinstance(manifest, RuntimeManifest):
        return {"valid": False}
    report = grade(manifest)
    return {
        "valid": True,
        "level": report.level.value,
        "deterministic": report.deterministic,
        "missing": [[gap.field, gap.impact.value] for gap in report.missing_evidence],
        "caveats": list(report.caveats),
    }


def _expected(case: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key not in ("name", "manifest_json")}


def test_no_case_was_lost() -> None:
    assert len(CASES) == 727


@pytest.mark.parametrize("case", CASES)
def test_a_case_in_the_json_form_gets_its_verdict(case: dict[str, Any]) -> None:
    assert _verdict(parse_json(case["manifest_json"])) == _expected(case)
    assert _verdict(parse_json(case["manifest_json"].encode("utf-8", "surrogatepass"))) == _expected(case)


@pytest.mark.parametrize(("record", "case"), IN_AVRO)
def test_a_case_that_avro_can_hold_gets_the_same_verdict(record: dict[str, Any], case: dict[str, Any]) -> None:
    assert _verdict(parse_avro(record)) == _expected(case)


def test_avro_holds_as_many_cases_as_it_should() -> None:
    valid = [param.values[1]["valid"] for param in IN_AVRO]
    assert (valid.count(True), valid.count(False)) == (VALID_IN_AVRO, INVALID_IN_AVRO)


@pytest.mark.parametrize("case", [param for param in CASES if param.values[0]["valid"]])
def test_a_valid_case_survives_our_own_translation_into_avro(case: dict[str, Any]) -> None:
    manifest = parse_json(case["manifest_json"])
    assert isinstance(manifest, RuntimeManifest)
    try:
        record = through_avro(to_avro(manifest))
    except NotRepresentableError:
        assert "\\ud" in case["manifest_json"]
        return
    translated = parse_avro(record)
    assert isinstance(translated, RuntimeManifest)
    assert grade(translated) == grade(manifest)


def test_equal_manifests_give_equal_verdicts_within_one_edition_of_the_rules() -> None:
    digest = hashlib.sha256()
    for param in IN_AVRO:
        digest.update(json.dumps(judge_manifest(param.values[0], "model-1").fields).encode())
    assert GOLDEN[RULES_EDITION] == digest.hexdigest(), "raise RULES_EDITION, and add the digest of the new edition"
