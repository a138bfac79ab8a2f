"""The schemas as a contract: versions read each other, golden bytes stay, broken edits are refused with the way out."""

from __future__ import annotations

import copy
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import fastavro
import pytest
import yaml
from click.testing import CliRunner
from serde_builders import field_of, record_of

from workers.admin.schemas import check
from workers.commands.schemas import command
from workers.processing.state_write_kinds import KINDS
from workers.reasons import Rejection
from workers.resources import resource_folder
from workers.serde.admission import WriterSchema, admit
from workers.serde.avro_schema import plain
from workers.serde.decoder import decode
from workers.serde.limits import Limits
from workers.serde.schemas import SUBJECTS, Schema, digest, load, versions
from workers.serde.validation import validate_state_write, validate_turn
from workers.serde.wire_format import Frame
from workers.testing.golden import Golden, golden_payloads

GOLDEN = list(golden_payloads())
NULLABLE = {"name": "later", "type": ["null", "string"], "default": None}


def name_of(golden: Golden) -> str:
    return f"{golden.subject}-v{golden.version}-{golden.name}"


@pytest.mark.parametrize("golden", GOLDEN, ids=name_of)
def test_a_golden_record_is_still_written_as_the_same_bytes(golden: Golden) -> None:
    assert golden.encode() == golden.payload, "run `python -m workers.testing.golden`, or release a new version"


@pytest.mark.parametrize("golden", GOLDEN, ids=name_of)
def test_workers_decode_golden_bytes_of_every_version(golden: Golden) -> None:
    writer = admit(json.dumps(load(golden.subject, golden.version)), golden.subject, Limits(), 1)
    assert isinstance(writer, WriterSchema)
    record = decode(Frame(1, golden.payload), writer, Limits())
    assert not isinstance(record, Rejection)
    assert {name: record[name] for name in golden.record} == golden.record
    judge = {"turns": validate_turn, "state-writes": validate_state_write}.get(golden.subject)
    assert judge is None or judge(record) is None


@pytest.mark.parametrize("golden", GOLDEN, ids=name_of)
def test_other_consumers_read_golden_bytes_with_every_version(golden: Golden) -> None:
    written = parsed(load(golden.subject, golden.version))
    for version in versions(golden.subject):
        reader = parsed(load(golden.subject, version))
        assert fastavro.schemaless_reader(io.BytesIO(golden.payload), written, reader) is not None


def parsed(schema: Schema) -> Schema:
    names = cast("Schema", plain(schema))
    return cast("Schema", fastavro.parse_schema(with_defaults(schema, names)))


def with_defaults(schema: Any, reduced: Any) -> Any:
    """Give the fields of ``reduced`` the defaults of ``schema`` again, which a reader needs."""
    if isinstance(schema, list):
        return [with_defaults(one, other) for one, other in zip(schema, reduced, strict=True)]
    if not isinstance(schema, dict):
        return reduced
    result = {key: with_defaults(schema[key], value) for key, value in reduced.items()}
    return result | ({"default": schema["default"]} if "default" in schema else {})


def test_every_subject_has_golden_payloads_and_every_payload_of_state_writes_one() -> None:
    assert {(golden.subject, golden.version) for golden in GOLDEN} == {
        (subject, version) for subject in SUBJECTS for version in versions(subject)
    }
    kinds = {golden.record["kind"] for golden in GOLDEN if golden.subject == "state-writes"}
    assert {KINDS[kind].payload for kind in kinds} == {kind.payload for kind in KINDS.values()}


def test_the_shipped_schemas_are_in_order() -> None:
    done = CliRunner().invoke(command, ["check"])
    assert done.exit_code == 0, done.output
    assert [problem for report in check() for problem in report.problems] == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "schemas"
    shutil.copytree(resource_folder("schemas"), root)
    return root


def publish(root: Path, subject: str, change: Callable[[Schema], object]) -> None:
    """Write the next version of ``subject``: the latest with ``change`` applied, and ids for it."""
    version = versions(subject, root)[-1] + 1
    schema = copy.deepcopy(load(subject, version - 1, root))
    change(schema)
    (root / subject / f"v{version}.avsc").write_text(json.dumps(schema), encoding="utf-8")
    ids = yaml.safe_load((root / "ids.yaml").read_text(encoding="utf-8"))
    guid = f"00000000-0000-4000-8000-{version:06}{SUBJECTS.index(subject):06}"
    ids[f"{subject}-value"][version] = {"id": 1_000 + 10 * version + SUBJECTS.index(subject), "guid": guid}
    (root / "ids.yaml").write_text(yaml.safe_dump(ids), encoding="utf-8")


def problems(root: Path) -> list[str]:
    return [str(problem) for report in check(root) for problem in report.problems]


def insert(path: str, at: int, field: dict[str, Any]) -> Callable[[Schema], object]:
    """Return a change that inserts ``field`` at position ``at`` of the record at ``path``."""

    def change(schema: Schema) -> None:
        fields = (record_of(field_of(schema, path)) if path else schema)["fields"]
        fields.insert(at if at >= 0 else len(fields) + 1 + at, dict(field))

    return change


def edit(path: str, **changes: Any) -> Callable[[Schema], object]:
    """Return a change that updates the declaration of the field at ``path``."""
    return lambda schema: field_of(schema, path).update(changes)


def edit_enum(path: str, **changes: Any) -> Callable[[Schema], object]:
    """Return a change that updates the enum of the field at ``path``."""

    def change(schema: Schema) -> None:
        declared = field_of(schema, path)["type"]
        enum = (
            next(branch for branch in declared if isinstance(branch, dict)) if isinstance(declared, list) else declared
        )
        enum.update(changes)

    return change


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_nullable_field_in_its_place_is_a_good_next_version(folder: Path, subject: str) -> None:
    publish(folder, subject, insert("", -2 if subject == "turns" else -1, NULLABLE))
    assert problems(folder) == []


def test_the_message_says_what_where_and_what_to_do(folder: Path) -> None:
    publish(folder, "turns", insert("", 0, {"name": "region", "type": "string"}))
    assert problems(folder)[-1] == (
        "schemas/turns/v2.avsc: field `region` has no default, and the other version has no such field, "
        "so readers of v2 fail on data of v1.\n"
        'Make it nullable with `"default": null`, or publish the change as a new subject.'
    )


LEVELS = ["exact", "controlled", "partial", "unreplayable"]
BROKEN: list[tuple[str, Callable[[Schema], object], str]] = [
    ("turns", insert("", -1, NULLABLE), "`later` stands behind `content`"),
    ("turns", insert("producer", 0, {"name": "pod", "type": "string"}), "`producer.pod` has no default"),
    ("turns", insert("", 0, {"name": "n", "type": ["string", "null"], "default": "x"}), "`n` is new and not nullable"),
    (
        "turns",
        insert("manifest.source", 0, {"name": "runId", "type": "string"}),
        "`manifest.source.runId` has no default",
    ),
    (
        "turns",
        insert("fingerprint", 0, {"name": "n", "type": "int", "default": 0}),
        "defaults to something other than null",
    ),
    ("turns", insert("", 0, NULLABLE | {"type": ["null", "bytes"]}), "`later` is bytes"),
    ("turns", insert("", 0, NULLABLE | {"type": ["null", {"type": "fixed", "name": "F", "size": 4}]}), "`fixed`"),
    ("turns", insert("", 0, NULLABLE | {"type": ["null", "Producer", "Content"]}), "not defined before"),
    (
        "turns",
        insert("", -1, NULLABLE | {"type": ["null", "Producer", "StateFingerprint"]}),
        "`later` is a union of several records",
    ),
    (
        "turns",
        insert(
            "",
            0,
            NULLABLE
            | {"type": ["null", {"type": "record", "name": "N", "fields": [NULLABLE | {"type": ["null", "N"]}]}]},
        ),
        "recursive",
    ),
    ("turns", lambda schema: schema["fields"].pop(3), "`turn_index` is gone"),
    ("turns", edit("user_key", name="user"), "`user_key` is gone"),
    ("turns", edit("turn_index", type=["null", "string"]), "`turn_index` is"),
    ("turns", edit("turn_index", type=["null", "int"]), "`turn_index` is long in one version and read as [null, int]"),
    ("turns", edit("tenant", type=["null", "string"], default=None), "`tenant` was string and is [null, string]"),
    ("turns", edit("assembled_at", type=["null", "long"]), "`assembled_at` was [null, long (timestamp-millis)]"),
    (
        "turns",
        edit_enum("status", symbols=["completed", "error", "cancelled"]),
        "the symbol cancelled only in one version",
    ),
    (
        "turns",
        edit_enum("manifest.source.provenance", default="unknown"),
        "`manifest.source.provenance` has an enum default",
    ),
    ("fidelity", insert("", 0, NULLABLE), "`later` is new and stands before older fields"),
    ("fidelity", insert("completeness", 0, NULLABLE), "`completeness.later` is new and stands before"),
    ("fidelity", edit_enum("level", symbols=[*LEVELS, "unknown"], default="unknown"), "`level` is frozen"),
    ("fidelity", edit_enum("missing_evidence.impact", default="blocks_replay"), "`missing_evidence.impact` is frozen"),
    ("fidelity", edit_enum("status", default="graded"), "`status` has not the default `unknown`"),
    (
        "alerts",
        lambda schema: field_of(schema, "severity")["type"].pop("default"),
        "`severity` has not",
    ),
    ("state-writes", edit("kind", type={"type": "enum", "name": "K", "symbols": ["a"]}), "`kind` is an enum"),
]


@pytest.mark.parametrize(("subject", "change", "expected"), BROKEN, ids=[row[2] for row in BROKEN])
def test_a_broken_next_version_is_named(
    folder: Path, subject: str, change: Callable[[Schema], object], expected: str
) -> None:
    publish(folder, subject, change)
    found = problems(folder)
    assert any(expected in problem for problem in found), found
    assert all(f"schemas/{subject}/v2.avsc" in problem and "\n" in problem for problem in found), found
    assert CliRunner().invoke(command, ["check", "--schemas", str(folder)]).exit_code == 3


def test_every_version_is_compared_with_every_other(folder: Path) -> None:
    publish(folder, "alerts", insert("", -1, NULLABLE))
    publish(folder, "alerts", insert("", -1, NULLABLE | {"name": "third"}))
    assert problems(folder) == []
    publish(folder, "alerts", lambda schema: schema["fields"].pop(0))
    text = "\n".join(problems(folder))
    assert all(f"readers of v{version} fail on data of v4" in text for version in (1, 2, 3))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda ids: ids["turns-value"].clear(), "`turns-value` has no ids for version 1"),
        (
            lambda ids: ids["turns-value"].update({2: {"id": 9, "guid": "x"}}),
            "has ids for version 2, whose file is missing",
        ),
        (lambda ids: ids["turns-value"][1].update(id=2), "`turns-value` shares an id or GUID"),
        (lambda ids: ids["turns-value"][1].update(guid=ids["alerts-value"][1]["guid"]), "shares an id or GUID"),
        (lambda ids: ids["turns-value"][1].update(guid="not-a-guid"), "has no GUID for version 1"),
        (lambda ids: ids["turns-value"][1].update(sha256="0" * 64), "is released and differs"),
    ],
)
def test_ids_are_complete_unique_and_stay(folder: Path, change: Callable[[Any], object], expected: str) -> None:
    ids = yaml.safe_load((folder / "ids.yaml").read_text(encoding="utf-8"))
    change(ids)
    (folder / "ids.yaml").write_text(yaml.safe_dump(ids), encoding="utf-8")
    assert any(expected in problem for problem in problems(folder))


def test_a_released_version_that_is_untouched_passes(folder: Path) -> None:
    ids = yaml.safe_load((folder / "ids.yaml").read_text(encoding="utf-8"))
    ids["turns-value"][1]["sha256"] = digest(load("turns", 1))
    (folder / "ids.yaml").write_text(yaml.safe_dump(ids), encoding="utf-8")
    assert problems(folder) == []
    assert [report.released for report in check(folder)] == [(1,), (), (), (), ()]


def test_the_result_of_check_is_machine_readable(folder: Path) -> None:
    publish(folder, "turns", insert("", -1, NULLABLE))
    done = CliRunner().invoke(command, ["check", "--schemas", str(folder), "--format", "json"])
    (turns, *_) = json.loads(done.output)
    assert (turns["subject"], turns["versions"]) == ("turns", [1, 2])
    assert turns["problems"][0]["field"] == "later"
