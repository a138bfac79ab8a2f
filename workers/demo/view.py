"""The live view: one screen of fixed places, so that only numbers move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.bar import Bar
from rich.box import ROUNDED
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from workers.demo.alerts import SeenAlert
from workers.demo.picture import MIX, STATE_WRITES, History, Picture, ProducerPath
from workers.demo.samples import TURNS
from workers.demo.story import clock, percent, words
from workers.metrics.labels import End
from workers.reasons import CATALOGUE, Reason, ReasonClass

REFRESH_SECONDS: Final = 0.5
_TOP_ROWS: Final = 8
_TRAFFIC_COLUMNS: Final = 39
_NARROW: Final = 28
_COLOURS: Final = {
    "exact": "green",
    "controlled": "cyan",
    "partial": "yellow",
    "unreplayable": "red",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything one screen shows; ``elapsed`` and ``duration`` in seconds, ``event`` is the last thing to tell."""

    history: History
    alerts: Sequence[SeenAlert]
    elapsed: float
    duration: float
    bootstrap_servers: str
    event: str


def render(scene: Scene) -> Layout:
    """Return the screen; it fits 80 columns and 24 rows, and fills what is larger."""
    picture = scene.history.latest
    screen = Layout()
    screen.split_column(
        Layout(_header(scene), size=1),
        Layout(name="top", size=_TOP_ROWS),
        Layout(name="middle"),
        Layout(name="bottom"),
        Layout(_footer(scene), size=1),
    )
    if picture is None:
        return screen
    screen["top"].split_row(
        Layout(_panel("Traffic", _traffic(scene.history, picture)), size=_TRAFFIC_COLUMNS),
        Layout(_panel(f"Fidelity of {picture.verdicts:,} turns", _mix(picture))),
    )
    screen["middle"].split_row(
        Layout(_panel("Incomplete turns by path", _gaps(scene.history, picture))),
        Layout(_panel("Dead letters by reason", _letters(picture)), size=_NARROW),
    )
    screen["bottom"].split_row(
        Layout(_panel("Alerts of the stream, latest first", _alerts(scene.alerts))),
        Layout(_panel("Partitions", _shares(picture)), size=_NARROW),
    )
    return screen


def plain_line(scene: Scene) -> str:
    """Return the state as one line, for where there is no terminal."""
    history, picture = scene.history, scene.history.latest
    if picture is None:
        return f"{minutes(scene.elapsed)}  no numbers yet"
    return (
        f"{minutes(scene.elapsed)}  {picture.received[TURNS]:,} received ({_rate(history, _received(TURNS))}/s), "
        f"{picture.verdicts:,} verdicts, lag {picture.lag.total():,}, "
        f"{picture.gaps.total():,} incomplete, {picture.letters.total():,} dead letters"
    )


def _header(scene: Scene) -> Table:
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(
        Text.assemble(
            (" engram-stream demo ", "bold reverse"), f"  {minutes(scene.elapsed)} of {minutes(scene.duration)}"
        ),
        Text(f"Apache Kafka on {scene.bootstrap_servers} ", "dim"),
    )
    return grid


def _footer(scene: Scene) -> Table:
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_row(Text(f" {scene.event}", "bold"), Text(" Ctrl-C ends it ", "dim"))
    return grid


def _panel(title: str, content: Table) -> Panel:
    return Panel(content, title=title, title_align="left", box=ROUNDED, border_style="dim", padding=(0, 1))


def _grid(*justify: str) -> Table:
    """Return a table without lines whose first column takes the room that is left."""
    grid = Table.grid(padding=(0, 1), pad_edge=False, expand=True)
    for number, side in enumerate(justify):
        grid.add_column(
            justify="right" if side == "right" else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if number == 0 else None,
        )
    return grid


def _traffic(history: History, picture: Picture) -> Table:
    grid = _grid("left", "right", "right")
    grid.add_row("", Text(TURNS, "dim"), Text(STATE_WRITES, "dim"))
    grid.add_row("received/s", _rate(history, _received(TURNS)), _rate(history, _received(STATE_WRITES)))
    grid.add_row("verdicts/s", Text(_rate(history, lambda past: past.verdicts), "bold"), "")
    grid.add_row("received", *(f"{picture.received[topic]:,}" for topic in (TURNS, STATE_WRITES)))
    grid.add_row("dead letters", *(f"{picture.ended(topic, End.DLQ):,}" for topic in (TURNS, STATE_WRITES)))
    grid.add_row("lag", *(f"{picture.lag[topic]:,}" for topic in (TURNS, STATE_WRITES)))
    return grid


def _mix(picture: Picture) -> Table:
    grid = Table.grid(padding=(0, 1), pad_edge=False, expand=True)
    grid.add_column(no_wrap=True, width=max(map(len, MIX)))
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right", width=4)
    grid.add_column(no_wrap=True, justify="right", width=7)
    total = picture.verdicts or 1
    longest = max(picture.mix.values(), default=1)
    for name in MIX:
        number, colour = picture.mix[name], _COLOURS.get(name, "magenta")
        grid.add_row(words(name), Bar(longest, 0, number, color=colour), percent(number / total), f"{number:,}")
    return grid


def _gaps(history: History, picture: Picture) -> Table:
    grid = _grid("left", "left", "right")
    if not picture.gaps:
        grid.add_row(Text("none: every path names its six parts", "green"), "", "")
    for gap, number in picture.gaps.most_common():
        grid.add_row(Text(f"{gap.service} {gap.path}", "bold red"), gap.field, f"{number:,}")
        grid.add_row(Text(f"  since {clock(history.onsets[gap].at)}", "dim"), Text(gap.state, "dim"), "")
    return grid


def _letters(picture: Picture) -> Table:
    grid = _grid("left", "right")
    if not picture.letters:
        grid.add_row(Text("none", "dim"), "")
    by_reason: Counter[Reason] = Counter()
    for (_, reason), number in picture.letters.items():
        by_reason[reason] += number
    for reason, number in sorted(by_reason.items(), key=lambda item: (-item[1], item[0])):
        grid.add_row(
            Text(reason, "bold red" if CATALOGUE[reason].reason_class is ReasonClass.OURS else ""), f"{number:,}"
        )
    return grid


def _alerts(alerts: Sequence[SeenAlert]) -> Table:
    grid = Table.grid(padding=(0, 1), pad_edge=False, expand=True)
    grid.add_column(no_wrap=True, width=8)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    # Tenants meet the same new path one after the other: one line tells it.
    latest: dict[tuple[str, ProducerPath, str | None], float] = {}
    for alert in alerts:
        latest.setdefault((alert.name, alert.producer, alert.release), alert.at)
    if not latest:
        grid.add_row("", Text("none", "dim"))
    newest_first = sorted(latest.items(), key=lambda item: -item[1])
    for (name, producer, release), at in newest_first:
        named = f"{producer.service} {producer.path} {release or ''}"
        grid.add_row(Text(clock(at), "dim"), Text.assemble(f"{named} ", (name, "dim")))
    return grid


def _shares(picture: Picture) -> Table:
    grid = _grid("left", "right", "right")
    grid.add_row("", Text(TURNS, "dim"), Text("state", "dim"))
    for share in picture.shares:
        grid.add_row(share.worker, *(_span(share.partitions.get(topic, [])) for topic in (TURNS, STATE_WRITES)))
    return grid


def _span(numbers: list[int]) -> str:
    if not numbers:
        return "–"
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}–{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])
    return f"{len(numbers)} of them"


def _received(topic: str) -> Callable[[Picture], int]:
    return lambda picture: picture.received[topic]


def _rate(history: History, count: Callable[[Picture], int]) -> str:
    return f"{history.rate(count):,.0f}"


def minutes(seconds: float) -> str:
    """Return ``seconds`` as minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
