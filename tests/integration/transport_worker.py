"""A worker for tests: logs the spans it completes, and what the transport tells it, as JSON lines.

Run as a process of its own with one JSON object of arguments, see `Arguments`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workers.metrics.labels import CommitOutcome
from workers.records import Partition
from workers.transport.app import BatchApp, create_faust_app
from workers.transport.batch import RecordBatch
from workers.transport.observer import HaltCause, SilentObserver
from workers.transport.options import TransportOptions


@dataclass(frozen=True)
class Arguments:
    """What a test asks of the worker; ``stuck_at`` and ``slow`` name a partition number as text."""

    bootstrap_servers: str
    group: str
    topics: list[str]
    log: str
    datadir: str
    options: dict[str, Any] = field(default_factory=dict)
    session_timeout: float = 6.0
    seconds_per_batch: float = 0.0
    slow: dict[str, float] = field(default_factory=dict)
    stuck: list[int] = field(default_factory=list)


class Journal(SilentObserver):
    """Appends one JSON line per event; a line is in the file before the call returns."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 - lives as long as the process

    def write(self, event: str, **fields: object) -> None:
        self._file.write(json.dumps({"event": event, **fields}) + "\n")

    def on_assigned(self, partitions: AbstractSet[Partition]) -> None:
        self.write("assigned", partitions=sorted(partitions))

    def on_revoked(self, partitions: AbstractSet[Partition]) -> None:
        self.write("revoked", partitions=sorted(partitions))

    def on_commit(self, outcome: CommitOutcome, offsets: Mapping[Partition, int]) -> None:
        self.write("commit", outcome=outcome, offsets=[[*p, offset] for p, offset in offsets.items()])

    def on_halt(self, partition: Partition, offset: int, cause: HaltCause) -> None:
        self.write("halt", partition=partition, offset=offset, cause=cause)

    def on_offsets_lost(self, partition: Partition, first: int, next_offset: int) -> None:
        self.write("lost", partition=partition, first=first, next=next_offset)

    def on_gap(self, partition: Partition, expected: int, got: int) -> None:
        self.write("gap", partition=partition, expected=expected, got=got)

    def on_abandoned(self, partition: Partition, n_records: int) -> None:
        self.write("abandoned", partition=partition, records=n_records)

    def on_late_completion(self, partition: Partition, n_records: int) -> None:
        self.write("late", partition=partition, records=n_records)

    def on_drained(self, seconds: float, abandoned_batches: int) -> None:
        self.write("drained", seconds=seconds, abandoned=abandoned_batches)


class Lanes:
    """One sequential task per partition, as the agents of the product have."""

    def __init__(self, arguments: Arguments, journal: Journal) -> None:
        self._arguments = arguments
        self._journal = journal
        self._queues: dict[Partition, asyncio.Queue[RecordBatch]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def submit(self, batch: RecordBatch) -> None:
        queue = self._queues.get(batch.partition)
        if queue is None:
            queue = self._queues[batch.partition] = asyncio.Queue()
            self._tasks.append(asyncio.create_task(self._run(queue)))
        queue.put_nowait(batch)

    async def _run(self, queue: asyncio.Queue[RecordBatch]) -> None:
        while True:
            batch = await queue.get()
            if batch.begin():
                await self._work(batch)
                topic, number = batch.partition
                done = batch.complete()
                self._journal.write(
                    "span",
                    topic=topic,
                    partition=number,
                    start=batch.start,
                    next=batch.next,
                    done=done,
                    records=len(batch.records),
                    bytes=batch.nbytes,
                )

    async def _work(self, batch: RecordBatch) -> None:
        if batch.partition.number in self._arguments.stuck:
            self._journal.write("stuck", partition=batch.partition, start=batch.start)
            await asyncio.sleep(3600)
        seconds = self._arguments.slow.get(str(batch.partition.number), self._arguments.seconds_per_batch)
        if seconds:
            await asyncio.sleep(seconds)


def build(arguments: Arguments) -> BatchApp:
    """Return the app with one agent per topic."""
    journal = Journal(arguments.log)
    app = create_faust_app(
        arguments.group,
        arguments.bootstrap_servers.split(","),
        options=TransportOptions(**arguments.options),
        observer=journal,
        datadir=Path(arguments.datadir),
        session_timeout=arguments.session_timeout,
        heartbeat_interval=0.5,
        commit_interval=0.3,
    )
    lanes = Lanes(arguments, journal)

    async def work(stream: AsyncIterable[RecordBatch]) -> None:
        async for batch in stream:
            lanes.submit(batch)

    for topic in arguments.topics:
        app.agent(app.batch_topic(topic), name=f"work-{topic}")(work)
    return app


def main() -> None:
    """Run until SIGTERM, then exit with the transport's code."""
    app = build(Arguments(**json.loads(sys.argv[1])))
    worker = app.Worker(loglevel="INFO")
    try:
        worker.execute_from_commandline()
    except SystemExit as exc:
        sys.exit(exc.code or app.exit_code)


if __name__ == "__main__":
    main()
