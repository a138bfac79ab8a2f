"""From measurements to numbers: medians, ranges, ratios, and the file of results."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from bench.measure import Measurement
from bench.process import ContenderName

RATIOS: Final = {
    "worker_over_floor": (ContenderName.WORKER, ContenderName.FLOOR),
    "faust_over_worker": (ContenderName.FAUST, ContenderName.WORKER),
    "confluent_over_worker": (ContenderName.CONFLUENT, ContenderName.WORKER),
}


class Spread(NamedTuple):
    """Median, least and greatest of a number over the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Summarise ``values``.

        Raises:
            ValueError: there are none.
        """
        given = list(values)
        if not given:
            raise ValueError("nothing was measured")
        return cls(median(given), min(given), max(given))


@dataclass(frozen=True, slots=True)
class Summary:
    """One contender over all rounds; the fields are those of `Measurement`."""

    cpu_us: Spread
    per_second: Spread
    peak_mb: Spread
    first_verdict_s: Spread | None
    routes: Mapping[str, float]

    @classmethod
    def of(cls, measured: Sequence[Measurement]) -> Summary:
        """Summarise the rounds of one contender; ``routes`` become shares of all rows."""
        starts = [item.first_verdict_s for item in measured if item.first_verdict_s is not None]
        rows: Counter[str] = Counter()
        for item in measured:
            rows.update(item.routes)
        return cls(
            Spread.of(item.cpu_us for item in measured),
            Spread.of(item.per_second for item in measured),
            Spread.of(item.peak_mb for item in measured),
            Spread.of(starts) if starts else None,
            {route: count / rows.total() for route, count in rows.most_common()},
        )


def summarise(measured: Iterable[Measurement]) -> dict[ContenderName, Summary]:
    """Return the summary of each contender that was measured, in the order of the table."""
    given = list(measured)
    by_name = {name: [item for item in given if item.name is name] for name in ContenderName}
    return {name: Summary.of(items) for name, items in by_name.items() if items}


def ratio(summaries: Mapping[ContenderName, Summary], above: ContenderName, below: ContenderName) -> float | None:
    """Return how many times the CPU of ``below`` a turn costs in ``above``, by medians; None when one is missing."""
    if above not in summaries or below not in summaries:
        return None
    return summaries[above].cpu_us.median / summaries[below].cpu_us.median


def share_of_stages(summaries: Mapping[ContenderName, Summary], stages: Mapping[str, float]) -> dict[str, float]:
    """Return where the worker's µs per turn go: fetching (the floor), each of ``stages``, and the rest.

    The rest is what no stage times: the hand-over between threads, the producer, commits, probes; and, below 0, how
    much dearer the stages are alone. Nothing without worker or floor.
    """
    if ContenderName.WORKER not in summaries or ContenderName.FLOOR not in summaries:
        return dict(stages)
    fetch = summaries[ContenderName.FLOOR].cpu_us.median
    rest = summaries[ContenderName.WORKER].cpu_us.median - fetch - sum(stages.values())
    return {"fetch": fetch, **stages, "rest": rest}


def as_document(
    summaries: Mapping[ContenderName, Summary], stages: Mapping[str, float], turns: int, rounds: int, turn_bytes: float
) -> dict[str, Any]:
    """Return the results for JSON; what was not measured is null."""
    worker = summaries.get(ContenderName.WORKER)
    medians = {
        f"{name}_us": _rounded(summaries[name].cpu_us.median) if name in summaries else None for name in ContenderName
    }
    ratios = {name: _rounded(ratio(summaries, *pair)) for name, pair in RATIOS.items()}
    return {
        **medians,
        **ratios,
        "stages": {name: _rounded(cost) for name, cost in share_of_stages(summaries, stages).items()},
        "rss_mb": None if worker is None else _rounded(worker.peak_mb.median),
        "turns": turns,
        "turn_bytes": _rounded(turn_bytes),
        "routes": {} if worker is None else {route: round(share, 5) for route, share in worker.routes.items()},
        "rounds": rounds,
        "machine": machine(),
        "contenders": {name.value: _spreads(summary) for name, summary in summaries.items()},
    }


def _spreads(summary: Summary) -> dict[str, list[float] | None]:
    spreads = {name: getattr(summary, name) for name in ("cpu_us", "per_second", "peak_mb", "first_verdict_s")}
    return {name: None if spread is None else [round(value, 2) for value in spread] for name, spread in spreads.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def machine() -> str:
    """Return processor, cores, system and Python of this machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def write_json(document: object, path: Path) -> None:
    """Write ``document`` to ``path``, whose folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
