"""``python -m bench.stages``: what each part of our path costs per turn, in this process, without Kafka."""

from __future__ import annotations

import importlib.util
from typing import Final, Literal, NamedTuple

import click

from bench import report
from bench.reference_path import PARTS, ReferencePath
from bench.timing import disjoint, time_stages
from bench.workload import Workload

TURNS: Final = 2_000
REPEATS: Final = 5

Path = Literal["reference", "columns"]


class Costs(NamedTuple):
    """CPU µs per turn by stage, which add up, and the shares of the turns by route."""

    stages: dict[str, float]
    routes: dict[str, float]


def has_columns() -> bool:
    """Whether the native decoder of the column path is installed."""
    return importlib.util.find_spec("pyruhvro") is not None


def stage_costs(path: Path, workload: Workload, turns: int = TURNS, repeats: int = REPEATS) -> Costs:
    """Return the costs of ``path``: the median of ``repeats`` over ``turns``."""
    reference = ReferencePath(workload.turns(turns))
    if path == "reference":
        return Costs(disjoint(time_stages(reference.stages(), turns, repeats), PARTS), {"reference": 1.0})
    from bench.column_path import PARTS as COLUMN_PARTS
    from bench.column_path import SHARED, ColumnPath

    columns = ColumnPath(reference)
    shared = {name: stage for name, stage in reference.stages().items() if name in SHARED}
    first = {"frames": shared.pop("frames")}
    costs = time_stages({**first, **columns.stages(), **shared}, turns, repeats)
    return Costs(disjoint(costs, COLUMN_PARTS), columns.routes)


@click.command()
@click.option("--turns", type=click.IntRange(min=1), default=TURNS, show_default=True, help="Turns of the sample.")
@click.option("--repeats", type=click.IntRange(min=1), default=REPEATS, show_default=True, help="Times; median of all.")
@click.option("--size", type=click.IntRange(min=1), help="Bytes of a payload; about 2,000 when not given.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same turns.")
def main(turns: int, repeats: int, size: int | None, seed: int) -> None:
    """Time the parts of the path between fetching and sending, on the reference path and, if installed, on columns."""
    workload = Workload(seed, size, bodies=turns)
    console = report.console()
    paths: tuple[Path, ...] = ("reference", "columns") if has_columns() else ("reference",)
    for path in paths:
        costs = stage_costs(path, workload, turns, repeats)
        console.print(report.costs_table(costs.stages, f"{path}: {turns:,} turns of {workload.mean_bytes:,.0f} bytes"))
        console.print(report.routes_table(costs.routes))


if __name__ == "__main__":
    main()
