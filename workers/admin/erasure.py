"""Erasing a conversation: tombstones, what workers null, what is left, and the proof that nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final, TypeAlias

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import TopicPartition

from workers.admin.reading import read_to_end, reader
from workers.config import Settings
from workers.errors import UnreachableError
from workers.keys import encode_key, partition_of
from workers.processing.lineage import SOURCE_HEADER
from workers.topic_catalogue import topic_name
from workers.transport.connection import client_options, explained
from workers.transport.metadata import partitions_of

POLL_SECONDS: Final = 0.5
Verdict: TypeAlias = ConsumerRecord[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Erasure:
    """What an erasure did, in verdicts of the conversation on ``fidelity``.

    ``by_workers`` were null when the scan began, ``here`` were nulled by it, ``newer`` stem from turns behind the
    tombstone and stay, ``left`` are what the proof still found and must be 0.
    """

    by_workers: int
    here: int
    newer: int
    left: int


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The tombstone on ``turns``: where it stands and when the broker appended it, in milliseconds."""

    partition: TopicPartition
    offset: int
    append_time: int

    def covers(self, verdict: Verdict) -> bool:
        """Whether the turn behind ``verdict`` stands before the tombstone."""
        source = next((content for name, content in verdict.headers if name == SOURCE_HEADER), None)
        topic, _, place = (source or b"").decode().partition(":")
        if (topic, place.partition(":")[0]) == (self.partition.topic, str(self.partition.partition)):
            return int(place.partition(":")[2]) <= self.offset
        return int(verdict.timestamp) <= self.append_time


async def erase(
    settings: Settings, tenant: str, conversation: str, patience: float, progress: Callable[[str], None]
) -> Erasure:
    """Erase a conversation and prove it; a conversation already erased is left as it is.

    ``patience`` in seconds bounds the wait for the workers. ``progress`` gets a line for each step.

    Raises:
        UnreachableError: Kafka does not answer, a topic is missing, or no worker got past the tombstone in time; run it
            again then.
    """
    key = encode_key(tenant, conversation)
    fidelity = topic_name("fidelity", settings.topics.prefix)
    async with reader(settings.kafka) as consumer:
        partitions = await partitions_of(fidelity, client_options(settings.kafka))
        place = partitions[partition_of(key, len(partitions))]
        with explained(settings.kafka):
            producer = AIOKafkaProducer(**client_options(settings.kafka), enable_idempotence=True, acks="all")
            await producer.start()
        try:
            tombstone = await _send_tombstones(settings, producer, key)
            progress(f"tombstone at {tombstone.partition.topic}:{tombstone.partition.partition}:{tombstone.offset}")
            await _wait_for_workers(settings, tombstone, patience, progress)
            latest = await _latest(consumer, place, key)
            live = [verdict for verdict in latest.values() if verdict.value is not None and tombstone.covers(verdict)]
            progress(f"{len(latest)} verdicts of the conversation found, {len(live)} left to null")
            await _null(producer, place, live, tombstone)
        finally:
            await producer.stop()
        proof = (await _latest(consumer, place, key)).values()
    values = [verdict for verdict in proof if verdict.value is not None]
    left = sum(tombstone.covers(verdict) for verdict in values)
    return Erasure(sum(verdict.value is None for verdict in latest.values()), len(live), len(values) - left, left)


async def _send_tombstones(settings: Settings, producer: AIOKafkaProducer, key: bytes) -> Tombstone:
    sent = {}
    for name in ("state-writes", "turns"):
        topic = topic_name(name, settings.topics.prefix)
        number = partition_of(key, len(await partitions_of(topic, client_options(settings.kafka))))
        sent[name] = await producer.send_and_wait(topic, key=key, value=None, partition=number)
    turns = sent["turns"]
    return Tombstone(TopicPartition(turns.topic, turns.partition), turns.offset, turns.timestamp)


async def _wait_for_workers(
    settings: Settings, tombstone: Tombstone, patience: float, progress: Callable[[str], None]
) -> None:
    """Wait until the workers' group has committed past the tombstone: all verdicts before it are written then."""
    group, place = settings.kafka.group_id, tombstone.partition
    with explained(settings.kafka):
        admin = AIOKafkaAdminClient(**client_options(settings.kafka))
        await admin.start()
    try:
        deadline, told = monotonic() + patience, monotonic()
        while True:
            offsets = await admin.list_consumer_group_offsets(group, partitions=[place])
            committed = offsets[place].offset if place in offsets else -1
            if committed > tombstone.offset:
                return
            if monotonic() >= deadline:
                raise UnreachableError(
                    f"no worker of group {group} got past {place.topic}:{place.partition}:{tombstone.offset} within "
                    f"{patience:g} s (committed: {max(committed, 0)}). Start or repair the "
                    "workers, then run this again."
                )
            if monotonic() - told >= 2:
                told = monotonic()
                progress(f"waiting for the workers: {max(committed, 0)} of {tombstone.offset + 1}")
            await asyncio.sleep(POLL_SECONDS)
    finally:
        await admin.close()


async def _latest(consumer: AIOKafkaConsumer, place: TopicPartition, key: bytes) -> dict[bytes, Verdict]:
    """Return the last record of every verdict key of the conversation ``key``."""
    found: dict[bytes, Verdict] = {}
    async for record in read_to_end(consumer, [place]):
        if record.key is not None and record.key.startswith(key + b"|"):
            found[record.key] = record
    return found


async def _null(
    producer: AIOKafkaProducer, place: TopicPartition, verdicts: list[Verdict], tombstone: Tombstone
) -> None:
    source = f"{tombstone.partition.topic}:{tombstone.partition.partition}:{tombstone.offset}".encode()
    sent = [
        await producer.send(
            place.topic,
            key=verdict.key,
            value=None,
            partition=place.partition,
            timestamp_ms=tombstone.append_time,
            headers=[(SOURCE_HEADER, source)],
        )
        for verdict in verdicts
    ]
    await asyncio.gather(*sent)
