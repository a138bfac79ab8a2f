"""`engram-stream schemas`: check the shipped schemas, register them."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

import click

from workers.admin.schemas import SubjectReport, check
from workers.commands.options import config_option
from workers.config import load_settings
from workers.errors import ConfigurationError
from workers.serde.confluent_registry import FULL_TRANSITIVE, ConfluentRegistry
from workers.serde.registry import open_registry
from workers.serde.schemas import SUBJECTS, load, registry_subject, versions

EXIT_FINDINGS: Final = 3

_format_option: Final = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the result.",
)


@click.group()
def command() -> None:
    """Check and register the schemas."""


@command.command("check")
@click.option(
    "--schemas",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with the subjects and ids.yaml; the shipped one by default.",
)
@_format_option
def check_command(folder: Path | None, form: str) -> None:
    """Prove that every version of every subject reads every other, and that the rules of its subject hold.

    No registry is asked. Exits with 3 when something is wrong.
    """
    reports = check(folder)
    click.echo(_as_json(reports) if form == "json" else _as_text(reports))
    if any(report.problems for report in reports):
        sys.exit(EXIT_FINDINGS)


@command.command()
@config_option
@click.option("--registry-url", metavar="URL", help="Registry; overrides registry.url.")
@_format_option
def register(config_path: Path | None, registry_url: str | None, form: str) -> None:
    """Register every version of every subject, and set FULL_TRANSITIVE on each subject.

    What is registered already stays as it is, so the command can be run at every deployment.
    """
    settings = load_settings(config_path, {"registry.url": registry_url})
    registry = open_registry(settings.registry)
    if not isinstance(registry, ConfluentRegistry):
        raise ConfigurationError(
            "registry.url is not set, so there is no registry to register in; give --registry-url, "
            "or set ENGRAM_REGISTRY__URL"
        )
    rows = asyncio.run(_register(registry))
    if form == "json":
        click.echo(json.dumps([{"subject": name, "version": version, "id": number} for name, version, number in rows]))
        return
    for name, version, number in rows:
        click.echo(f"{name} v{version} id {number} {FULL_TRANSITIVE}")


async def _register(registry: ConfluentRegistry) -> list[tuple[str, int, int]]:
    rows = []
    try:
        for subject in SUBJECTS:
            for version in versions(subject):
                number = await registry.register(subject, load(subject, version))
                if version == 1:  # a subject exists only once it has a schema
                    await registry.set_compatibility(subject)
                rows.append((registry_subject(subject), version, number))
    finally:
        await registry.close()
    return rows


def _as_text(reports: list[SubjectReport]) -> str:
    lines = []
    for report in reports:
        names = ", ".join(
            f"v{version}" + ("" if version in report.released else " (unreleased)") for version in report.versions
        )
        count = len(report.problems)
        verdict = f"{count} problem{'s' if count > 1 else ''}" if count else f"ok, {FULL_TRANSITIVE}"
        lines.append(f"{report.subject}: {names}: {verdict}")
        lines += [f"\n{problem}\n" for problem in report.problems]
    return "\n".join(lines)


def _as_json(reports: list[SubjectReport]) -> str:
    return json.dumps(
        [
            {
                "subject": report.subject,
                "versions": report.versions,
                "released": report.released,
                "problems": [problem._asdict() for problem in report.problems],
            }
            for report in reports
        ]
    )
