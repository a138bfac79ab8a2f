"""The Avro form: what the record holds, what a newer producer may add, and what is wrong with the rest."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from fidelity_manifests import DIGEST, MANIFEST_SCHEMA, REMOVED, artifact, call, edited, exact, parsed, through_avro

from workers.processing.fidelity import NotRepresentableError, RuntimeManifest, grade, parse_avro, to_avro


def record(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    return edited(to_avro(parsed(exact())), changes or {})


def issues(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    result = parse_avro(manifest)
    assert not isinstance(result, RuntimeManifest), "the manifest is valid"
    return [(path, code.value) for path, code in result]


def fields_of(schema: dict[str, Any], *path: str) -> list[Any]:
    """Return the list of fields of a record nested in the manifest's schema."""
    for name in path:
        [field] = [field for field in schema["fields"] if field["name"] == name]
        kind = field["type"]
        kind = next(branch for branch in kind if isinstance(branch, dict)) if isinstance(kind, list) else kind
        schema = kind["items"] if kind["type"] == "array" else kind
    found: list[Any] = schema["fields"]
    return found


def test_the_published_schema_holds_what_we_write() -> None:
    assert through_avro(record()) == record()


def test_missing_fields_are_null_and_nested_records_stay_nested() -> None:
    bare = {"retrieval.corpus": {}, "environment": {}, "source.traceId": REMOVED}
    written = to_avro(parsed(edited(exact(), bare)))
    assert written["retrieval"]["corpus"] == {"version": None, "hash": None}
    assert set(written["environment"].values()) == {None}
    assert written["source"]["traceId"] is None


def test_values_are_written_as_canonical_json() -> None:
    value = {"b": 1.0, "a": [10**30, "ö", None], "\U0001f600": 1, "\uffff": -0.0}
    written = to_avro(parsed(edited(exact(), {"model.seed.value": value})))
    assert written["model"]["seed"]["value"] == '{"a":[1e+30,"ö",null],"b":1,"\U0001f600":1,"\uffff":0}'


def test_lone_surrogates_stay_escapes_inside_a_value_and_are_refused_elsewhere() -> None:
    inside = parsed(edited(exact(), {"model.seed.value": {"\ud800": "\udfff"}}))
    written = through_avro(to_avro(inside))
    assert written["model"]["seed"]["value"] == '{"\\ud800":"\\udfff"}'
    assert isinstance(parse_avro(written), RuntimeManifest)
    with pytest.raises(NotRepresentableError, match="/tools/calls/0/callId"):
        to_avro(parsed(edited(exact(), {"tools.calls.0": call("\ud800")})))


@pytest.mark.parametrize(
    ("symbol", "calls_complete"), [("complete", True), ("incomplete", False), ("unknown", "unknown")]
)
def test_calls_complete_has_three_symbols(symbol: str, calls_complete: Any) -> None:
    manifest = parse_avro(record({"tools.callsComplete": symbol}))
    assert isinstance(manifest, RuntimeManifest)
    assert manifest.tools.calls_complete is calls_complete or manifest.tools.calls_complete == calls_complete
    assert to_avro(manifest)["tools"]["callsComplete"] == symbol


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"version": 3}, [("/version", "bad_literal")]),
        ({"id": ""}, [("/id", "empty_text")]),
        ({"source.traceId": ""}, [("/source/traceId", "empty_text")]),
        ({"capturedAt": "yesterday"}, [("/capturedAt", "bad_timestamp")]),
        ({"source.sourceHash": "abc"}, [("/source/sourceHash", "bad_digest")]),
        ({"environment.runtime": {"name": "", "version": "3"}}, [("/environment/runtime/name", "empty_text")]),
        ({"sideEffects.notes": ["a", ""]}, [("/sideEffects/notes/1", "empty_text")]),
        ({"tools.callsComplete": "true"}, [("/tools/callsComplete", "bad_enum")]),
        ({"tools.callsComplete": True}, [("/tools/callsComplete", "wrong_type")]),
        ({"model.seed.value": None}, [("/model/seed/value", "missing")]),
        ({"model.seed.reason": "r"}, [("/model/seed/reason", "unknown_field")]),
        ({"model.seed.value": ""}, [("/model/seed/value", "bad_json")]),
        ({"model.seed.value": "{"}, [("/model/seed/value", "bad_json")]),
        ({"model.seed.value": "NaN"}, [("/model/seed/value", "bad_json")]),
        ({"model.seed.value": "1 2"}, [("/model/seed/value", "bad_json")]),
        ({"model.seed.value": "\ufeff1"}, [("/model/seed/value", "bad_json")]),
        ({"model.seed.value": "1e999"}, [("/model/seed/value", "bad_number")]),
        ({"model.seed.value": "[" + "9" * 5000 + "]"}, [("/model/seed/value", "bad_number")]),
        ({"model.seed.value": "[" * 129 + "]" * 129}, [("/model/seed/value", "too_deep")]),
        ({"model.seed.value": "[" * 100_000}, [("/model/seed/value", "too_deep")]),
        ({"model.seed.value": b"1"}, [("/model/seed/value", "wrong_type")]),
        ({"model.seed.capture": "absent"}, [("/model/seed/reason", "missing"), ("/model/seed/value", "unknown_field")]),
        ({"model.seed.capture": "hash"}, [("/model/seed/sha256", "missing"), ("/model/seed/value", "unknown_field")]),
        (
            {"tools.calls.0.error": {**artifact("absent"), "sha256": DIGEST}},
            [("/tools/calls/0/error/sha256", "unknown_field")],
        ),
    ],
)
def test_what_the_schema_cannot_refuse_is_an_issue(changes: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert issues(record(changes)) == expected


@pytest.mark.parametrize("text", ["null", " [1 , 2]\n", '{"a":1,"a":1e999,"a":2}', "[" * 128 + "]" * 128, '"\\ud800"'])
def test_any_json_text_is_taken_for_a_value_canonical_or_not(text: str) -> None:
    manifest = parse_avro(record({"model.seed.value": text}))
    assert isinstance(manifest, RuntimeManifest)
    assert grade(manifest).level == "exact"


def written_by_a_newer_producer(change: Callable[[dict[str, Any]], None], changes: dict[str, Any]) -> dict[str, Any]:
    schema = copy.deepcopy(MANIFEST_SCHEMA)
    change(schema)
    return through_avro(record(changes), schema)


def test_a_field_of_a_newer_producer_is_ignored_while_null_and_named_once_set() -> None:
    def change(schema: dict[str, Any]) -> None:
        for path in ((), ("source",), ("tools", "calls"), ("model", "parameters")):
            fields_of(schema, *path).append({"name": "novel", "type": ["null", "string"], "default": None})

    silent = written_by_a_newer_producer(change, {})
    assert silent["model"]["seed"]["novel"] is None
    assert isinstance(parse_avro(silent), RuntimeManifest)
    spoken = {"novel": "x", "source.novel": "x", "tools.calls.0.novel": "x", "model.seed.novel": "x"}
    assert issues(written_by_a_newer_producer(change, spoken)) == [
        ("/source/novel", "unknown_field"),
        ("/model/seed/novel", "unknown_field"),
        ("/tools/calls/0/novel", "unknown_field"),
        ("/novel", "unknown_field"),
    ]


def test_fields_that_only_the_json_form_has_are_unknown_in_avro() -> None:
    def change(schema: dict[str, Any]) -> None:
        fields_of(schema).append({"name": "format", "type": ["null", "string"], "default": None})
        fields_of(schema, "model", "parameters").append(
            {"name": "algorithm", "type": ["null", "string"], "default": None}
        )

    implied = {"format": "engram.replay-runtime", "model.seed": {**artifact("hash"), "algorithm": "sha256"}}
    assert issues(written_by_a_newer_producer(change, implied)) == [
        ("/format", "unknown_field"),
        ("/model/seed/algorithm", "unknown_field"),
    ]
    assert isinstance(parse_avro(written_by_a_newer_producer(change, {})), RuntimeManifest)


def test_a_symbol_of_a_newer_producer_is_a_bad_enum() -> None:
    def change(schema: dict[str, Any]) -> None:
        [field] = [field for field in fields_of(schema, "source") if field["name"] == "captureMethod"]
        field["type"]["symbols"].append("hypervisor")
        [field] = [field for field in fields_of(schema, "model", "parameters") if field["name"] == "capture"]
        field["type"]["symbols"].append("encrypted")

    novel = {"source.captureMethod": "hypervisor", "model.seed.capture": "encrypted"}
    assert issues(written_by_a_newer_producer(change, novel)) == [
        ("/source/captureMethod", "bad_enum"),
        ("/model/seed/capture", "bad_enum"),
    ]


def test_a_producer_whose_schema_lacks_a_required_field_gets_it_named() -> None:
    def change(schema: dict[str, Any]) -> None:
        fields = fields_of(schema, "source")
        fields[:] = [field for field in fields if field["name"] not in ("captureMethod", "traceId")]

    old = record({"source.captureMethod": REMOVED, "source.traceId": REMOVED})
    schema = copy.deepcopy(MANIFEST_SCHEMA)
    change(schema)
    assert issues(through_avro(old, schema)) == [("/source/captureMethod", "missing")]


def test_translation_changes_no_report_of_any_form() -> None:
    for capture in ("value", "hash", "absent", "unavailable"):
        changes = {"model.seed": artifact(capture, "mapped"), "tools.calls.0.error": artifact(capture)}
        manifest = parsed(edited(exact(), changes))
        translated = parse_avro(through_avro(to_avro(manifest)))
        assert isinstance(translated, RuntimeManifest)
        assert translated == manifest
        assert json.dumps(grade(translated).as_dict()) == json.dumps(grade(manifest).as_dict())
