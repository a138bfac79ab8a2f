"""What the tests of the transport share: apps in this process, workers in others, and waiting for conditions."""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from workers.metrics.labels import CommitOutcome
from workers.records import Partition, RawRecord
from workers.testing.kafka_io import Message, end_offsets, produce
from workers.transport.app import BatchApp, create_faust_app
from workers.transport.batch import RecordBatch
from workers.transport.observer import HaltCause, SilentObserver
from workers.transport.options import TransportOptions
from workers.transport.status import PartitionStatus

WORKER = Path(__file__).with_name("transport_worker.py")

Condition = Callable[[], bool | Awaitable[bool]]


async def until(condition: Condition, what: str, seconds: float = 30.0) -> None:
    """Wait for ``condition``; fail naming ``what`` did not come."""
    deadline = time.monotonic() + seconds
    while True:
        met = condition()
        if inspect.isawaitable(met):
            met = await met
        if met:
            return
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.05)


async def committed(bootstrap_servers: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """Return the committed offsets of ``group``, 0 where there is none."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        offsets = [await consumer.committed(TopicPartition(topic, number)) for number in range(partitions)]
    finally:
        await consumer.stop()
    return {number: offset or 0 for number, offset in enumerate(offsets)}


async def commit_as(bootstrap_servers: str, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commit ``offsets`` for a group that has no member."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        tps = {TopicPartition(*partition): OffsetAndMetadata(offset, "") for partition, offset in offsets.items()}
        consumer.assign(list(tps))
        await consumer.commit(tps)
    finally:
        await consumer.stop()


async def all_committed(bootstrap_servers: str, group: str, topic: str) -> bool:
    """Return whether the committed offsets of ``group`` are the ends of ``topic``."""
    ends = await end_offsets(bootstrap_servers, topic)
    return await committed(bootstrap_servers, group, topic, len(ends)) == ends


async def until_committed(bootstrap_servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Wait until the committed offsets of ``group`` are ``offsets``."""

    async def met() -> bool:
        return await committed(bootstrap_servers, group, topic, len(offsets)) == offsets

    await until(met, f"commits at {offsets}")


async def fill(bootstrap_servers: str, topic: str, count: int, partitions: int, size: int = 200) -> None:
    """Produce ``count`` records, number ``n`` to partition ``n % partitions``, so each holds a contiguous series."""
    value = b"x" * size
    await produce(bootstrap_servers, topic, [Message(b"%d" % n, value, partition=n % partitions) for n in range(count)])


def clean_often(bootstrap_servers: str) -> None:
    """Let the log cleaner look for work every tenth of a second, not every fifteen."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    backoff = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET)
    for node in admin.list_topics(timeout=30).brokers:
        broker = ConfigResource(ConfigResource.Type.BROKER, str(node), incremental_configs=[backoff])
        for future in admin.incremental_alter_configs([broker]).values():
            future.result(timeout=30)


def delete_records(bootstrap_servers: str, partition: Partition, before: int) -> None:
    """Delete the records of ``partition`` below offset ``before``."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    limit = ConfluentPartition(partition.topic, partition.number, before)
    for future in admin.delete_records([limit]).values():
        future.result(timeout=30)


class Recorder(SilentObserver):
    """Remembers what the transport said."""

    def __init__(self) -> None:
        self.halts: list[tuple[Partition, int, HaltCause]] = []
        self.lost: list[tuple[Partition, int, int]] = []
        self.gaps: list[tuple[Partition, int, int]] = []
        self.abandoned: list[tuple[Partition, int]] = []
        self.late: list[tuple[Partition, int]] = []
        self.stale: list[tuple[Partition, int]] = []
        self.commits: list[CommitOutcome] = []
        self.assignments: list[AbstractSet[Partition]] = []
        self.revocations: list[AbstractSet[Partition]] = []

    def on_assigned(self, partitions: AbstractSet[Partition]) -> None:
        self.assignments.append(partitions)

    def on_revoked(self, partitions: AbstractSet[Partition]) -> None:
        self.revocations.append(partitions)

    def on_commit(self, outcome: CommitOutcome, offsets: Mapping[Partition, int]) -> None:
        self.commits.append(outcome)

    def on_halt(self, partition: Partition, offset: int, cause: HaltCause) -> None:
        self.halts.append((partition, offset, cause))

    def on_offsets_lost(self, partition: Partition, first: int, next_offset: int) -> None:
        self.lost.append((partition, first, next_offset))

    def on_gap(self, partition: Partition, expected: int, got: int) -> None:
        self.gaps.append((partition, expected, got))

    def on_stale(self, partition: Partition, n_records: int) -> None:
        self.stale.append((partition, n_records))

    def on_abandoned(self, partition: Partition, n_records: int) -> None:
        self.abandoned.append((partition, n_records))

    def on_late_completion(self, partition: Partition, n_records: int) -> None:
        self.late.append((partition, n_records))


@dataclass
class Running:
    """An app of this process: what it received, and gates its lanes wait at, by partition number.

    Batches of the partitions in ``by_hand`` are left to the test.
    """

    app: BatchApp
    recorder: Recorder
    records: dict[Partition, list[RawRecord]] = field(default_factory=lambda: defaultdict(list))
    batches: list[RecordBatch] = field(default_factory=list)
    started: list[RecordBatch] = field(default_factory=list)
    completions: list[bool] = field(default_factory=list)
    gates: dict[int, asyncio.Event] = field(default_factory=dict)
    by_hand: set[int] = field(default_factory=set)
    _queues: dict[Partition, asyncio.Queue[RecordBatch]] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def close_gate(self, number: int) -> None:
        self.gates[number] = asyncio.Event()

    def offsets(self, partition: Partition) -> list[int]:
        return [record.offset for record in self.records[partition]]

    def status(self, partition: Partition) -> PartitionStatus:
        return next(status for status in self.app.batches.status() if status.partition == partition)

    def lag(self) -> dict[Partition, int | None]:
        return {status.partition: status.lag for status in self.app.batches.status()}

    async def work(self, stream: AsyncIterable[RecordBatch]) -> None:
        async for batch in stream:
            self.batches.append(batch)
            if batch.partition.number in self.by_hand:
                continue
            if batch.partition not in self._queues:
                queue = self._queues[batch.partition] = asyncio.Queue()
                self._tasks.append(asyncio.create_task(self._lane(queue)))
            self._queues[batch.partition].put_nowait(batch)

    async def _lane(self, queue: asyncio.Queue[RecordBatch]) -> None:
        while True:
            batch = await queue.get()
            if not batch.begin():
                continue
            self.started.append(batch)
            gate = self.gates.get(batch.partition.number)
            if gate is not None:
                await gate.wait()
            completed = batch.complete()
            self.completions.append(completed)
            if completed:
                self.records[batch.partition].extend(batch.records)

    async def stop(self) -> None:
        await self.app.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def running(
    bootstrap_servers: str,
    group: str,
    *topics: str,
    recorder: Recorder | None = None,
    configure: Callable[[Running], None] = lambda _: None,
    **options: Any,
) -> AsyncIterator[Running]:
    """Run an app in this process on ``topics``; ``configure`` sees it before it starts."""
    observer = recorder or Recorder()
    with tempfile.TemporaryDirectory() as datadir:
        app = create_faust_app(
            group,
            bootstrap_servers.split(","),
            options=TransportOptions(**options),
            observer=observer,
            datadir=Path(datadir) / "data",
            session_timeout=6.0,
            heartbeat_interval=0.5,
            commit_interval=0.2,
        )
        run = Running(app, observer)
        for topic in topics:
            app.agent(app.batch_topic(topic), name=f"work-{topic}")(run.work)
        configure(run)
        await app.start()
        try:
            yield run
        finally:
            await run.stop()


class WorkerProcess:
    """A worker in a process of its own; see `transport_worker`."""

    def __init__(self, bootstrap_servers: str, group: str, topics: list[str], folder: Path, **arguments: Any) -> None:
        name = uuid.uuid4().hex[:8]
        self.log = folder / f"{name}.jsonl"
        self.output = folder / f"{name}.out"
        given = {
            "bootstrap_servers": bootstrap_servers,
            "group": group,
            "topics": topics,
            "log": str(self.log),
            "datadir": str(folder / name),
            **arguments,
        }
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKER), json.dumps(given)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the journal's events of ``kind``; a line that is still being written is left out."""
        if not self.log.exists():
            return []
        lines = self.log.read_text().split("\n")[:-1]
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def spans(self) -> list[tuple[Partition, int, int]]:
        """Return the completed batches: partition, first offset, next offset."""
        return [
            (Partition(event["topic"], event["partition"]), event["start"], event["next"])
            for event in self.events("span")
            if event["done"]
        ]

    def assigned(self) -> list[list[Partition]]:
        """Return every assignment this worker got, in order."""
        return [[Partition(*partition) for partition in event["partitions"]] for event in self.events("assigned")]

    async def until_completed(self, batches: int) -> None:
        """Wait until this worker has completed that many batches."""
        await until(lambda: len(self.spans()) >= batches, f"{batches} batches completed; {self.tail()}")

    async def terminate(self, seconds: float = 30.0) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        await until(lambda: self.process.poll() is not None, f"worker exits; {self.tail()}", seconds)
        return self.process.returncode

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def tail(self) -> str:
        """Return the end of what the worker printed."""
        return self.output.read_text(errors="replace")[-1500:]


def times_completed(workers: list[WorkerProcess], partition: Partition, end: int) -> list[int]:
    """Return, per offset of ``partition`` below ``end``, how often it was completed over all workers."""
    counts = [0] * end
    for worker in workers:
        for where, start, next_offset in worker.spans():
            if where == partition:
                for offset in range(start, next_offset):
                    counts[offset] += 1
    return counts
