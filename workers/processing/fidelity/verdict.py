"""The replay part of a turn's verdict, and what the caller counts about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from workers.processing.fidelity.avro_form import parse_avro
from workers.processing.fidelity.findings import DigestOutcome, find
from workers.processing.fidelity.issues import Issues
from workers.processing.fidelity.levels import IssueCode, Level
from workers.processing.fidelity.manifest import RuntimeManifest
from workers.processing.fidelity.report import grade

MAX_GAPS: Final = 256
MAX_ISSUES: Final = 20
MAX_FINDINGS: Final = 32
MAX_FIELD_CHARACTERS: Final = 256
MAX_ID_CHARACTERS: Final = 256


class Status(StrEnum):
    """What became of the grading of one turn."""

    GRADED = "graded"
    NO_MANIFEST = "no_manifest"
    MANIFEST_INVALID = "manifest_invalid"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known about the replay of one turn.

    ``fields`` are plain values for the record FidelityVerdict, cut to its limits; the totals in it and the codes here
    count all. The codes repeat, once per occurrence, in the order of the lists.
    """

    status: Status
    level: Level | None
    fields: dict[str, Any]
    gap_codes: tuple[str, ...] = ()
    issue_codes: tuple[IssueCode, ...] = ()
    finding_codes: tuple[str, ...] = ()
    digest_outcomes: tuple[DigestOutcome, ...] = ()


def judge_manifest(manifest: Mapping[str, Any] | None, model_id: str | None) -> Judgement:
    """Grade a turn's manifest in its Avro form, as decoded with the writer's schema, and look for contradictions.

    ``model_id`` is the fingerprint's, None where it is unknown. Never raises on any manifest: a bad one is a status.

    Source: docs/consumer-guide.md, "Fields".
    """
    if manifest is None:
        return Judgement(Status.NO_MANIFEST, None, _fields(Status.NO_MANIFEST))
    parsed = parse_avro(manifest)
    if isinstance(parsed, RuntimeManifest):
        return _graded(parsed, model_id)
    return _invalid(manifest, parsed)


def _graded(manifest: RuntimeManifest, model_id: str | None) -> Judgement:
    report = grade(manifest)
    findings = find(manifest, model_id)
    gaps = report.missing_evidence
    fields = _fields(
        Status.GRADED,
        level=report.level.value,
        deterministic=report.deterministic,
        manifest_id=manifest.id[:MAX_ID_CHARACTERS],
        missing_evidence=[
            {"field": _cut(gap.field), "impact": gap.impact.value, "code": gap.code} for gap in gaps[:MAX_GAPS]
        ],
        missing_total=len(gaps),
        caveats=list(report.caveats),
        findings=[{"code": item.code, "field": _cut(item.field)} for item in findings.found[:MAX_FINDINGS]],
        finding_total=len(findings.found),
    )
    return Judgement(
        Status.GRADED,
        report.level,
        fields,
        gap_codes=tuple(gap.code for gap in gaps),
        finding_codes=tuple(item.code for item in findings.found),
        digest_outcomes=findings.digests,
    )


def _invalid(manifest: Mapping[str, Any], issues: Issues) -> Judgement:
    manifest_id = manifest.get("id")
    fields = _fields(
        Status.MANIFEST_INVALID,
        manifest_id=manifest_id[:MAX_ID_CHARACTERS] if isinstance(manifest_id, str) and manifest_id else None,
        manifest_issues=[{"path": _cut(issue.path), "code": issue.code.value} for issue in issues[:MAX_ISSUES]],
        manifest_issue_total=len(issues),
    )
    return Judgement(Status.MANIFEST_INVALID, None, fields, issue_codes=tuple(issue.code for issue in issues))


def _fields(status: Status, **known: object) -> dict[str, Any]:
    return {
        "status": status.value,
        "level": None,
        "deterministic": None,
        "manifest_id": None,
        "missing_evidence": [],
        "missing_total": 0,
        "caveats": [],
        "manifest_issues": [],
        "manifest_issue_total": 0,
        "findings": [],
        "finding_total": 0,
        **known,
    }


def _cut(text: str) -> str:
    return text if len(text) <= MAX_FIELD_CHARACTERS else text[: MAX_FIELD_CHARACTERS - 1] + "…"
