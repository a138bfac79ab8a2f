"""Publishes outputs and tells, for each, whether the brokers acknowledged it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka.producer.message_accumulator import BatchBuilder

from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter
from workers.metrics.labels import ProducerError
from workers.records import Output

log = logging.getLogger(__name__)


class RefusalKind(StrEnum):
    """Why an output was not written: the record itself is at fault, or the way to it is."""

    TOO_LARGE = "too_large"
    REJECTED = "rejected"
    FORBIDDEN = "forbidden"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An output that is not written. ``cause`` names the error's class, never its text."""

    output: Output
    kind: RefusalKind
    cause: str


class RenewableProducer(Protocol):
    """The Kafka producer behind the publisher; after a failure it must be renewed before it is used again."""

    @property
    def client(self) -> AIOKafkaProducer:
        """The idempotent client of the moment."""

    async def renew(self, failed: AIOKafkaProducer) -> None:
        """Replace ``failed`` by a new client, once, however many callers ask."""


_METRIC_REASON: Final = {
    RefusalKind.TOO_LARGE: ProducerError.TOO_LARGE,
    RefusalKind.REJECTED: ProducerError.OTHER,
    RefusalKind.FORBIDDEN: ProducerError.AUTHORIZATION,
    RefusalKind.UNREACHABLE: ProducerError.CONNECTION,
}


def _classify(error: BaseException) -> RefusalKind:
    if isinstance(error, MessageSizeTooLargeError | RecordTooLargeError):
        return RefusalKind.TOO_LARGE
    if isinstance(error, InvalidTimestampError):
        return RefusalKind.REJECTED
    if isinstance(error, TopicAuthorizationFailedError):
        return RefusalKind.FORBIDDEN
    return RefusalKind.UNREACHABLE


class Publisher:
    """Sends outputs in order through an idempotent producer.

    They travel by the batch: a future for each record would cost more than the record.
    """

    def __init__(self, producer: Callable[[], RenewableProducer], exporter: Exporter) -> None:
        """Publish through what ``producer`` returns: asked anew each time, since it exists only after the start."""
        self._producer = producer
        self._exporter = exporter

    async def publish(self, outputs: Sequence[Output]) -> list[Refusal]:
        """Send ``outputs`` and wait for every acknowledgement.

        Returns what was not written, topic and partition after each other, each in the order given. Behind the first
        refusal of a partition everything sent to that partition is returned as refused too, even where the brokers
        took it: sending it again, in order, keeps a later value of a key later.
        """
        producer = self._producer()
        client = producer.client
        sent = [
            sending
            for target, run in _by_target(outputs).items()
            for sending in await self._send_run(client, target, run)
        ]
        await asyncio.gather(*(future for _, future in sent), return_exceptions=True)
        refusals = self._refusals(sent)
        if refusals:
            # The sequence numbers of what failed are spent: the broker would refuse all that follows.
            await self._renew(producer, client)
        return refusals

    async def _renew(self, producer: RenewableProducer, failed: AIOKafkaProducer) -> None:
        try:
            await producer.renew(failed)
        except KafkaError as error:
            log.warning("cannot renew the producer (%s); the next try does", type(error).__name__)

    async def _send_run(self, client: AIOKafkaProducer, target: Target, run: list[Output]) -> list[Sending]:
        topic, partition = target
        if partition is None:
            return [([output], await _attempt(_send_alone(client, output))) for output in run]
        sendings: list[Sending] = []
        batch, held = client.create_batch(), 0
        for n, output in enumerate(run):
            if _append(batch, output):
                continue
            sendings.append((run[held:n], await _attempt(client.send_batch(batch, topic, partition=partition))))
            batch, held = client.create_batch(), n
            _append(batch, output)
        sendings.append((run[held:], await _attempt(client.send_batch(batch, topic, partition=partition))))
        return sendings

    def _refusals(self, sent: Iterable[Sending]) -> list[Refusal]:
        broken: dict[Target, str] = {}
        refusals: list[Refusal] = []
        for run, future in sent:
            target = (run[0].topic, run[0].partition)
            error = future.exception()
            if error is not None:
                kind, cause = _classify(error), type(error).__name__
                self._exporter.inc(m.PRODUCER_ERRORS, target[0], _METRIC_REASON[kind], n=len(run))
                broken.setdefault(target, cause)
                refusals.extend(Refusal(output, kind, cause) for output in run)
            elif target in broken:
                refusals.extend(Refusal(output, RefusalKind.UNREACHABLE, broken[target]) for output in run)
        return refusals


Target = tuple[str, int | None]
"""A topic and a partition; None where the partitioner decides."""

Sending = tuple[list[Output], asyncio.Future[object]]
"""Outputs that travel in one batch, and its acknowledgement."""


def _by_target(outputs: Iterable[Output]) -> dict[Target, list[Output]]:
    runs: dict[Target, list[Output]] = {}
    for output in outputs:
        target = (output.topic, output.partition)
        run = runs.get(target)
        if run is None:
            runs[target] = [output]
        else:
            run.append(output)
    return runs


def _append(batch: BatchBuilder, output: Output) -> bool:
    """Add ``output``; False when ``batch`` is full. An empty batch takes any, however large: the broker judges it."""
    added = batch.append(timestamp=output.timestamp, key=output.key, value=output.value, headers=list(output.headers))
    return added is not None


async def _send_alone(client: AIOKafkaProducer, output: Output) -> asyncio.Future[object]:
    future: asyncio.Future[object] = await client.send(
        output.topic, value=output.value, key=output.key, timestamp_ms=output.timestamp, headers=list(output.headers)
    )
    return future


async def _attempt(sending: Awaitable[asyncio.Future[object]]) -> asyncio.Future[object]:
    """Return the acknowledgement to come; a record that cannot even be queued is a failed one."""
    try:
        return await sending
    except KafkaError as error:
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        return future
