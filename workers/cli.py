"""The command line: one group whose commands are loaded when called, so that `--help` stays fast."""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from workers import __version__
from workers.errors import ConfigurationError, EngramError, UnreachableError

COMMANDS: Final = {
    "worker": "Run a worker.",
    "check-config": "Show every setting and where it came from.",
    "topics": "Compare topics with the catalogue; create and change them.",
    "schemas": "Check and register the schemas.",
    "validate": "Judge payload files as the stream would.",
    "generate": "Publish realistic traffic.",
    "local": "Run Apache Kafka on this machine.",
    "fidelity": "Grade manifests; explain codes.",
    "dlq": "Read dead letters.",
    "rules": "Render the Prometheus rules.",
    "erase": "Erase a conversation and prove it.",
    "demo": "Show the main job at work on this machine.",
}

EXIT_WRONG_INPUT: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 5


class LazyGroup(click.Group):
    """A group that imports ``workers.commands.<name>`` only when the command is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the catalogue."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"workers.commands.{cmd_name.replace('-', '_')}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"workers.commands has no click command for {cmd_name}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="engram-stream")
def cli() -> None:
    """Make every reply of a deployed character or assistant attributable."""


def main() -> None:
    """Run the command line; deliberate errors become one line on stderr and their exit code."""
    try:
        cli()
    except EngramError as error:
        click.echo(f"engram-stream: {error}", err=True)
        if isinstance(error, UnreachableError):
            sys.exit(EXIT_UNREACHABLE)
        sys.exit(EXIT_USAGE if isinstance(error, ConfigurationError) else EXIT_WRONG_INPUT)
