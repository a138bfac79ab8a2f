"""CPU of code that runs here, without brokers."""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any, TypeAlias

Stage: TypeAlias = Callable[[], Callable[[], object]]
"""Prepares fresh state, which is not timed, and returns what is timed."""


def for_each(function: Callable[[Any], object], items: Iterable[object]) -> Callable[[], object]:
    """Return what calls ``function`` on each of ``items`` and drops each result, as a batch drops them soon."""
    given = list(items)
    return lambda: deque(map(function, given), maxlen=0)


def time_stages(stages: Mapping[str, Stage], turns: int, repeats: int) -> dict[str, float]:
    """Return CPU µs per turn of each stage, the median of ``repeats``; each stage handles ``turns`` at a call.

    User and system time of all threads of this process. The stages take turns, so that a disturbance hits all alike.
    """
    costs: dict[str, list[float]] = {name: [] for name in stages}
    gc.collect()
    gc.freeze()  # the sample must not be walked over and over, which no worker's batch is
    for _ in range(repeats):
        for name, prepare in stages.items():
            timed = prepare()
            gc.collect()
            started = time.process_time_ns()
            timed()
            costs[name].append((time.process_time_ns() - started) / 1e3 / turns)
    gc.unfreeze()
    return {name: median(each) for name, each in costs.items()}


def disjoint(costs: Mapping[str, float], parts: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """Return ``costs`` with those of ``parts`` taken out of the stage that contains them: they add up then.

    Where parts cost more alone than inside, the rest of their stage is 0.
    """
    own = dict(costs)
    for whole, inner in parts.items():
        own[whole] = max(0.0, own[whole] - sum(own[name] for name in inner))
    return own
