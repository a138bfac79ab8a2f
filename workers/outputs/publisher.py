"""Publishes outputs and tells, for each, whether the brokers acknowledged it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
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
    """Sends outputs in order through an idempotent producer."""

    def __init__(self, producer: Callable[[], RenewableProducer], exporter: Exporter) -> None:
        """Publish through what ``producer`` returns: asked anew each time, since it exists only after the start."""
        self._producer = producer
        self._exporter = exporter

    async def publish(self, outputs: Sequence[Output]) -> list[Refusal]:
        """Send ``outputs`` and wait for every acknowledgement.

        Returns what was not written, in the order given. Behind the first refusal of a partition everything sent to
        that partition is returned as refused too, even where the brokers took it: sending it again, in order, keeps a
        later value of a key later.
        """
        producer = self._producer()
        client = producer.client
        pending = [(output, await self._send(client, output)) for output in outputs]
        results = await asyncio.gather(*(sent for _, sent in pending), return_exceptions=True)
        self._count(outputs, results)
        refusals = list(_refusals(outputs, results))
        if refusals:
            # The sequence numbers of what failed are spent: the broker would refuse all that follows.
            await self._renew(producer, client)
        return refusals

    async def _renew(self, producer: RenewableProducer, failed: AIOKafkaProducer) -> None:
        try:
            await producer.renew(failed)
        except KafkaError as error:
            log.warning("cannot renew the producer (%s); the next try does", type(error).__name__)

    def _count(self, outputs: Iterable[Output], results: Iterable[object]) -> None:
        for output, result in zip(outputs, results, strict=True):
            if isinstance(result, Exception):
                self._exporter.inc(m.PRODUCER_ERRORS, output.topic, _METRIC_REASON[_classify(result)])

    async def _send(self, client: AIOKafkaProducer, output: Output) -> asyncio.Future[object]:
        try:
            if output.key is None and output.value is None:
                return await _send_empty(client, output)
            future: asyncio.Future[object] = await client.send(
                output.topic,
                value=output.value,
                key=output.key,
                partition=output.partition,
                timestamp_ms=output.timestamp,
                headers=list(output.headers),
            )
        except KafkaError as error:
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
        return future


async def _send_empty(client: AIOKafkaProducer, output: Output) -> asyncio.Future[object]:
    """Send a record without key and value, such as the letter of one: ``send`` refuses it, a batch takes it."""
    batch = client.create_batch()
    batch.append(timestamp=output.timestamp, key=None, value=None, headers=list(output.headers))
    future: asyncio.Future[object] = await client.send_batch(batch, output.topic, partition=output.partition)
    return future


def _refusals(outputs: Iterable[Output], results: Sequence[object]) -> Iterable[Refusal]:
    broken: dict[tuple[str, int | None], Refusal] = {}
    for output, result in zip(outputs, results, strict=True):
        target = (output.topic, output.partition)
        if isinstance(result, asyncio.CancelledError):
            raise result
        if isinstance(result, BaseException):
            refusal = Refusal(output, _classify(result), type(result).__name__)
            broken.setdefault(target, refusal)
            yield refusal
        elif target in broken:
            first = broken[target]
            yield Refusal(output, RefusalKind.UNREACHABLE, first.cause)
