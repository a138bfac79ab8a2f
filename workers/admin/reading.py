"""Reading whole topics for commands: from the start to the end as it was when the reading began, without a group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from workers.config import KafkaSettings
from workers.errors import UnreachableError
from workers.transport.connection import client_options, explain_connection_error, explained

FETCH_WAIT_MS: Final = 20
"""How long a broker may hold back an empty answer: each new assignment waits for the fetch that is under way."""


@asynccontextmanager
async def reader(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaConsumer]:
    """Give a consumer without a group, connected; what Kafka refuses while it is used is explained too.

    Raises:
        UnreachableError: Kafka does not answer or refuses us.
    """
    with explained(kafka):
        consumer = AIOKafkaConsumer(
            **client_options(kafka),
            group_id=None,
            enable_auto_commit=False,
            isolation_level="read_committed",
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        try:
            await consumer.start()
        except BaseException:
            await consumer.stop()
            raise
    try:
        yield consumer
    except KafkaError as error:
        raise UnreachableError(explain_connection_error(error, (), kafka)) from error
    finally:
        await consumer.stop()


async def read_to_end(
    consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]
) -> AsyncIterator[ConsumerRecord[bytes | None, bytes | None]]:
    """Yield every record of ``partitions``, each in the order of its offsets, up to their ends of now."""
    consumer.assign(list(partitions))
    await consumer.seek_to_beginning(*partitions)
    ends = await consumer.end_offsets(list(partitions))
    open_ones = {tp for tp in partitions if await consumer.position(tp) < ends[tp]}
    while open_ones:
        for tp, records in (await consumer.getmany(*open_ones, timeout_ms=200)).items():
            for record in records:
                if record.offset < ends[tp]:
                    yield record
        open_ones = {tp for tp in open_ones if await consumer.position(tp) < ends[tp]}
