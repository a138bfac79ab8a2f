"""``engram-stream demo``: Apache Kafka, workers and traffic on this machine, shown live and then told in words."""

from __future__ import annotations

import sys

import click
from rich.console import Console

from workers.demo.interrupts import StopRequested, raise_on_stop_signals
from workers.demo.show import Show
from workers.demo.stage import Pace, open_stage


@click.command()
@click.option(
    "--duration",
    type=click.IntRange(min=5, max=3_600),
    default=60,
    show_default=True,
    help="Seconds of traffic before the story.",
)
@click.option(
    "--rate", type=click.IntRange(min=10, max=5_000), default=200, show_default=True, help="Turns per second."
)
@click.option("--no-live", is_flag=True, help="Print a line now and then instead of the live view.")
def command(duration: int, rate: int, no_live: bool) -> None:
    """Show the main job at work on this machine: turns in, verdicts, dead letters, metrics and alerts out.

    Starts Apache Kafka, two workers and a generator of realistic traffic, in which one release forgets something. Says
    after a while in words what happened and where to look next. On a terminal it then runs until Ctrl-C. It needs Java
    17 or later, and Maven for the first start. Nothing of it is left afterwards.
    """
    terminal = sys.stdout.isatty()
    # What a library takes for a terminal may be wanted for colours alone; we ask because somebody has to press Ctrl-C.
    console = Console(force_terminal=terminal, soft_wrap=False, highlight=False)
    live = terminal and not no_live and not console.is_dumb_terminal
    raise_on_stop_signals()
    try:
        with open_stage(Pace(duration, rate), _say) as stage:
            show = Show(stage, console, duration, _say)
            stage.begin_traffic()
            show.watch(live=live)
            if not terminal:
                show.settle()
            show.tell()
            if terminal:
                show.keep_running()
    except StopRequested:
        pass
    _say("stopped; no process, port or folder is left behind")


def _say(message: str) -> None:
    click.echo(f"demo: {message}", err=True)
