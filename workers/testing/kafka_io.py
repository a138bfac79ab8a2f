"""Records into and out of Kafka, for tests: whole topics, no consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from workers.records import Headers

_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Message:
    """A record to produce; without ``partition`` the key decides, ``timestamp`` is in milliseconds since the epoch."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A record as it lies in its topic."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


async def produce(bootstrap_servers: str, topic: str, messages: Iterable[Message]) -> list[tuple[int, int]]:
    """Append ``messages`` in order; return (partition, offset) of each, acknowledged by all replicas."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, enable_idempotence=True, acks="all", linger_ms=5, max_request_size=8 << 20
    )
    await producer.start()
    try:
        futures = [
            await producer.send(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                partition=message.partition,
                timestamp_ms=message.timestamp,
            )
            for message in messages
        ]
        written = await asyncio.gather(*futures)
    finally:
        await producer.stop()
    return [(metadata.partition, metadata.offset) for metadata in written]


async def read_to_end(bootstrap_servers: str, topic: str) -> list[Received]:
    """Return everything in ``topic`` now, committed transactions only, partition by partition in order of offset.

    Raises:
        TimeoutError: the end was not reached within 30 s.
        LookupError: there is no such topic.
    """
    async with _consumer_of(bootstrap_servers, topic) as consumer, asyncio.timeout(_TIMEOUT_S):
        return await _read(consumer)


async def wait_for_records(
    bootstrap_servers: str, topic: str, count: int, timeout_s: float = _TIMEOUT_S
) -> list[Received]:
    """Read ``topic`` until it has at least ``count`` records, and return all.

    Raises:
        TimeoutError: there were fewer after ``timeout_s`` seconds; the message says how many.
    """
    records: list[Received] = []
    try:
        async with asyncio.timeout(timeout_s):
            while len(records) < count:
                records = await read_to_end(bootstrap_servers, topic)
    except TimeoutError as error:
        raise TimeoutError(f"{topic} has {len(records)} of {count} records after {timeout_s:g} s") from error
    return records


async def committed_offsets(bootstrap_servers: str, group: str, topic: str) -> dict[int, int]:
    """Return the committed offset of ``group`` per partition of ``topic``; partitions without one are absent."""
    async with _admin(bootstrap_servers) as admin:
        offsets = await admin.list_consumer_group_offsets(group)
    return {tp.partition: offset.offset for tp, offset in offsets.items() if tp.topic == topic and offset.offset >= 0}


async def end_offsets(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """Return the offset after the last record per partition of ``topic``.

    Raises:
        LookupError: there is no such topic.
    """
    async with _consumer_of(bootstrap_servers, topic) as consumer:
        ends = await consumer.end_offsets(consumer.assignment())
    return {tp.partition: offset for tp, offset in ends.items()}


@asynccontextmanager
async def _admin(bootstrap_servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@asynccontextmanager
async def _consumer_of(bootstrap_servers: str, topic: str) -> AsyncIterator[AIOKafkaConsumer]:
    # A consumer that is started on a topic waits 40 s for one that is not there; the admin client knows at once.
    async with _admin(bootstrap_servers) as admin:
        (described,) = await admin.describe_topics([topic])
    if described["error_code"] != 0:
        raise LookupError(f"Kafka has no topic {topic} (error {described['error_code']})")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_wait_ms=20,
        max_partition_fetch_bytes=8 << 20,
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, partition["partition"]) for partition in described["partitions"]])
        yield consumer
    finally:
        await consumer.stop()


async def _read(consumer: AIOKafkaConsumer) -> list[Received]:
    partitions: list[TopicPartition] = sorted(consumer.assignment())
    await consumer.seek_to_beginning()
    ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
    found: dict[TopicPartition, list[Received]] = {tp: [] for tp in partitions}
    # The position passes markers and holes of compaction, which no record ever shows.
    while [tp for tp in partitions if await consumer.position(tp) < ends[tp]]:
        for tp, records in (await consumer.getmany(timeout_ms=50)).items():
            found[tp].extend(
                Received(tp.partition, record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
                for record in records
                if record.offset < ends[tp]
            )
    return [record for tp in partitions for record in found[tp]]
