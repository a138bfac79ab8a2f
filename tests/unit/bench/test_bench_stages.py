"""The stages of both paths run on the same turns and account for all of them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bench.stages import has_columns, main, stage_costs
from bench.workload import Workload

TURNS = 120


@pytest.fixture(scope="module")
def workload() -> Workload:
    return Workload(seed=2, bodies=TURNS)


def test_the_reference_path_is_timed_stage_by_stage(workload: Workload) -> None:
    costs = stage_costs("reference", workload, TURNS, repeats=1)
    assert {"frames", "scan", "decode", "parse", "grade", "encode", "duplicates", "pack"} <= costs.stages.keys()
    assert costs.stages["decode"] > costs.stages["frames"] > 0


@pytest.mark.skipif(not has_columns(), reason="the native decoder is not installed")
def test_the_column_path_is_timed_beside_what_it_hands_over(workload: Workload) -> None:
    costs = stage_costs("columns", workload, TURNS, repeats=1)
    assert {
        "frames",
        "columns",
        "grade",
        "encode",
        "prepare",
        "settle",
        "routed",
        "count",
        "pack",
    } == costs.stages.keys()
    assert sum(costs.routes.values()) == pytest.approx(1.0)
    assert costs.routes["columns/whole"] > 0.9


def test_the_command_prints_both_tables() -> None:
    done = CliRunner().invoke(main, ["--turns", "30", "--repeats", "1"])
    assert done.exit_code == 0, done.output
    assert "reference: 30 turns" in done.output
    assert ("columns: 30 turns" in done.output) == has_columns()
