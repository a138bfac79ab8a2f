"""``python -m bench``: run a scenario on Apache Kafka on this machine; tables on stdout, files in ``bench/results``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

import click

from bench import report, summary
from bench.measure import Plan, run
from bench.memory import TOLERANCE, LongRun, drift, measure_memory
from bench.plot import draw
from bench.process import ContenderName
from bench.scaling import HEADINGS, Scale, ScaleRun, measure_scale
from bench.stages import stage_costs
from bench.workload import Workload
from workers.testing.local_kafka import LocalKafka

RESULTS: Final = Path(__file__).parent / "results"


class Scenario(StrEnum):
    """What to run."""

    COMPARE = "compare"
    MEMORY = "memory"
    SIZES = "sizes"
    DEFINITIONS = "definitions"
    PARTITIONS = "partitions"


_TURNS: Final = {Scenario.COMPARE: 100_000, Scenario.MEMORY: 3_000_000}
_SCALE_TURNS: Final = 50_000


def _settings(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or "." not in key:
            raise click.BadParameter(f"{text!r}: write it as SECTION.KEY=VALUE")
        pairs[key] = value
    return pairs


@click.command()
@click.option(
    "--scenario",
    type=click.Choice([scenario.value for scenario in Scenario]),
    default=Scenario.COMPARE.value,
    show_default=True,
    help="compare: worker, floor and peers; memory: the long run; the others: cost by what they name.",
)
@click.option("--turns", type=click.IntRange(min=1), help="Turns of a run; 100,000, of the long run 3,000,000.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Runs of each contender.")
@click.option("--partitions", type=click.IntRange(min=1), default=4, show_default=True, help="Partitions of turns.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same turns.")
@click.option(
    "--contender",
    "names",
    multiple=True,
    type=click.Choice([name.value for name in ContenderName]),
    help="Compare these only; repeatable.",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    callback=_settings,
    help="Setting of the worker that differs from its default; repeatable.",
)
@click.option(
    "--every", type=click.IntRange(min=1), default=100_000, show_default=True, help="Turns between samples of memory."
)
@click.option(
    "--results", type=click.Path(path_type=Path, file_okay=False), default=RESULTS, help="Folder of the results."
)
def main(
    scenario: str,
    turns: int | None,
    rounds: int,
    partitions: int,
    seed: int,
    names: tuple[str, ...],
    settings: Mapping[str, str],
    every: int,
    results: Path,
) -> None:
    """Measure what one turn costs, in one process, on Apache Kafka started for this run. Linux only."""
    chosen = Scenario(scenario)
    count = turns or _TURNS.get(chosen, _SCALE_TURNS)
    with LocalKafka(say=_say) as kafka:
        servers = kafka.bootstrap_servers
        match chosen:
            case Scenario.COMPARE:
                contenders = tuple(ContenderName(name) for name in names) or tuple(ContenderName)
                _compare(servers, Plan(Workload(seed), count, rounds, contenders, partitions, settings), results)
            case Scenario.MEMORY:
                _memory(servers, LongRun(count, every, partitions, seed, settings), results)
            case _:
                _scale(servers, Scale(scenario), ScaleRun(count, rounds, seed, settings), results)


def _compare(servers: str, plan: Plan, results: Path) -> None:
    found = summary.summarise(run(servers, plan, _say))
    worker = found.get(ContenderName.WORKER)
    stages: dict[str, float] = {}
    if worker is not None:
        only_reference = all(route.startswith("reference/") for route in worker.routes)
        stages = stage_costs("reference" if only_reference else "columns", plan.workload).stages
    document = summary.as_document(found, stages, plan.turns, plan.rounds, plan.workload.mean_bytes)
    console = report.console()
    title = f"{plan.turns:,} turns of {plan.workload.mean_bytes:,.0f} bytes, {plan.rounds} rounds: median (range)"
    console.print(report.contenders_table(found, title))
    if worker is not None:
        console.print(report.costs_table(document["stages"], "Where the worker's CPU goes"))
        console.print(report.routes_table(worker.routes))
    for name in summary.RATIOS:
        if document[name] is not None:
            console.print(f"{name}: {document[name]:.2f}", highlight=False)
    summary.write_json(document, results / "latest.json")
    (results / "latest.svg").write_text(draw(document), encoding="utf-8")


def _memory(servers: str, how: LongRun, results: Path) -> None:
    samples = measure_memory(servers, how, _say)
    moved = drift(samples)
    console = report.console()
    if samples:
        console.print(report.scale_table("Resident memory of the worker, MB", "turns", [s._asdict() for s in samples]))
    console.print(
        "too few samples to tell whether memory stays flat"
        if moved is None
        else f"memory moved by {moved:+.1%} once settled; at most {TOLERANCE:.0%} is flat",
        highlight=False,
    )
    document = {"samples": samples, "drift": moved, "partitions": how.partitions, "machine": summary.machine()}
    summary.write_json(document, results / "memory.json")


def _scale(servers: str, scale: Scale, how: ScaleRun, results: Path) -> None:
    rows = measure_scale(servers, scale, how, _say)
    report.console().print(report.scale_table(f"CPU µs per turn, median of {how.rounds}", HEADINGS[scale], rows))
    document = {"rows": rows, "turns": how.turns, "rounds": how.rounds, "machine": summary.machine()}
    summary.write_json(document, results / f"{scale}.json")


def _say(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
