"""What is a valid manifest in the JSON form, and what exactly is wrong with one that is not."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pytest
from fidelity_manifests import DIGEST, REMOVED, artifact, call, edited, exact, issues, parsed

from workers.processing.fidelity import RuntimeManifest, grade, parse_json


def seeded(text: str) -> str:
    """Return an exact manifest whose seed has ``text`` as the JSON text of its value."""
    return json.dumps(edited(exact(), {"model.seed.value": "@"})).replace('"@"', text)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


# Numbers.


@pytest.mark.parametrize("number", ["1e30", "1" + "0" * 30, "1.7976931348623157e308", "-0", "1" + "0" * 308, "1e-999"])
def test_a_number_that_is_a_finite_double_passes(number: str) -> None:
    assert isinstance(parse_json(seeded(number)), RuntimeManifest)


@pytest.mark.parametrize("number", ["1e999", "-1e309", "9" * 400, "-" + "9" * 310, "9" * 5000, "9" * 200 + "e200"])
@pytest.mark.parametrize("place", ["{}", "[1, [{}]]", '{{"a": {{"b": {}}}}}'])
def test_a_number_that_overflows_is_an_issue_of_its_value_at_any_depth(number: str, place: str) -> None:
    assert issues(seeded(place.format(number))) == [("/model/seed/value", "bad_number")]


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", '{"a": NaN}'])
def test_what_only_python_takes_for_json_is_not_json(constant: str) -> None:
    assert issues(seeded(constant)) == [("", "bad_json")]


def test_a_huge_number_outside_a_value_is_an_issue_of_its_field() -> None:
    huge = json.dumps(edited(exact(), {"id": "@", "version": "#"})).replace('"@"', "9" * 5000).replace('"#"', "1e999")
    assert issues(huge) == [("/version", "bad_number"), ("/id", "wrong_type")]


@pytest.mark.parametrize("version", ["2", "2.0", "2e0", "20e-1"])
def test_version_two_passes_however_the_number_is_written(version: str) -> None:
    text = json.dumps(edited(exact(), {"version": "@"})).replace('"@"', version)
    assert isinstance(parse_json(text), RuntimeManifest)


@pytest.mark.parametrize(
    ("version", "code"),
    [(True, "wrong_type"), ("2", "wrong_type"), (None, "wrong_type"), (1, "bad_literal"), (2.5, "bad_literal")],
)
def test_another_version_or_type_is_refused(version: Any, code: str) -> None:
    assert issues(edited(exact(), {"version": version})) == [("/version", code)]


# Nesting.


def test_a_value_nests_128_containers_and_no_more() -> None:
    assert isinstance(parse_json(seeded(nested(128))), RuntimeManifest)
    assert issues(seeded(nested(129))) == [("/model/seed/value", "too_deep")]
    assert issues(seeded('{"a":' * 129 + "1" + "}" * 129)) == [("/model/seed/value", "too_deep")]


@pytest.mark.parametrize("depth", [600, 950, 100_000])
def test_a_text_nested_far_too_deep_is_an_issue_whatever_the_interpreter_could_take(depth: int) -> None:
    assert issues(seeded(nested(depth))) == [("", "too_deep")]
    assert issues(seeded("[" * depth)) == [("", "too_deep")]


def test_the_outcome_does_not_depend_on_how_deep_the_caller_stands() -> None:
    def from_depth(frames: int, text: str) -> list[tuple[str, str]]:
        return issues(text) if frames == 0 else from_depth(frames - 1, text)

    for depth in (500, 600):
        assert from_depth(250, seeded(nested(depth))) == issues(seeded(nested(depth)))
    assert sys.getrecursionlimit() >= 1000


def test_brackets_in_texts_do_not_count_as_nesting() -> None:
    assert isinstance(parse_json(seeded(json.dumps('["\\' + "[{" * 5000))), RuntimeManifest)


def test_brackets_beside_each_other_do_not_count_as_nesting() -> None:
    assert isinstance(parse_json(seeded("[" + "[],{}," * 5000 + "1]")), RuntimeManifest)


# Text.


@pytest.mark.parametrize("text", [" ", "\n", "\u0000", "\ud800", "\U0001f600", "null"])
def test_any_text_of_one_character_passes_untouched(text: str) -> None:
    assert parsed(edited(exact(), {"id": text})).id == text


@pytest.mark.parametrize("field", ["id", "source.traceId", "prompts.developer.reason", "environment.runtime.name"])
def test_an_empty_text_is_not_a_missing_one(field: str) -> None:
    assert issues(edited(exact(), {field: ""})) == [("/" + field.replace(".", "/"), "empty_text")]


def test_bytes_are_utf8_without_byte_order_mark() -> None:
    text = json.dumps(edited(exact(), {"id": "größe"}), ensure_ascii=False)
    assert isinstance(parse_json(text.encode()), RuntimeManifest)
    assert issues(b"\xef\xbb\xbf" + text.encode()) == [("", "bad_json")]
    assert issues("\ufeff" + text) == [("", "bad_json")]
    for encoding in ("latin-1", "utf-16", "utf-32"):
        assert issues(text.encode(encoding)) == [("", "bad_json")]
    assert issues(text.replace("ö", "\ud800").encode("utf-8", "surrogatepass")) == [("", "bad_json")]


@pytest.mark.parametrize("text", ["", " ", "{", "{}x", "{'a': 1}", '{"a": 01}', '{"a": "\t"}', '"' + '\\"' * 100_000])
def test_a_text_that_is_not_json_is_one_issue_of_the_root(text: str) -> None:
    assert issues(text) == [("", "bad_json")]


@pytest.mark.parametrize("text", ["[]", "null", "1", '"x"', "true"])
def test_a_json_text_that_is_no_object_is_of_the_wrong_type(text: str) -> None:
    assert issues(text) == [("", "wrong_type")]


def test_of_duplicate_keys_the_last_wins() -> None:
    text = json.dumps(exact())
    assert isinstance(parse_json('{"id": 5, "model": null, ' + text[1:]), RuntimeManifest)
    assert issues(text[:-1] + ', "id": 5}') == [("/id", "wrong_type")]


# Times and digests.


@pytest.mark.parametrize(
    "time_text",
    ["2026-07-14T12:00Z", "0000-02-29T00:00:00Z", "2000-02-29T23:59:59.0Z", "9999-12-31T23:59:59.123456789012Z"],
)
def test_a_real_utc_time_passes(time_text: str) -> None:
    assert parsed(edited(exact(), {"capturedAt": time_text})).captured_at == time_text


@pytest.mark.parametrize(
    "time_text",
    [
        "",
        "2026-07-14",
        "2026-07-14T12Z",
        "2026-07-14T12:00",
        "2026-07-14T12:00:00+00:00",
        "2026-07-14t12:00:00Z",
        "2026-07-14T12:00:00z",
        "2026-07-14 12:00:00Z",
        "2026-07-14T12:00.5Z",
        "2026-07-14T12:00:00.Z",
        "2026-07-14T12:00:00,5Z",
        "2026-07-14T24:00:00Z",
        "2026-07-14T12:60:00Z",
        "2026-07-14T12:00:60Z",
        "2026-07-14T12:00:00Z\n",
        " 2026-07-14T12:00:00Z",
        "2026-07-14T12:00:0٣Z",
        "٢026-07-14T12:00:00Z",
        "2026-00-14T12:00:00Z",
        "2026-13-14T12:00:00Z",
        "2026-07-00T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "1900-02-29T12:00:00Z",
        "+12026-07-14T12:00:00Z",
        "02026-07-14T12:00:00Z",
    ],
)
def test_what_is_no_real_utc_time_is_refused(time_text: str) -> None:
    assert issues(edited(exact(), {"capturedAt": time_text})) == [("/capturedAt", "bad_timestamp")]


def test_a_digest_keeps_its_case() -> None:
    mixed = "aB" * 32
    assert parsed(edited(exact(), {"source.sourceHash": mixed})).source.source_hash == mixed


@pytest.mark.parametrize("digest", ["", "a" * 63, "a" * 65, "g" * 64, f"sha256:{DIGEST}", f" {DIGEST}", f"{DIGEST}\n"])
def test_what_is_not_64_hexadecimal_digits_is_no_digest(digest: str) -> None:
    assert issues(edited(exact(), {"source.sourceHash": digest})) == [("/source/sourceHash", "bad_digest")]


# Closed objects, null, enums.


@pytest.mark.parametrize("key", ["zzz", "__proto__", "toString", "constructor", "Format", "traceId ", ""])
@pytest.mark.parametrize(
    "place", ["", "source", "model.seed", "tools.definitions.0", "tools.calls.0", "environment.runtime", "sideEffects"]
)
def test_every_object_is_closed(key: str, place: str) -> None:
    path = f"{place}.{key}" if place else key
    assert issues(edited(exact(), {path: 1})) == [("/" + path.replace(".", "/"), "unknown_field")]


def test_python_names_are_no_aliases_of_the_fields() -> None:
    assert issues(edited(exact(), {"captured_at": "x"})) == [("/captured_at", "unknown_field")]


def test_the_inside_of_a_value_is_free() -> None:
    value = {"capture": None, "__proto__": 1, "\ud800": "\udfff", "value": {"": [None, True]}}
    assert isinstance(parse_json(json.dumps(edited(exact(), {"prompts.input.value": value}))), RuntimeManifest)


def test_a_value_may_be_null_but_must_exist() -> None:
    assert isinstance(parse_json(json.dumps(edited(exact(), {"model.seed.value": None}))), RuntimeManifest)
    assert issues(edited(exact(), {"model.seed.value": REMOVED})) == [("/model/seed/value", "missing")]


@pytest.mark.parametrize(
    "field",
    [
        "format",
        "id",
        "capturedAt",
        "source",
        "source.traceId",
        "source.sourceHash",
        "source.captureMethod",
        "prompts.input",
        "model.seed.sha256",
        "model.seed.provenance",
        "model.seed.capture",
        "tools.definitions",
        "tools.definitions.0",
        "tools.calls.0.error",
        "tools.callsComplete",
        "retrieval.corpus",
        "environment.runtime",
        "environment.runtime.version",
        "sideEffects.notes",
    ],
)
def test_null_never_means_missing(field: str) -> None:
    assert issues(edited(exact(), {field: None})) == [("/" + field.replace(".", "/"), "wrong_type")]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("source.provenance", "Observed", "bad_enum"),
        ("source.provenance", "\ud800", "bad_enum"),
        ("source.provenance", ["observed"], "wrong_type"),
        ("tools.replayMode", "rerun", "bad_enum"),
        ("retrieval.replayMode", "execute", "bad_enum"),
        ("sideEffects.network", "sandboxed", "bad_enum"),
        ("tools.callsComplete", "true", "bad_enum"),
        ("tools.callsComplete", 1, "wrong_type"),
        ("tools.callsComplete", 0.0, "wrong_type"),
        ("format", "engram.replay-runtime ", "bad_literal"),
        ("tools.definitions", {}, "wrong_type"),
        ("tools.calls", "", "wrong_type"),
        ("model", [], "wrong_type"),
        ("prompts.input", "text", "wrong_type"),
        ("prompts.input.capture", "hashed", "bad_enum"),
        ("prompts.input.capture", {}, "wrong_type"),
        ("prompts.input.capture", REMOVED, "missing"),
        ("environment", REMOVED, "missing"),
    ],
)
def test_a_bad_field_is_one_issue_with_its_code(field: str, value: Any, code: str) -> None:
    assert issues(edited(exact(), {field: value})) == [("/" + field.replace(".", "/"), code)]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({**artifact("hash"), "algorithm": "SHA256"}, [("algorithm", "bad_literal")]),
        ({**artifact("hash"), "value": 1}, [("value", "unknown_field")]),
        ({**artifact("absent"), "sha256": DIGEST}, [("sha256", "unknown_field")]),
        (
            {**artifact("value"), "reason": "r", "algorithm": "sha256"},
            [("reason", "unknown_field"), ("algorithm", "unknown_field")],
        ),
        (
            {"capture": "hash", "provenance": "seen"},
            [("provenance", "bad_enum"), ("algorithm", "missing"), ("sha256", "missing")],
        ),
        ({"capture": "other", "provenance": "seen", "x": 1}, [("capture", "bad_enum"), ("provenance", "bad_enum")]),
    ],
)
def test_an_artifact_has_only_the_keys_of_its_own_form(changed: Any, expected: list[tuple[str, str]]) -> None:
    found = issues(edited(exact(), {"prompts.system": changed}))
    assert found == [(f"/prompts/system/{key}", code) for key, code in expected]


# All issues, in order.


def test_all_issues_come_in_the_order_of_the_contract_with_unknown_keys_last_in_their_object() -> None:
    broken = {
        "zzz": 1,
        **edited(
            exact(),
            {
                "sideEffects.network": "open",
                "environment.runtime": {"aaa": 1, "version": ""},
                "tools.calls": [call(), {"extra": 0, "callId": ""}],
                "tools.callsComplete": None,
                "model.provider": "",
                "id": REMOVED,
                "version": 3,
            },
        ),
    }
    assert issues(broken) == [
        ("/version", "bad_literal"),
        ("/id", "missing"),
        ("/model/provider", "empty_text"),
        ("/tools/calls/1/callId", "empty_text"),
        ("/tools/calls/1/toolName", "missing"),
        ("/tools/calls/1/input", "missing"),
        ("/tools/calls/1/output", "missing"),
        ("/tools/calls/1/extra", "unknown_field"),
        ("/tools/callsComplete", "wrong_type"),
        ("/environment/runtime/name", "missing"),
        ("/environment/runtime/version", "empty_text"),
        ("/environment/runtime/aaa", "unknown_field"),
        ("/sideEffects/network", "bad_enum"),
        ("/zzz", "unknown_field"),
    ]  # fmt: skip


def test_an_empty_object_misses_every_required_field_in_order() -> None:
    assert issues({}) == [
        (f"/{key}", "missing")
        for key in (
            "format", "version", "id", "capturedAt", "source", "prompts",
            "model", "tools", "retrieval", "environment", "sideEffects",
        )
    ]  # fmt: skip


def test_unknown_keys_are_escaped_as_json_pointers() -> None:
    assert issues(edited(exact(), {"a/b~c": 1})) == [("/a~1b~0c", "unknown_field")]


def test_an_unknown_key_that_is_not_utf8_hides_no_other_issue() -> None:
    broken = edited(exact(), {"source.\ud800/": 1, "source.provenance": "\udfff", "\x00key:a": 1, "id": 5})
    assert issues(broken) == [
        ("/id", "wrong_type"),
        ("/source/provenance", "bad_enum"),
        ("/source/\ud800~1", "unknown_field"),
        ("/\x00key:a", "unknown_field"),
    ]


def test_an_unknown_key_named_like_an_artifact_keeps_its_path() -> None:
    assert issues(edited(exact(), {"input": {"value": {"x": 1}}, "model.output": 1})) == [
        ("/model/output", "unknown_field"),
        ("/input", "unknown_field"),
    ]


def test_issues_hold_no_values() -> None:
    assert "secret" not in str(
        parse_json(json.dumps(edited(exact(), {"source.sourceHash": "secret", "version": "secret"})))
    )


# Size.


def test_a_manifest_of_thousands_of_calls_is_read_and_graded_in_linear_time() -> None:
    many = 20_000
    calls = [call("same", "t", output=artifact("value", "mapped")) for _ in range(many)]
    calls += [call(f"c{number}", f"t{number}") for number in range(many)]
    text = json.dumps(edited(exact(), {"tools.calls": calls}))
    started = time.process_time()
    manifest = parse_json(text)
    assert isinstance(manifest, RuntimeManifest)
    assert len(grade(manifest).missing_evidence) == 2
    assert time.process_time() - started < 20


def test_thousands_of_issues_are_all_collected_in_linear_time() -> None:
    started = time.process_time()
    assert len(issues(edited(exact(), {"tools.calls": [{} for _ in range(10_000)]}))) == 40_000
    assert time.process_time() - started < 20
