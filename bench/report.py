"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.process import ContenderName
from bench.summary import Spread, Summary

_WIDTH: Final = 140
_TITLES: Final = {
    ContenderName.FLOOR: "aiokafka, consuming only",
    ContenderName.WORKER: "engram-stream worker",
    ContenderName.FAUST: "Faust agent + fastavro",
    ContenderName.CONFLUENT: "confluent-kafka + fastavro",
}


def console() -> Console:
    """Return the console for tables: as wide as the terminal, or as the tables where there is none."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=_WIDTH)


def spread_text(spread: Spread | None, digits: int = 1) -> str:
    """Return ``median (low–high)``, a dash for nothing."""
    if spread is None:
        return "–"
    middle, low, high = (f"{value:,.{digits}f}" for value in spread)
    return f"{middle} ({low}–{high})"


def contenders_table(summaries: Mapping[ContenderName, Summary], title: str) -> Table:
    """Return the table of all contenders, each beside our worker."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in ("CPU µs/turn", "× worker", "turns/s", "peak RSS MB", "start to first verdict s"):
        table.add_column(column, justify="right")
    worker = summaries.get(ContenderName.WORKER)
    for name, summary in summaries.items():
        times = "–" if worker is None else f"{summary.cpu_us.median / worker.cpu_us.median:.2f}"
        table.add_row(
            _TITLES[name],
            spread_text(summary.cpu_us),
            times,
            spread_text(summary.per_second, 0),
            spread_text(summary.peak_mb, 0),
            spread_text(summary.first_verdict_s, 2),
        )
    return table


def costs_table(costs: Mapping[str, float], title: str) -> Table:
    """Return the table of CPU µs per turn by stage, with the share of each."""
    table = Table(title=title, title_justify="left")
    table.add_column("stage")
    table.add_column("CPU µs/turn", justify="right")
    table.add_column("share", justify="right")
    total = sum(costs.values())
    for name, cost in costs.items():
        table.add_row(name, f"{cost:.2f}", f"{cost / total:.1%}" if total else "–")
    table.add_row("all", f"{total:.2f}", "", style="bold")
    return table


def routes_table(routes: Mapping[str, float]) -> Table:
    """Return the table of how rows were decoded."""
    table = Table(title="Rows by route", title_justify="left")
    table.add_column("route/reason")
    table.add_column("share", justify="right")
    for route, share in routes.items():
        table.add_row(route, f"{share:.2%}")
    return table


def scale_table(title: str, heading: str, rows: Sequence[Mapping[str, float]]) -> Table:
    """Return a table with one row per step of a scale; the first column is the step."""
    table = Table(title=title, title_justify="left")
    names = list(rows[0])
    for name in names:
        table.add_column(heading if name == names[0] else name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" for value in row.values()))
    return table
