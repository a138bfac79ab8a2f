"""Publishing generated traffic as a well-behaved producer does: keyed, idempotent, paced."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from workers.config import KafkaSettings
from workers.errors import ConfigurationError, UnreachableError
from workers.keys import partition_of
from workers.processing.outcome import End
from workers.testing.traffic.bad_records import GeneratedRecord
from workers.transport.connection import client_options, explained

PROGRESS_SECONDS: Final = 2.0
_MAX_REQUEST: Final = 2 << 20
"""Above the largest record that is generated on purpose, the one of kind ``too_large``."""


@dataclass(slots=True)
class Published:
    """What Kafka acknowledged, counted as the workers must count it.

    ``ends`` counts by topic and end, ``letters`` by topic and reason, ``verdicts`` by status, or level where graded;
    ``incomplete`` the processed turns with an incomplete fingerprint.
    """

    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    incomplete: int = 0
    seconds: float = 0.0

    def add(self, record: GeneratedRecord) -> None:
        """Count one record."""
        expected = record.expected
        self.ends[record.topic, expected.end.value] += 1
        if expected.reason is not None:
            self.letters[record.topic, expected.reason.value] += 1
        if expected.end is End.PROCESSED and expected.status is not None:
            self.verdicts[expected.level or expected.status] += 1
            self.incomplete += expected.complete is False

    @property
    def records(self) -> int:
        """How many records there are."""
        return self.ends.total()

    def as_dict(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return {
            "records": self.records,
            "seconds": round(self.seconds, 3),
            "expected": _by_topic(self.ends),
            "expected_dead_letters": _by_topic(self.letters),
            "expected_verdicts": dict(sorted(self.verdicts.items())),
            "expected_incomplete": self.incomplete,
        }


def _by_topic(counts: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, name), count in sorted(counts.items()):
        nested.setdefault(topic, {})[name] = count
    return nested


async def publish(
    records: Iterable[GeneratedRecord],
    kafka: KafkaSettings,
    *,
    rate: float = 0.0,
    paced: str | None = None,
    stop: asyncio.Event | None = None,
    progress: Callable[[Published], None] = lambda published: None,
) -> Published:
    """Publish ``records`` in order and return what Kafka acknowledged.

    ``rate`` is in records per second, as fast as possible if 0; it counts the records of topic ``paced``, all if None.
    Setting ``stop`` ends after the record at hand. The partition of a record follows from its key by murmur2, and
    ``progress`` is called every two seconds.

    Raises:
        UnreachableError: Kafka does not answer or refuses a record.
        ConfigurationError: a topic is missing.
    """
    published = Published()
    started = reported = monotonic()
    async with _producer(kafka) as producer:
        sender = _Sender(producer, published)
        number = 0
        for record in records:
            now = monotonic()
            if rate and (due := started + number / rate) > now:
                await _wait(due - now, stop)
            if (stop is not None and stop.is_set()) or sender.failure is not None:
                break
            await sender.send(record)
            number += paced in {None, record.topic}
            if now - reported >= PROGRESS_SECONDS:
                reported = now
                progress(published)
        await producer.flush()
    if sender.failure is not None:
        raise UnreachableError(
            f"Kafka at {kafka.bootstrap_servers} refused a record ({type(sender.failure).__name__}) after "
            f"{published.records} were acknowledged. Compare topics and permissions by `engram-stream topics plan`."
        )
    published.seconds = monotonic() - started
    return published


async def _wait(seconds: float, stop: asyncio.Event | None) -> None:
    if stop is None:
        await asyncio.sleep(seconds)
        return
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


@asynccontextmanager
async def _producer(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(
        **client_options(kafka),
        acks="all",
        enable_idempotence=True,
        linger_ms=5,
        max_batch_size=256 << 10,
        max_request_size=_MAX_REQUEST,
    )
    try:
        with explained(kafka):
            await producer.start()
        yield producer
    finally:
        await producer.stop()


class _Sender:
    """Hands records to the producer and counts the acknowledged ones."""

    def __init__(self, producer: AIOKafkaProducer, published: Published) -> None:
        self._producer = producer
        self._published = published
        self._partitions: dict[str, int] = {}
        self.failure: BaseException | None = None

    async def send(self, record: GeneratedRecord) -> None:
        """Queue ``record``; waits only while the producer's buffer is full."""
        if record.topic not in self._partitions:
            self._partitions[record.topic] = await self._count_partitions(record.topic)
        try:
            future = await self._queue(record)
        except KafkaError as error:
            self.failure = error
            return
        future.add_done_callback(lambda done: self._acknowledge(done, record))

    async def _queue(self, record: GeneratedRecord) -> asyncio.Future[Any]:
        headers, key = list(record.headers), record.key
        if key is None and record.value is None:
            # The client refuses to send such a record one by one, as other clients do not.
            batch = self._producer.create_batch()
            batch.append(key=None, value=None, timestamp=None, headers=headers)
            future: asyncio.Future[Any] = await self._producer.send_batch(batch, record.topic, partition=0)
        else:
            partition = None if key is None else partition_of(key, self._partitions[record.topic])
            future = await self._producer.send(record.topic, record.value, key, partition=partition, headers=headers)
        return future

    def _acknowledge(self, done: asyncio.Future[Any], record: GeneratedRecord) -> None:
        failure = None if done.cancelled() else done.exception()
        if failure is not None:
            self.failure = self.failure or failure
        elif not done.cancelled():
            self._published.add(record)

    async def _count_partitions(self, topic: str) -> int:
        # Asking for this topic alone would create it on a cluster that creates topics by itself.
        cluster = await self._producer.client.fetch_all_metadata()
        partitions = cluster.partitions_for_topic(topic)
        if not partitions:
            raise ConfigurationError(f"topic {topic} does not exist. Create it by `engram-stream topics apply`.")
        return len(partitions)
