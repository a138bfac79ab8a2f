"""``engram-stream fidelity``: what it writes, where, and how it exits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fidelity_manifests import REMOVED, artifact, call, edited, exact, parsed

from workers.cli import cli
from workers.commands.other_codes import other_codes
from workers.processing.fidelity import grade, verdict
from workers.processing.fidelity.catalogue import CATALOGUE
from workers.processing.fingerprint import FieldState
from workers.reasons import Reason


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["fidelity", *arguments], input=stdin)


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.split("\n") if line]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(exact(), indent=2), encoding="utf-8")
    return path


def test_a_json_file_is_one_manifest_graded_with_all_texts(manifest: Path) -> None:
    manifest.write_text(json.dumps(edited(exact(), {"source.sourceHash": REMOVED})), encoding="utf-8")
    result = run("grade", "--format", "jsonl", str(manifest))
    assert result.exit_code == 0
    [row] = lines(result)
    assert row == {
        "source": f"{manifest}:1",
        "status": "graded",
        "report": grade(parsed(edited(exact(), {"source.sourceHash": REMOVED}))).as_dict(),
        "issues": [],
    }
    assert list(row["report"]) == ["manifestId", "level", "deterministic", "summary", "missingEvidence", "caveats"]
    assert list(row["report"]["missingEvidence"][0]) == ["field", "label", "impact", "reason", "code"]


def test_lines_end_at_line_feeds_only_and_an_invalid_one_exits_with_3(tmp_path: Path) -> None:
    odd = edited(exact(), {"id": "a\u2028b\u0085c"})
    path = tmp_path / "m.jsonl"
    text = (
        json.dumps(odd, ensure_ascii=False) + "\r\n" + json.dumps(exact(), separators=(",\r", ":\r")) + "\n\n{}\nnope"
    )
    path.write_bytes(text.encode())
    result = run("grade", "--format", "jsonl", str(path))
    assert result.exit_code == 3
    rows = lines(result)
    assert [(row["source"], row["status"]) for row in rows] == [
        (f"{path}:1", "graded"),
        (f"{path}:2", "graded"),
        (f"{path}:4", "manifest_invalid"),
        (f"{path}:5", "manifest_invalid"),
    ]
    assert rows[2]["report"] is None
    assert rows[2]["issues"][0] == {"path": "/format", "code": "missing"}
    assert rows[3]["issues"] == [{"path": "", "code": "bad_json"}]


def test_a_dash_reads_json_lines_and_files_keep_their_order(manifest: Path) -> None:
    two = (json.dumps(exact()) + "\n") * 2
    result = run("grade", "--format", "json", "-", str(manifest), stdin=two.encode())
    assert result.exit_code == 0
    assert [row["source"] for row in json.loads(result.stdout)] == ["-:1", "-:2", f"{manifest}:1"]


def test_text_tells_every_gap_and_escapes_what_could_steer_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    evil = call("\x1b[31m\ud800ö", input=artifact("value", "mapped"))
    path.write_text(json.dumps(edited(exact(), {"tools.calls.0": evil})), encoding="utf-8")
    result = run("grade", str(path))
    assert result.exit_code == 0
    assert f"{path}: controlled".replace(":", ":1:", 1) in result.stdout
    assert "tools.calls.\\x1b[31m\\ud800ö.input: artifact_not_observed" in result.stdout
    assert "\x1b" not in result.stdout
    assert "1 controlled" in result.stderr


def test_a_file_that_does_not_exist_exits_with_4_before_anything_is_written(manifest: Path, tmp_path: Path) -> None:
    result = run("grade", str(manifest), str(tmp_path / "none.json"))
    assert (result.exit_code, result.stdout) == (4, "")
    assert "none.json" in result.stderr


def test_what_cannot_be_read_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    assert run("grade", str(tmp_path / "folder.json")).exit_code == 1


def test_a_name_that_does_not_tell_the_format_is_wrong_usage(tmp_path: Path) -> None:
    assert run("grade", str(tmp_path / "m.txt")).exit_code == 2
    assert run("grade").exit_code == 2


def test_a_code_is_explained_with_its_impact_and_fix() -> None:
    result = run("explain", "trace_id_missing")
    assert result.exit_code == 0
    for part in ("trace_id_missing", "reduces_control", "Fix: Set source.traceId"):
        assert part in result.stdout
    assert json.loads(run("explain", "--format", "json", "bad_enum").stdout)["kind"] == "issue"


@pytest.mark.parametrize(
    ("code", "kind", "said", "page"),
    [
        ("invalid_record", "dead-letter reason, class producer", "Fix: Send the field", "docs/reasons.md"),
        ("alias", "completeness state", "one of aliases", "docs/concepts/completeness.md"),
        ("manifest_invalid", "grading status", "breaks its contract", "docs/concepts/replay-fidelity.md"),
    ],
)
def test_words_of_letters_and_verdicts_are_explained_with_their_page(
    code: str, kind: str, said: str, page: str
) -> None:
    result = run("explain", code)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{code}: {kind}\n")
    assert said in result.stdout
    assert result.stdout.endswith(f"See {page}\n")
    assert json.loads(run("explain", "--format", "json", code).stdout)["page"] == page


def test_every_word_of_a_letter_or_verdict_has_one_explanation_and_its_page_exists() -> None:
    others = other_codes()
    assert set(others) == {*Reason, *FieldState, *verdict.Status}
    assert not set(others) & set(CATALOGUE)
    root = Path(__file__).parents[3]
    assert all((root / entry.page).is_file() for entry in others.values())


@pytest.mark.parametrize(
    ("code", "near"),
    [
        ("trace_id_mising", "trace_id_missing"),
        ("seed", "seed_not_reconstructable"),
        ("invalid_recrod", "invalid_record"),
        ("absent", "absent_in_writer_schema"),
    ],
)
def test_an_unknown_code_exits_with_4_and_names_near_ones(code: str, near: str) -> None:
    result = run("explain", code)
    assert (result.exit_code, result.stdout) == (4, "")
    assert near in result.stderr
