"""What the demo shows: the live view or lines, then the story."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from workers.demo.picture import Gap, Picture
from workers.demo.samples import TURNS
from workers.demo.stage import Stage
from workers.demo.story import Facts, Line, Section, clock, tell, where_next, words
from workers.demo.view import REFRESH_SECONDS, Scene, plain_line, render

LINE_SECONDS: Final = 5.0
WIDEST: Final = 100
"""Longer lines of prose are hard to read."""


class Show:
    """Shows a stage on ``console``; ``duration`` is in seconds, ``say`` gets lines of progress."""

    def __init__(self, stage: Stage, console: Console, duration: float, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._console = console
        self._duration = duration
        self._say = say
        self._started = time.monotonic()
        self._traffic_seconds = 0.0
        self._settled = False

    def watch(self, *, live: bool) -> None:
        """Show what happens for the whole duration."""
        self._started = time.monotonic()
        if live:
            with Live(
                render(self._scene()), console=self._console, screen=True, auto_refresh=False, redirect_stderr=False
            ) as view:
                for _ in self._pictures(self._duration):
                    view.update(render(self._scene()), refresh=True)
            return
        told_at, told = -LINE_SECONDS, set[Gap]()
        for picture in self._pictures(self._duration):
            for gap in picture.gaps.keys() - told:
                told.add(gap)
                self._say(f"{_event(gap, self._stage.history.onsets[gap].at)}")
            if self._elapsed() - told_at >= LINE_SECONDS:
                told_at = self._elapsed()
                self._say(plain_line(self._scene()))

    def settle(self) -> None:
        """End the traffic and wait until everything sent is processed, so that the story's numbers are final."""
        self._traffic_seconds = self._elapsed()
        self._say("the traffic ends; waiting until everything is processed")
        self._stage.end_traffic()
        self._settled = self._stage.settle()

    def tell(self) -> None:
        """Say what happened, and where to look next."""
        facts = Facts(
            picture=self._stage.look(),
            onsets=self._stage.history.onsets,
            alerts=self._stage.alerts,
            seconds=self._traffic_seconds or self._elapsed(),
            settled=self._settled,
            stays=self._console.is_terminal,
            bootstrap_servers=self._stage.bootstrap_servers,
            addresses=self._stage.addresses,
            command=_own_name(),
        )
        for section in (*tell(facts), where_next(facts)):
            self._print(section)

    def keep_running(self) -> None:
        """Go on until Ctrl-C, with one line that shows it."""
        self._console.print()
        with Live(console=self._console, auto_refresh=False, transient=True) as view:
            for picture in self._pictures(None):
                line = f"Running on, {picture.received[TURNS]:,} received. Ctrl-C ends it and leaves nothing behind."
                view.update(Text(line, "bold", no_wrap=True, overflow="ellipsis"), refresh=True)

    def _pictures(self, duration: float | None) -> Iterator[Picture]:
        """Yield a picture each time the view is due, for ``duration`` seconds from the start, for ever if None."""
        due = time.monotonic()
        while duration is None or self._elapsed() < duration:
            yield self._stage.look()
            due = max(due + REFRESH_SECONDS, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _scene(self) -> Scene:
        history = self._stage.history
        event = "Traffic comes in; watch the incomplete turns."
        if history.onsets:
            gap, onset = max(history.onsets.items(), key=lambda item: item[1].at)
            event = _event(gap, onset.at)
        return Scene(history, self._stage.alerts, self._elapsed(), self._duration, self._stage.bootstrap_servers, event)

    def _print(self, section: Section) -> None:
        self._console.print()
        self._console.print(Text(section.title, "bold"))
        for line in section.lines:
            self._print_line(line)

    def _print_line(self, line: Line) -> None:
        if line.kind == "command":
            # Never wrapped: it is there to be copied.
            self._console.print(Text(f"    {line.text}", "cyan"), soft_wrap=True)
            return
        first = "  - " if line.kind == "item" else "  "
        wrapped = textwrap.wrap(
            line.text,
            min(self._console.width, WIDEST),
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_long_words=False,
            break_on_hyphens=False,
        )
        self._console.print(Text("\n".join(wrapped)), soft_wrap=True)


def _event(gap: Gap, at: float) -> str:
    return f"{clock(at)} {gap.service} {gap.path} lost its {words(gap.field)}"


def _own_name() -> str:
    """Return how the reader calls this program: by its name where that finds it, else by its path."""
    called = Path(sys.argv[0])
    found = shutil.which(called.name)
    if found is not None and Path(found).resolve() == called.resolve():
        return called.name
    here = Path.cwd()
    return str(called.resolve().relative_to(here)) if called.resolve().is_relative_to(here) else str(called.resolve())
