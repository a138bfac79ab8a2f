"""One contender measured once, and rounds of all of them."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.cluster import TOPICS, TurnWriter, VerdictCounter
from bench.contenders.task import Mark, Task
from bench.process import ContenderName, ContenderProcess
from bench.workload import Workload
from workers.testing.kafka_topics import TopicFactory

_POLL_S: Final = 0.02
_PATIENCE_S: Final = 90.0
"""How long a contender may get no further."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run of one contender.

    ``cpu_us`` is user and system time of the process per turn, in microseconds, from its first fetch to the moment the
    last verdict is acknowledged; ``per_second`` the turns per second in that time. ``peak_mb`` is its largest resident
    memory, in 10⁶ bytes. ``first_verdict_s`` is the time from its start to its first verdict, None without outputs.
    ``routes`` counts the worker's decoded rows by route and reason.
    """

    name: ContenderName
    turns: int
    cpu_us: float
    per_second: float
    peak_mb: float
    first_verdict_s: float | None = None
    routes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: ``turns`` of ``workload`` in ``partitions``, by each of ``contenders``, in ``rounds``.

    ``settings`` are the worker's that differ from its defaults.
    """

    workload: Workload
    turns: int
    rounds: int
    contenders: Sequence[ContenderName]
    partitions: int = 4
    settings: Mapping[str, str] = field(default_factory=dict)


def run(bootstrap_servers: str, plan: Plan, say: Callable[[str], None]) -> list[Measurement]:
    """Run ``plan``; return all measurements.

    Every round has topics of its own with the same turns, so that none finds what an earlier one left. The contenders
    take turns in starting a round.
    """
    measured = []
    for number in range(plan.rounds):
        with TopicFactory(bootstrap_servers) as factory:
            factory.create(*TOPICS, partitions=plan.partitions)
            writer = TurnWriter(bootstrap_servers, factory.name("turns"))
            writer.write(plan.workload.turns(plan.turns))
            writer.finish()
            first = number % len(plan.contenders)
            for name in (*plan.contenders[first:], *plan.contenders[:first]):
                result = _measure(name, factory, plan)
                say(f"round {number + 1} of {plan.rounds}: {name} {result.cpu_us:.1f} µs per turn")
                measured.append(result)
    return measured


def _measure(name: ContenderName, factory: TopicFactory, plan: Plan) -> Measurement:
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as folder:
        group = f"{name}-{uuid.uuid4().hex[:8]}"
        task = Task(factory.bootstrap_servers, factory.prefix, factory.group_id(group), plan.turns, folder)
        verdicts = VerdictCounter(factory, plan.partitions)
        with ContenderProcess(name, task, plan.settings) as process:
            if name is ContenderName.FLOOR:
                last, first_verdict = _wait_for_last_fetch(process), None
            else:
                last, first_verdict = wait_for_verdicts(process, verdicts, plan.turns)
            return _measurement(name, plan.turns, process, last, first_verdict)


def _measurement(
    name: ContenderName, turns: int, process: ContenderProcess, last: Mark, first_verdict: Mark | None
) -> Measurement:
    first = process.first_fetch()
    if first is None:
        raise RuntimeError(f"{name} came to its end without a mark of its first fetch; see bench/contenders")
    return Measurement(
        name,
        turns,
        (last.cpu_ns - first.cpu_ns) / 1e3 / turns,
        turns / ((last.at_ns - first.at_ns) / 1e9),
        process.memory_mb(),
        None if first_verdict is None else (first_verdict.at_ns - process.started_ns) / 1e9,
        _routes(process, turns) if name is ContenderName.WORKER else {},
    )


def _routes(process: ContenderProcess, turns: int) -> Mapping[str, int]:
    """Return the worker's rows by route; it counts a batch just after its verdicts are acknowledged."""
    deadline = time.monotonic() + _PATIENCE_S
    while sum((routes := process.decoded_rows()).values()) < turns:
        process.check_running()
        if time.monotonic() > deadline:
            raise TimeoutError(f"the worker counts {sum(routes.values())} of {turns} rows")
        time.sleep(_POLL_S)
    return routes


def _wait_for_last_fetch(process: ContenderProcess) -> Mark:
    deadline = time.monotonic() + _PATIENCE_S
    while (mark := process.last_fetch()) is None:
        process.check_running()
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end after {_PATIENCE_S:.0f} s:\n{process.log()[-2_000:]}")
        time.sleep(_POLL_S)
    return mark


def wait_for_verdicts(process: ContenderProcess, verdicts: VerdictCounter, turns: int) -> tuple[Mark, Mark]:
    """Wait until there are ``turns`` verdicts; return the moments of the last and of the first.

    Raises:
        TimeoutError: it got no further for long; the message has the end of its log.
        RuntimeError: the process ended.
    """
    first, seen = None, 0
    deadline = time.monotonic() + _PATIENCE_S
    while seen < turns:
        time.sleep(_POLL_S)
        process.check_running()
        count, mark = verdicts.count(), process.mark()
        if count > seen:
            first, seen, deadline = first or mark, count, mark.at_ns / 1e9 + _PATIENCE_S
        elif time.monotonic() > deadline:
            raise TimeoutError(
                f"{count} of {turns} verdicts, and none more for {_PATIENCE_S:.0f} s:\n{process.log()[-2_000:]}"
            )
    if first is None:
        raise ValueError("a run needs at least one turn")
    return mark, first
