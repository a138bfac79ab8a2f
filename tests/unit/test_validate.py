"""``engram-stream validate``: what it reads, what it says, how it exits."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from serde_builders import field_of, small_turn, turn_schema, write

from workers.admin.validation import WARNINGS, YEAR_2000, Warn
from workers.cli import cli
from workers.serde.schemas import load_ids
from workers.serde.wire_format import frame
from workers.testing.golden import Golden, golden_payloads

GOLDEN = [golden for golden in golden_payloads() if golden.subject in ("turns", "state-writes")]


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["validate", *map(str, arguments)], input=stdin)


def rows(*arguments: object, stdin: bytes | None = None) -> list[dict[str, Any]]:
    result = run("--format=jsonl", *arguments, stdin=stdin)
    found = [json.loads(line) for line in result.stdout.splitlines()]
    letters = any(row["status"] == "dead_letter" for row in found)
    assert result.exit_code == (3 if letters else 0), result.output
    return found


def in_file(path: Path, *records: object) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


def judged(tmp_path: Path, record: object, *options: object) -> dict[str, Any]:
    [row] = rows(*options, in_file(tmp_path / "r.json", record))
    del row["source"]
    return row


def golden_turn(name: str) -> dict[str, Any]:
    return copy.deepcopy(next(golden.record for golden in GOLDEN if (golden.subject, golden.name) == ("turns", name)))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"{golden.subject}-{golden.name}")
def test_a_golden_payload_is_ok_in_each_of_its_forms(golden: Golden, tmp_path: Path) -> None:
    bare = golden.path
    framed = tmp_path / "framed.bin"
    framed.write_bytes(frame(load_ids()[golden.subject][golden.version].id, golden.payload))
    stored = in_file(tmp_path / "stored.json", {"value_base64": base64.b64encode(framed.read_bytes()).decode()})
    subject = f"--subject={golden.subject}"
    results = [rows(subject, bare.with_suffix(".json")), rows(subject, framed), rows(subject, stored)]
    results.append(rows(subject, "--bare", bare))
    assert [row["status"] for [row] in results] == ["ok"] * 4
    assert len({tuple(row["warnings"]) for [row] in results}) == 1


def test_every_record_of_every_file_gets_a_row_that_says_where_it_stands(tmp_path: Path) -> None:
    lines = in_file(tmp_path / "turns.jsonl", small_turn(), small_turn(turn_id=""), small_turn(turn_id="t-8"))
    single = in_file(tmp_path / "one.json", small_turn())
    value = tmp_path / "value.avro"
    value.write_bytes(b"\x00\x00\x00\x00")
    found = rows(lines, single, value)
    assert [(row["source"], row["status"], row.get("reason"), row.get("detail")) for row in found] == [
        (f"{lines}:1", "ok", None, None),
        (f"{lines}:2", "dead_letter", "invalid_record", "turn_id"),
        (f"{lines}:3", "ok", None, None),
        (f"{single}:1", "ok", None, None),
        (str(value), "dead_letter", "truncated_frame", None),
    ]
    assert list(found[1]) == ["source", "status", "reason", "detail", "warnings"]


def test_lines_come_from_stdin_too() -> None:
    stdin = "\n".join(json.dumps(small_turn(turn_id=turn_id)) for turn_id in ("t-1", "t-2")).encode()
    assert [row["source"] for row in rows("-", stdin=stdin)] == ["-:1", "-:2"]


@pytest.mark.parametrize(
    ("change", "detail", "expected"),
    [
        ({"tenant": None}, "tenant", "string, got null"),
        ({"assembled_at": "2026-09-21T14:13:00Z"}, "assembled_at", "long (timestamp-millis), got text"),
        ({"assembled_at": 2**63}, "assembled_at", "long (timestamp-millis), got integer out of range"),
        ({"turn_index": "1"}, "turn_index", "long, got text"),
        ({"turn_index": 1.0}, "turn_index", "long, got decimal number"),
        ({"turn_index": True}, "turn_index", "long, got boolean"),
        ({"producer": {}}, "producer.service", "string, got nothing"),
        ({"status": "done"}, "status", "one of completed, error"),
        ({"status": 7}, "status", "one of completed, error, got integer"),
        ({"user_key": "\ud800"}, "user_key", "string, got text that is not Unicode"),
        ({"fingerprint": {"summary_depth": 2**31}}, "fingerprint.summary_depth", "int, got integer out of range"),
        ({"fingerprint": {"state_counts": {"facts": "1"}}}, "fingerprint.state_counts", "long, got text in an item"),
        (
            {"fingerprint": {"not_applicable": ["mood", 1]}},
            "fingerprint.not_applicable",
            "string, got integer in an item",
        ),
        ({"fingerprint": {"state_counts": [1]}}, "fingerprint.state_counts", "map, got array"),
        ({"fingerprint": []}, "fingerprint", "record, got array"),
        (
            {"content": {"memories": [{"id": "m"}, {"store": "s"}], "events": []}},
            "content.memories.id",
            "string, got nothing",
        ),
    ],
)
def test_a_record_that_no_serializer_writes_is_invalid_and_names_its_field_and_both_types(
    change: dict[str, Any], detail: str, expected: str, tmp_path: Path
) -> None:
    row = judged(tmp_path, small_turn(**change))
    found = {"reason": "invalid_record", "detail": detail, "expected": expected}
    assert row == {"status": "dead_letter", **found, "warnings": []}
    text = run(tmp_path / "r.json").stdout
    assert f"invalid_record at {detail}: expected {expected}\n" in text


def test_what_is_left_out_takes_its_default_and_what_no_schema_has_is_warned_of(tmp_path: Path) -> None:
    record = small_turn(assembledAt=1, producer={"service": "chat", "serivce": "x"})
    warnings = judged(tmp_path, record)["warnings"]
    assert warnings[:2] == ["unknown_field:assembledAt", "unknown_field:producer.serivce"]
    assert warnings[2:] == judged(tmp_path, small_turn())["warnings"]


def test_a_complete_turn_has_no_warnings_and_each_shortcoming_has_one(tmp_path: Path) -> None:
    turn = golden_turn("full")
    assert judged(tmp_path, turn)["warnings"] == []
    turn["fingerprint"] |= {"model_id": "latest", "moderation_version": None, "not_applicable": ["mood"]}
    turn["manifest"]["capturedAt"] = "yesterday"
    turn["producer"]["region"] = None
    assert judged(tmp_path, turn)["warnings"] == [
        "manifest_invalid:bad_timestamp",
        "incomplete:model_id:alias",
        "incomplete:moderation_version:null",
        "tier2_missing:region",
        "unknown_attestation",
    ]


@pytest.mark.parametrize(
    ("times", "warnings"),
    [
        ((1_790_000_000, None), ["implausible_time:assembled_at"]),
        ((None, 1_790_000_000), ["implausible_time:completed_at"]),
        ((1_790_000_000, 1_790_000_001), ["implausible_time:assembled_at", "implausible_time:completed_at"]),
        ((YEAR_2000, YEAR_2000), []),
        ((YEAR_2000 + 1, YEAR_2000), ["completed_before_assembled"]),
    ],
)
def test_seconds_for_milliseconds_and_an_end_before_the_start_are_warned_of(
    times: tuple[int | None, int | None], warnings: list[str], tmp_path: Path
) -> None:
    row = judged(tmp_path, small_turn(assembled_at=times[0], completed_at=times[1]))
    assert [code for code in row["warnings"] if "time" in code or "before" in code] == warnings


def test_the_text_says_where_a_manifest_breaks_its_contract_and_only_for_its_own_record(tmp_path: Path) -> None:
    turn = golden_turn("full")
    turn["manifest"]["capturedAt"] = "yesterday"
    key = base64.b64encode(b"acme|c-42").decode()
    tombstone = {"key_base64": key, "value_base64": None}
    result = run(in_file(tmp_path / "turns.jsonl", turn, tombstone, small_turn()))
    assert result.stdout.count("manifest_invalid: bad_timestamp at /capturedAt. ") == 1
    assert "yesterday" not in result.output


def test_a_contradiction_between_manifest_and_fingerprint_is_warned_of(tmp_path: Path) -> None:
    turn = golden_turn("full")
    turn["fingerprint"]["model_id"] = "another-model-1"
    assert [code for code in judged(tmp_path, turn)["warnings"] if code.startswith("finding:")]


def test_repeats_are_told_within_a_file_and_not_between_files(tmp_path: Path) -> None:
    twice = in_file(tmp_path / "twice.jsonl", small_turn(), small_turn(assembled_at=1))
    once = in_file(tmp_path / "once.json", small_turn())
    assert [("duplicate" in row["warnings"]) for row in rows(twice, once)] == [False, True, False]


def test_a_stored_record_is_judged_by_its_key_and_headers_too(tmp_path: Path) -> None:
    value = base64.b64encode(frame(1, write(turn_schema(), small_turn()))).decode()
    key = {right: base64.b64encode(right.encode()).decode() for right in ("acme|c-42", "acme|c-43", "acme")}
    short = base64.b64encode(b"\x01short").decode()
    assert "key_mismatch" not in judged(tmp_path, {"key_base64": key["acme|c-42"], "value_base64": value})["warnings"]
    assert "key_mismatch" in judged(tmp_path, {"key_base64": key["acme|c-43"], "value_base64": value})["warnings"]
    unframed = {"value_base64": value[8:], "headers": [["__value_schema_id", short]]}
    assert judged(tmp_path, unframed)["reason"] == "bad_header_framing"
    assert judged(tmp_path, {"value_base64": None})["reason"] == "missing_key"
    assert judged(tmp_path, {"key_base64": key["acme"], "value_base64": None})["reason"] == "bad_key"
    assert judged(tmp_path, {"key_base64": key["acme|c-42"], "value_base64": None}) == {"status": "ok", "warnings": []}


def test_a_producers_own_schema_judges_json_bare_and_framed_payloads(tmp_path: Path) -> None:
    schema = turn_schema()
    field_of(schema, "turn_id")["type"] = ["null", "string"]
    schema["fields"].append({"name": "mood", "type": "string", "default": "calm"})
    own = in_file(tmp_path / "own.avsc", schema)
    payload = write(schema, small_turn(mood="calm"))
    bare, framed = tmp_path / "bare.avro", tmp_path / "framed.avro"
    bare.write_bytes(payload)
    framed.write_bytes(frame(77, payload))
    without_id = small_turn(turn_id=None)

    for options in (["--schema", own, "--bare", bare], ["--schema", own, "--schema-id=77", framed]):
        [row] = rows(*options)
        assert (row["status"], row["warnings"][0]) == ("ok", "unknown_field:mood")
    assert rows(framed)[0]["reason"] == "unknown_schema_id"
    refused = judged(tmp_path, without_id, "--schema", own)
    assert (refused["reason"], refused["detail"]) == ("schema_resolution", "turn_id")


def test_a_schema_that_workers_refuse_is_told_as_such(tmp_path: Path) -> None:
    schema = turn_schema()
    schema["fields"] = [entry for entry in schema["fields"] if entry["name"] != "turn_id"]
    row = judged(tmp_path, small_turn(), "--schema", in_file(tmp_path / "own.avsc", schema))
    assert (row["reason"], row["detail"]) == ("schema_rejected", "turn_id")
    row = judged(tmp_path, small_turn(), "--schema-id", load_ids()["fidelity"][1].id)
    assert row["reason"] == "schema_rejected"


def test_limits_and_policy_are_those_of_the_configuration(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("aliases: [example-1-2026-05-01]\n", encoding="utf-8")
    config = tmp_path / "engram.toml"
    config.write_text(f'[policy]\nfile = "{policy}"\n[serde]\ncollection_items = 2\n', encoding="utf-8")
    turn = golden_turn("content_free")
    row = judged(tmp_path, turn, "--config", config)
    assert (row["reason"], row["detail"]) == ("limit_exceeded", "fingerprint.state_counts")
    turn["fingerprint"]["state_counts"] = {"facts": 1}
    assert judged(tmp_path, turn, "--config", config)["warnings"] == ["incomplete:model_id:alias"]


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("x.json", b"{", "is not JSON"),
        ("x.jsonl", b'{"a": 1}{', "is not JSON"),
        ("x.json", b"\xff", "is not UTF-8"),
        ("x.json", b"[" * 100_000, "not JSON"),
        ("x.json", b"[]", "expected a JSON object"),
        ("x.json", b'{"value_base64": 1}', "value_base64 must be base64 or null"),
        ("x.json", b'{"value_base64": "?"}', "value_base64 must be base64 or null"),
        ("x.json", b'{"value_base64": null, "headers": {"a": null}}', "headers must be a list"),
    ],
)
def test_what_is_no_record_ends_with_1_and_says_where(name: str, content: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = run(path)
    assert result.exit_code == 1
    assert what in result.stderr
    assert f"{path}:1" in result.stderr


def test_a_line_that_is_no_record_is_told_and_the_others_are_judged(tmp_path: Path) -> None:
    good, refused = json.dumps(small_turn()), json.dumps(small_turn(turn_id=""))
    path = tmp_path / "turns.jsonl"
    path.write_text(f'{good}\n{{"a": \r\n[]\n{refused}\n', encoding="utf-8")
    after = in_file(tmp_path / "after.json", small_turn())
    result = run("--format=jsonl", path, after)
    assert result.exit_code == 1
    sources = [json.loads(line)["source"] for line in result.stdout.splitlines()]
    assert sources == [f"{path}:1", f"{path}:4", f"{after}:1"]
    assert result.stderr.splitlines() == [
        f"engram-stream: {path}:2: is not JSON: Expecting value (column 6)",
        f"engram-stream: {path}:3: expected a JSON object",
    ]
    assert run(path).stderr.splitlines()[-1] == "2 records: 1 ok, 1 dead letter; 2 could not be read"


def test_the_line_of_an_error_in_a_json_file_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "turn.json"
    path.write_text('{\n  "tenant": acme\n}\n', encoding="utf-8")
    result = run(path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{path}:2: is not JSON: Expecting value (column 13)" in result.stderr


def test_wrong_names_and_missing_files_are_told_before_anything_is_judged(tmp_path: Path) -> None:
    good = in_file(tmp_path / "good.json", small_turn())
    missing, odd = run(good, tmp_path / "none.json"), run(good, tmp_path / "a.txt")
    assert (missing.exit_code, missing.stdout) == (4, "")
    assert (odd.exit_code, odd.stdout) == (2, "")
    assert ".jsonl (one record per line)" in odd.stderr


def test_text_says_what_is_wrong_and_how_to_repair_it_without_quoting_the_record(tmp_path: Path) -> None:
    secret = "ada@example.org"
    bad = in_file(tmp_path / "bad.jsonl", small_turn(turn_id="", user_key=secret), small_turn(user_key=secret))
    result = run(bad)
    assert result.exit_code == 3
    assert "invalid_record at turn_id" in result.stdout
    assert "Fix:" in result.stdout
    assert "tier2_missing: instance_id, build_id" in result.stdout
    assert result.stderr.strip() == "2 records: 1 ok, 1 dead letter"
    assert secret not in result.output


def test_every_warning_is_explained() -> None:
    assert set(WARNINGS) == set(Warn)
