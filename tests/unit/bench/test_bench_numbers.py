"""From measurements to the numbers that are published."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.parsers import expat

import pytest

from bench.contenders.task import Mark, Task
from bench.measure import Measurement
from bench.memory import Sample, drift
from bench.plot import draw
from bench.process import ContenderName, routes_of
from bench.report import console, contenders_table
from bench.summary import Spread, as_document, share_of_stages, summarise, write_json
from bench.timing import disjoint, for_each, time_stages

KEYS = {
    "floor_us", "worker_us", "faust_us", "confluent_us", "worker_over_floor", "faust_over_worker",
    "confluent_over_worker", "stages", "rss_mb", "turns", "routes", "rounds", "machine",
}  # fmt: skip


def measured(name: ContenderName, *costs: float, routes: dict[str, int] | None = None) -> list[Measurement]:
    first = None if name is ContenderName.FLOOR else 1.5
    return [Measurement(name, 1_000, cost, 1e6 / cost, 100.0 + cost, first, routes or {}) for cost in costs]


@pytest.fixture
def all_four() -> list[Measurement]:
    return [
        *measured(ContenderName.FLOOR, 6.0, 5.0, 9.0),
        *measured(ContenderName.WORKER, 12.0, 15.0, 11.0, routes={"columns/": 980, "reference/dynamic": 20}),
        *measured(ContenderName.FAUST, 360.0, 300.0, 380.0),
        *measured(ContenderName.CONFLUENT, 90.0, 84.0, 80.0),
    ]


def test_a_spread_is_median_least_and_greatest() -> None:
    assert Spread.of([3.0, 1.0, 8.0]) == (3.0, 1.0, 8.0)
    assert Spread.of([1.0, 2.0]).median == 1.5
    with pytest.raises(ValueError, match="nothing was measured"):
        Spread.of([])


def test_ratios_are_those_of_the_medians(all_four: list[Measurement]) -> None:
    document = as_document(summarise(all_four), {}, 1_000, 3, 2_050.0)
    assert document.keys() >= KEYS
    assert (document["floor_us"], document["worker_us"]) == (6.0, 12.0)
    assert document["worker_over_floor"] == 2.0
    assert document["faust_over_worker"] == 30.0
    assert document["confluent_over_worker"] == 7.0
    assert document["rss_mb"] == 112.0
    assert document["routes"] == {"columns/": 0.98, "reference/dynamic": 0.02}


def test_what_was_not_measured_is_null(all_four: list[Measurement]) -> None:
    document = as_document(summarise(all_four[:6]), {}, 1_000, 3, 2_050.0)
    assert document["faust_us"] is document["faust_over_worker"] is document["confluent_over_worker"] is None
    assert document["worker_over_floor"] == 2.0


def test_fetch_stages_and_rest_add_up_to_the_worker(all_four: list[Measurement]) -> None:
    shares = share_of_stages(summarise(all_four), {"decode": 3.5, "grade": 1.0})
    assert shares == {"fetch": 6.0, "decode": 3.5, "grade": 1.0, "rest": 1.5}


def test_parts_are_taken_out_of_the_stage_around_them() -> None:
    assert disjoint({"scan": 2.0, "decode": 9.0}, {"decode": ("scan",)}) == {"scan": 2.0, "decode": 7.0}
    assert disjoint({"scan": 2.0, "decode": 1.0}, {"decode": ("scan",)})["decode"] == 0.0


def test_a_stage_is_timed_without_its_preparation() -> None:
    def burn(seconds: float) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    def slow_to_prepare() -> object:
        burn(0.05)
        return for_each(burn, [0.001] * 10)

    costs = time_stages({"stage": slow_to_prepare}, turns=10, repeats=3)  # type: ignore[dict-item]
    assert 900 < costs["stage"] < 3_000


def test_the_table_names_every_contender_with_its_range(all_four: list[Measurement]) -> None:
    shown = console()
    with shown.capture() as captured:
        shown.print(contenders_table(summarise(all_four), "title"))
    text = captured.get()
    assert "12.0 (11.0–15.0)" in text
    assert "30.00" in text
    assert text.count("fastavro") == 2


def test_the_drawing_is_well_formed_with_every_number(all_four: list[Measurement]) -> None:
    document = as_document(summarise(all_four), {"decode": 3.5}, 1_000, 3, 2_050.0)
    texts: list[str] = []
    parser = expat.ParserCreate()
    parser.CharacterDataHandler = texts.append
    parser.Parse(draw(document), True)
    assert {"6.0", "12.0", "360.0", "84.0"} <= set(texts)
    assert any("decode: 3.50 µs" in text for text in texts)


def test_results_are_readable_json_in_a_folder_made_for_them(tmp_path: Path, all_four: list[Measurement]) -> None:
    path = tmp_path / "results" / "latest.json"
    write_json(as_document(summarise(all_four), {}, 1_000, 3, 2_050.0), path)
    assert json.loads(path.read_text())["contenders"]["worker"]["cpu_us"] == [12.0, 11.0, 15.0]


def test_memory_drifts_from_the_first_settled_sample_by_the_largest_departure() -> None:
    early = [Sample(100_000, 80.0), Sample(200_000, 150.0)]
    settled = [Sample(300_000, 200.0), Sample(400_000, 206.0), Sample(500_000, 190.0)]
    assert drift([*early, *settled]) == pytest.approx(-0.05)
    assert drift([*early, settled[0]]) is None


def test_routes_are_read_from_the_worker_s_metrics() -> None:
    text = (
        "# TYPE engram_decode_rows counter\n"
        'engram_decode_rows_total{route="columns",reason="none"} 980.0\n'
        'engram_decode_rows_total{route="reference",reason="dynamic"} 20.0\n'
        'engram_decode_rows_total{route="reference",reason="limit"} 0.0\n'
    )
    assert routes_of(text) == {"columns/none": 980, "reference/dynamic": 20}


def test_a_task_and_a_mark_survive_their_way_to_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task("localhost:1", "p-", "group", 7, str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["contender", task.as_argument(), "rest"])
    assert Task.from_command_line() == task
    assert sys.argv == ["contender", "rest"]
    mark = Mark.now()
    mark.write(task.first_mark)
    assert Mark.read(task.first_mark) == mark


def test_the_clock_of_another_process_counts_all_its_threads_and_not_its_sleep() -> None:
    program = (
        "import hashlib, threading, time\n"
        "work = threading.Thread(target=lambda: [hashlib.sha256(bytes(1 << 20)) for _ in range(40)])\n"
        "work.start(); work.join(); print(time.process_time_ns(), flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        own = int(process.stdout.readline())
        seen = time.clock_gettime_ns((~process.pid << 3) | 2)
        process.kill()
    assert os.name == "posix"
    assert own <= seen < own + 20_000_000
