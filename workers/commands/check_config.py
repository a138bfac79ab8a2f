"""``engram-stream check-config``: every setting, where it came from, and whether what it names is there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from workers.commands.options import bootstrap_option, config_option
from workers.config import Loaded, is_secret, load, setting_keys
from workers.config_checks import problems_of, value_of

EXIT_WRONG = 2
_MASK = "********"


@click.command()
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@config_option
@bootstrap_option
def command(form: str, config_path: Path | None, bootstrap_servers: str | None) -> None:
    """Show every setting and where it came from; check the files that settings name.

    Secrets are masked. Exits with 2 when something is wrong.
    """
    loaded = load(config_path, {"kafka.bootstrap_servers": bootstrap_servers})
    problems = problems_of(loaded)
    if form == "json":
        click.echo(json.dumps({"settings": _as_json(loaded), "problems": problems}, indent=2))
    else:
        for line in _as_text(loaded):
            click.echo(line)
    for problem in problems:
        click.echo(f"engram-stream: {problem}", err=True)
    if problems:
        sys.exit(EXIT_WRONG)


def _shown(loaded: Loaded, key: str) -> object:
    value = value_of(loaded, key)
    if value is None:
        return None
    if is_secret(key):
        return _MASK
    return str(value) if isinstance(value, Path) else value


def _as_json(loaded: Loaded) -> dict[str, dict[str, object]]:
    return {
        key: {
            "value": _shown(loaded, key),
            "origin": loaded.origins[key].kind,
            "from": loaded.origins[key].name or None,
        }
        for key in setting_keys()
    }


def _as_text(loaded: Loaded) -> list[str]:
    rows = [(key, _text(_shown(loaded, key)), str(loaded.origins[key])) for key in setting_keys()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return [f"{key:<{widths[0]}}  {value:<{widths[1]}}  {origin}" for key, value, origin in rows]


def _text(value: object) -> str:
    if value is None:
        return "-"
    return json.dumps(value) if isinstance(value, bool) or value == "" else str(value)
