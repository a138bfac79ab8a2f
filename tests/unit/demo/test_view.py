"""The live view: it fits its screen, shows the numbers, and only numbers move."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from demo_numbers import NOON, count_letters, count_turns, picture
from rich.cells import cell_len
from rich.console import Console

from workers.demo.alerts import SeenAlert
from workers.demo.picture import History, ProducerPath
from workers.demo.view import Scene, plain_line, render
from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter

Fill = Callable[[Exporter], None]
EVENT = "12:00:01 shop night-batch lost its summary depth"
BORDERS = "╭╮╰╯│"


def little(exporter: Exporter) -> None:
    count_turns(exporter, 3)


def much(exporter: Exporter) -> None:
    for level in ("exact", "controlled", "partial", "unreplayable", "none"):
        count_turns(exporter, 234_567, level)
    count_turns(exporter, 4_321, complete=False)
    for number, reason in enumerate(("bad_utf8", "bad_magic", "limit_exceeded", "missing_event_time", "bad_key")):
        count_letters(exporter, 1_000 + number, reason)
    for number in range(12):
        exporter.set(m.OWN_LAG_SECONDS, 0, "turns", str(number))
    exporter.set(m.LAG_RECORDS, 8_765, "turns", "3")


def scene(fill: Fill = much, alerts: int = 40) -> Scene:
    history = History()
    history.add(picture(little, NOON))
    history.add(picture(fill, NOON + 1))
    seen = [
        SeenAlert("PathFirstSeen", NOON + number, tenant, ProducerPath("shop", f"way-{number}"), "9.9.1")
        for number in range(alerts)
        for tenant in ("acme", "zeta")
    ]
    return Scene(history, seen, 61.0, 90.0, "127.0.0.1:19092", EVENT)


def screen(shown: Scene, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), record=True, width=width, height=height, color_system=None)
    console.print(render(shown))
    return console.export_text().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize("fill", [little, much])
def test_it_fills_the_screen_and_never_more(width: int, height: int, fill: Fill) -> None:
    lines = screen(scene(fill), width, height)
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width


def test_it_shows_rates_mix_incomplete_turns_letters_lag_partitions_and_alerts() -> None:
    shown = " ".join(" ".join(screen(scene())).split())
    for text in (
        "1:01 of 1:30",
        "Apache Kafka on 127.0.0.1:19092",
        "1,182,166",
        "controlled",
        "20%",
        "shop night-batch",
        "summary_depth 4,321",
        "missing_event_time 1,003",
        "8,765",
        "0–11",
        "shop way-39 9.9.1",
        EVENT,
        "Ctrl-C ends it",
    ):
        assert text in shown


def test_no_name_or_number_is_cut_at_80_columns() -> None:
    upper = screen(scene())[:16]
    assert [line for line in upper if "…" in line] == []


def test_an_alert_that_several_tenants_raise_is_one_line() -> None:
    assert "\n".join(screen(scene(alerts=1))).count("way-0") == 1


def test_only_content_moves() -> None:
    def borders(lines: list[str]) -> list[list[int]]:
        return [[at for at, sign in enumerate(line) if sign in BORDERS] for line in lines]

    assert borders(screen(scene(little, alerts=0))) == borders(screen(scene()))


def test_before_the_first_numbers_there_is_a_screen_too() -> None:
    empty = Scene(History(), [], 0.0, 60.0, "127.0.0.1:1", EVENT)
    assert len(screen(empty)) == 24
    assert plain_line(empty) == "0:00  no numbers yet"


def test_without_a_terminal_one_line_says_the_same() -> None:
    line = plain_line(scene())
    assert "verdicts, lag 8,765, 4,321 incomplete, 5,010 dead letters" in line
    assert "\x1b" not in line
