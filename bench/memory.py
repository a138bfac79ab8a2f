"""The long run: memory of one worker while turns keep coming, as far ahead of it as a busy topic is."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bench.cluster import TOPICS, TurnWriter, VerdictCounter
from bench.contenders.task import Task
from bench.process import ContenderName, ContenderProcess
from bench.workload import Workload
from workers.testing.kafka_topics import TopicFactory

SETTLED: Final = 300_000
"""Turns after which memory must stay where it is: the windows of duplicates are full."""
TOLERANCE: Final = 0.05

_AHEAD: Final = 50_000
_CHUNK: Final = 1_000
_PATIENCE_S: Final = 90.0


class Sample(NamedTuple):
    """Resident memory in MB (10⁶ bytes) after ``turns``."""

    turns: int
    rss_mb: float


@dataclass(frozen=True, slots=True)
class LongRun:
    """``turns`` in all, one sample every ``every``; ``settings`` are the worker's that differ from its defaults."""

    turns: int
    every: int
    partitions: int
    seed: int
    settings: Mapping[str, str]


def measure_memory(bootstrap_servers: str, how: LongRun, say: Callable[[str], None]) -> list[Sample]:
    """Return the samples of one long run; its input is compressed (lz4), to spare the disk."""
    with TopicFactory(bootstrap_servers) as factory, tempfile.TemporaryDirectory(prefix="engram-bench-") as folder:
        factory.create(*TOPICS, partitions=how.partitions)
        task = Task(bootstrap_servers, factory.prefix, factory.group_id("memory"), how.turns, folder)
        verdicts = VerdictCounter(factory, how.partitions)
        writer = TurnWriter(bootstrap_servers, factory.name("turns"), "lz4")
        with ContenderProcess(ContenderName.WORKER, task, how.settings) as process:
            return list(_follow(process, writer, verdicts, how, say))


def _follow(
    process: ContenderProcess, writer: TurnWriter, verdicts: VerdictCounter, how: LongRun, say: Callable[[str], None]
) -> Sequence[Sample]:
    turns = Workload(how.seed).turns(how.turns)
    samples: list[Sample] = []
    written = seen = 0
    deadline = time.monotonic() + _PATIENCE_S
    while seen < how.turns:
        process.check_running()
        while written < min(how.turns, seen + _AHEAD):
            chunk = list(itertools.islice(turns, _CHUNK))
            writer.write(chunk)
            written += len(chunk)
        time.sleep(0.02)
        count = verdicts.count()
        if count > seen:
            seen, deadline = count, time.monotonic() + _PATIENCE_S
        elif time.monotonic() > deadline:
            raise TimeoutError(f"{seen} verdicts of {how.turns}, and none more:\n{process.log()[-2_000:]}")
        if seen // how.every > (samples[-1].turns // how.every if samples else 0):
            samples.append(Sample(seen, process.memory_mb("VmRSS")))
            say(f"{seen:,} turns: {samples[-1].rss_mb:.0f} MB")
    writer.finish()
    return samples


def drift(samples: Sequence[Sample]) -> float | None:
    """Return the largest departure from the first sample after `SETTLED` turns, as a share of it.

    None with fewer than two samples from then on.
    """
    settled = [sample.rss_mb for sample in samples if sample.turns >= SETTLED]
    if len(settled) < 2:
        return None
    return max(((value - settled[0]) / settled[0] for value in settled), key=abs)
