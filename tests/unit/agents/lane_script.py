"""A lane whose brokers and whose processing follow a script; no Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast

from aiokafka import AIOKafkaProducer

from workers.agents.halt import Backoff
from workers.agents.lane import Lane
from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter
from workers.metrics.labels import End, HaltReason
from workers.metrics.spec import Tally
from workers.outputs.publisher import Publisher
from workers.processing.outcome import BatchOutcome, RecordResult, rejected
from workers.reasons import Reason, Rejection
from workers.records import Output, Partition, RawRecord, StoredRecord
from workers.transport.batch import BatchState, RecordBatch

TURNS = Partition("turns", 0)

Answer = BaseException | None


class Batch:
    """Stands in for the client's batch; it holds three records."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def append(self, **record: Any) -> object | None:
        if len(self.records) == 3:
            return None
        self.records.append(record)
        return record


class Brokers:
    """Stands in for the idempotent client: takes records in order and answers each as ``answer`` says."""

    def __init__(self) -> None:
        self.answer: Callable[[Output], Answer] = lambda output: None
        self.written: list[Output] = []
        self.open = asyncio.Event()
        self.open.set()
        self.renewed = 0

    @property
    def client(self) -> AIOKafkaProducer:
        return cast("AIOKafkaProducer", self)

    async def renew(self, failed: AIOKafkaProducer) -> None:
        self.renewed += 1

    async def send(self, topic: str, **record: Any) -> asyncio.Future[None]:
        """Take a record whose partition the key decides."""
        output = Output(topic, record["key"], record["value"], record["timestamp_ms"], tuple(record["headers"]))
        answer = self.answer(output)
        if answer is None:
            self.written.append(output)
        return asyncio.ensure_future(self._acknowledge(answer))

    def create_batch(self) -> Batch:
        return Batch()

    async def send_batch(self, batch: Batch, topic: str, *, partition: int) -> asyncio.Future[None]:
        """Take all records of ``batch`` or none: the first that is refused refuses it."""
        outputs = [
            Output(topic, record["key"], record["value"], record["timestamp"], tuple(record["headers"]), partition)
            for record in batch.records
        ]
        refusal = next((answer for answer in map(self.answer, outputs) if answer is not None), None)
        if refusal is None:
            self.written.extend(outputs)
        return asyncio.ensure_future(self._acknowledge(refusal))

    async def _acknowledge(self, answer: Answer) -> None:
        await self.open.wait()
        if answer is not None:
            raise answer

    def on(self, topic: str) -> list[bytes | None]:
        """Return the values written to ``topic``, in order."""
        return [output.value for output in self.written if output.topic == topic]


class Script:
    """A lane, everything around it, and what it did."""

    def __init__(self) -> None:
        self.brokers = Brokers()
        self.judge: Callable[[RawRecord], RecordResult] = verdict
        self.rows: list[Output] = []
        self.obstacle: Callable[[], BaseException | None] = lambda: None
        self.done: list[tuple[RecordBatch, BatchOutcome]] = []
        self.held: list[HaltReason] = []
        self.released = 0
        self.restored = 0
        self.tries = 0
        self.lane = Lane(TURNS, self, Publisher(lambda: self.brokers, Exporter()), self, Backoff(0.0, 0.0))

    async def restore(self) -> None:
        self.restored += 1

    async def process(self, batch: RecordBatch) -> BatchOutcome:
        self.tries += 1
        obstacle = self.obstacle()
        if obstacle is not None:
            raise obstacle
        return BatchOutcome([self.judge(record) for record in batch.records], list(self.rows))

    def letter(self, record: RawRecord, rejection: Rejection, *, truncate: bool = False) -> Output:
        headers = (("reason", rejection.reason.encode()),)
        value = None if truncate else record.value
        return Output("turns-dlq", record.key, value, record.timestamp, headers, TURNS.number, record.offset)

    def completed(self, batch: RecordBatch, outcome: BatchOutcome) -> None:
        self.done.append((batch, outcome))

    def hold(self, partition: Partition, reason: HaltReason) -> None:
        assert partition == TURNS
        self.held.append(reason)

    def release(self, partition: Partition) -> None:
        self.released += 1

    def submit(self, records: Iterable[StoredRecord]) -> RecordBatch:
        """Queue a batch of ``records``."""
        taken = tuple(records)
        batch = RecordBatch(TURNS, 1, taken[0].offset, taken[-1].offset + 1, taken, len(taken), on_complete=_complete)
        self.lane.submit(batch)
        return batch

    @property
    def ends(self) -> list[End]:
        """The ends of all records whose batch is complete."""
        return [result.end for _, outcome in self.done for result in outcome.results]


def _complete(batch: RecordBatch) -> bool:
    if batch.state is BatchState.ABANDONED:
        return False
    assert batch.state is BatchState.STARTED
    batch.state = BatchState.DONE
    return True


def turns(*offsets: int) -> list[StoredRecord]:
    """Return records at ``offsets``."""
    return [StoredRecord(offset, 1_000 + offset, b"conversation", b"%d" % offset) for offset in offsets]


def verdict(record: RawRecord) -> RecordResult:
    """Return the result of a good turn: one output, one count."""
    output = Output(
        "fidelity", b"%d" % record.offset, record.value, record.timestamp, partition=0, source_offset=record.offset
    )
    tally = Tally()
    tally.add(m.CLAMPED, TURNS.topic)
    return RecordResult(record, End.PROCESSED, (output,), tally=tally)


def refused(reason: Reason) -> Callable[[RawRecord], RecordResult]:
    """Return a judge that refuses every record for ``reason``."""
    return lambda record: rejected(record, Rejection(reason, "test"))
