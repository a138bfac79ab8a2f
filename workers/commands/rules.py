"""``engram-stream rules``: the Prometheus rules of the alert catalogue."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from workers.alerting.render import render_rules
from workers.alerting.spec import DEFAULT_RUNBOOK
from workers.policy_file import load_policy, utc_today
from workers.processing.policy import Policy

EXIT_FINDINGS: Final = 3


@click.command()
@click.option(
    "--policy",
    "policy_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Policy file that gives bounds and times; the defaults without it.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write, or to compare with; standard output without it.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 3 unless the file of --output is current.")
@click.option(
    "--runbooks",
    metavar="TEMPLATE",
    default=DEFAULT_RUNBOOK,
    show_default=True,
    help="Address of the runbooks, with {alert} for the alert's name.",
)
def command(policy_path: Path | None, output: Path | None, check: bool, runbooks: str) -> None:
    """Render the Prometheus rules from the catalogue of alerts and the policy."""
    if "{alert}" not in runbooks:
        raise click.BadParameter("holds no {alert}", param_hint="--runbooks")
    policy = Policy() if policy_path is None else load_policy(policy_path, utc_today())
    rules = render_rules(policy, runbooks)
    if check:
        if output is None:
            raise click.UsageError("--check needs --output, the file to compare with")
        _check(rules, output)
    elif output is None:
        click.echo(rules, nl=False)
    else:
        output.write_text(rules, encoding="utf-8")
        click.echo(f"wrote {output}", err=True)


def _check(rules: str, output: Path) -> None:
    """Exit with 3 unless ``output`` holds ``rules``."""
    found = output.read_text(encoding="utf-8") if output.exists() else None
    if found != rules:
        state = "is missing" if found is None else "differs from what the catalogue and the policy give"
        click.echo(f"{output} {state}; render it with `engram-stream rules --output {output}`", err=True)
        sys.exit(EXIT_FINDINGS)
    click.echo(f"{output} is current", err=True)
