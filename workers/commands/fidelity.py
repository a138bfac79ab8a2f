"""``engram-stream fidelity``: grade manifests in files, and explain the codes."""

from __future__ import annotations

import difflib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click

from workers.commands.files import (
    EXIT_FINDINGS,
    EXIT_NOT_FOUND,
    Progress,
    check_files,
    colour,
    counted,
    json_documents,
    printable,
)
from workers.commands.other_codes import OtherCode, other_codes
from workers.processing.fidelity import Issues, Report, RuntimeManifest, grade, parse_json
from workers.processing.fidelity.catalogue import CATALOGUE, IMPACTS, Entry

_COLOURS: Final = {
    "exact": "green",
    "controlled": "green",
    "partial": "yellow",
    "unreplayable": "red",
    "manifest_invalid": "red",
}


class Graded(NamedTuple):
    """One manifest of one file: where it stands, and what came of it."""

    source: str
    outcome: Report | Issues

    @property
    def word(self) -> str:
        """Return the level, or ``manifest_invalid``."""
        return self.outcome.level.value if isinstance(self.outcome, Report) else "manifest_invalid"

    def as_dict(self) -> dict[str, Any]:
        """Return the object that the formats json and jsonl write."""
        graded = isinstance(self.outcome, Report)
        return {
            "source": self.source,
            "status": "graded" if graded else "manifest_invalid",
            "report": self.outcome.as_dict() if isinstance(self.outcome, Report) else None,
            "issues": []
            if isinstance(self.outcome, Report)
            else [{"path": issue.path, "code": issue.code.value} for issue in self.outcome],
        }


@click.group()
def command() -> None:
    """Grade manifests; explain codes."""


@command.command("grade")
@click.option("--format", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def grade_files(form: str, files: tuple[str, ...]) -> None:
    """Grade the manifests in FILE..., in their JSON form.

    A .json file holds one manifest, a .jsonl file one per line; - reads JSON Lines from stdin. Exits with 3 when a
    manifest is invalid, with 4 when a file does not exist.
    """
    check_files(files, {".json": "one manifest", ".jsonl": "one per line"})
    counts: Counter[str] = Counter()
    results = _counting((result for file in files for result in _graded(file)), counts)
    if form == "json":
        click.echo(json.dumps([result.as_dict() for result in results], indent=2))
    else:
        for result in results:
            click.echo(json.dumps(result.as_dict()) if form == "jsonl" else _text(result), color=colour())
    if form == "text":
        click.echo(
            f"{counted(counts.total(), 'manifest')}: {', '.join(f'{n} {word}' for word, n in counts.items())}", err=True
        )
    if counts["manifest_invalid"]:
        sys.exit(EXIT_FINDINGS)


@command.command("explain")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.argument("code")
def explain(code: str, form: str) -> None:
    """Explain CODE: a level, or the code of a gap, a caveat, a finding or an issue.

    Also explains what else a record or verdict may say: reasons of dead letters, states of completeness, and what came
    of grading. Exits with 4 when CODE is unknown.
    """
    others = other_codes()
    entry = CATALOGUE.get(code) or others.get(code)
    if entry is None:
        near = _near(code, [*CATALOGUE, *others])
        hint = f"did you mean {', '.join(near)}?" if near else "schemas/fidelity/codes.json lists them all"
        click.echo(f"engram-stream: there is no code {printable(code)}; {hint}", err=True)
        sys.exit(EXIT_NOT_FOUND)
    if form == "json":
        click.echo(json.dumps(entry._asdict(), indent=2))
    else:
        click.echo(_explained(entry) if isinstance(entry, Entry) else _explained_other(entry), color=colour())


def _near(code: str, codes: list[str]) -> list[str]:
    containing = [known for known in codes if code and code in known]
    return (containing or difflib.get_close_matches(code, codes, n=5, cutoff=0.5))[:5]


def _graded(file: str) -> Iterator[Graded]:
    for number, document in json_documents(file):
        parsed = parse_json(document)
        yield Graded(f"{file}:{number}", grade(parsed) if isinstance(parsed, RuntimeManifest) else parsed)


def _counting(results: Iterator[Graded], counts: Counter[str]) -> Iterator[Graded]:
    progress = Progress("manifests")
    for result in results:
        counts[result.word] += 1
        progress.tell(counts.total())
        yield result


def _text(result: Graded) -> str:
    head = f"{printable(result.source)}: {click.style(result.word, fg=_COLOURS[result.word], bold=True)}"
    if not isinstance(result.outcome, Report):
        defects = (
            f"  {printable(issue.path) or '(root)'}: {issue.code.value}: {CATALOGUE[issue.code].reason}"
            for issue in result.outcome
        )
        return "\n".join([head, *defects])
    report = result.outcome
    gaps = (
        f"  {gap.impact.value}: {printable(gap.field)}: {gap.code}: {CATALOGUE[gap.code].reason}"
        for gap in report.missing_evidence
    )
    caveats = (f"  caveat: {code}: {CATALOGUE[code].reason}" for code in report.caveats)
    return "\n".join([head, f"  {report.summary}", *gaps, *caveats])


def _explained(entry: Entry) -> str:
    lines = [f"{click.style(entry.code, bold=True)}: {entry.label} ({entry.kind.value})", f"  {entry.reason}"]
    if entry.impact is not None:
        lines.append(f"  Impact: {entry.impact.value}. {IMPACTS[entry.impact]}")
    return "\n".join([*lines, f"  Fix: {entry.fix}"])


def _explained_other(entry: OtherCode) -> str:
    acts = "" if entry.reason_class is None else f", class {entry.reason_class}"
    lines = [f"{click.style(entry.code, bold=True)}: {entry.kind}{acts}", f"  {entry.meaning}"]
    if entry.fix is not None:
        lines.append(f"  Fix: {entry.fix}")
    return "\n".join([*lines, f"  See {entry.page}"])
