"""Whether the cost of a turn grows with what must not make it grow: its size, the definitions, the partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bench.measure import Plan, run
from bench.process import ContenderName
from bench.summary import summarise
from bench.workload import Workload

MOST_BYTES: Final = 1 << 28
"""Most payload bytes of one step: fewer turns where they are large."""


class Scale(StrEnum):
    """What is varied; all else is that of the default run."""

    SIZES = "sizes"
    DEFINITIONS = "definitions"
    PARTITIONS = "partitions"


STEPS: Final[Mapping[Scale, tuple[int, ...]]] = {
    Scale.SIZES: (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000),
    Scale.DEFINITIONS: (10, 100, 1_000, 10_000, 100_000),
    Scale.PARTITIONS: (1, 4, 12, 32, 64),
}
HEADINGS: Final[Mapping[Scale, str]] = {
    Scale.SIZES: "bytes per turn",
    Scale.DEFINITIONS: "definitions",
    Scale.PARTITIONS: "partitions",
}


@dataclass(frozen=True, slots=True)
class ScaleRun:
    """How each step of a scale is run: as in `bench.measure.Plan`."""

    turns: int
    rounds: int
    seed: int
    settings: Mapping[str, str]


def measure_scale(
    bootstrap_servers: str, scale: Scale, how: ScaleRun, say: Callable[[str], None]
) -> list[dict[str, float]]:
    """Return one row per step: the step, mean bytes of a turn, CPU µs per turn and per kB, the floor's, peak MB."""
    rows = []
    for step in STEPS[scale]:
        plan = _plan(scale, step, how)
        say(f"{HEADINGS[scale]}: {step:,}, {plan.turns:,} turns")
        found = summarise(run(bootstrap_servers, plan, say))
        worker, floor = found[ContenderName.WORKER], found[ContenderName.FLOOR]
        kilobytes = plan.workload.mean_bytes / 1_000
        rows.append(
            {
                scale.value: step,
                "mean_bytes": plan.workload.mean_bytes,
                "worker_us": worker.cpu_us.median,
                "floor_us": floor.cpu_us.median,
                "worker_us_per_kB": worker.cpu_us.median / kilobytes,
                "peak_MB": worker.peak_mb.median,
            }
        )
    return rows


def _plan(scale: Scale, step: int, how: ScaleRun) -> Plan:
    workload, turns, partitions = Workload(how.seed), how.turns, 4
    match scale:
        case Scale.SIZES:
            workload = Workload(how.seed, size=step)
            turns = max(1, min(turns, MOST_BYTES // step))
        case Scale.DEFINITIONS:
            # Each definition must have a body of its own.
            turns = max(turns, step)
            workload = Workload(how.seed, definitions=step, bodies=max(step, workload.bodies))
        case Scale.PARTITIONS:
            partitions = step
    contenders = (ContenderName.FLOOR, ContenderName.WORKER)
    return Plan(workload, turns, how.rounds, contenders, partitions, how.settings)
