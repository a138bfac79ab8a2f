"""A compacted topic as a table: read to its end, then followed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from workers.transport.metadata import partitions_of

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 2.0


class CompactedTopic:
    """Follows every partition of a compacted topic, without a group, and hands each record to ``apply``.

    ``apply(key, value)`` gets the raw key and value, None for a deleted row, in the order of each partition.
    """

    def __init__(
        self,
        topic: str,
        client_options: Callable[[], Mapping[str, Any]],
        apply: Callable[[bytes, bytes | None], None],
    ) -> None:
        self._topic = topic
        self._client_options = client_options
        self._apply = apply
        self._consumer: AIOKafkaConsumer | None = None
        self._partitions: list[TopicPartition] = []
        self._positions: dict[TopicPartition, int] = {}
        self._moved = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect and begin to read from the start.

        Raises:
            UnreachableError: the topic is not there, or not ready yet.
            KafkaError: the brokers do not answer.
        """
        options = self._client_options()
        self._partitions = await partitions_of(self._topic, options)
        consumer = AIOKafkaConsumer(**options, enable_auto_commit=False, auto_offset_reset="earliest", group_id=None)
        try:
            await consumer.start()
            consumer.assign(self._partitions)
            await consumer.seek_to_beginning(*self._partitions)
        except BaseException:
            await consumer.stop()
            raise
        self._consumer = consumer
        self._positions = dict.fromkeys(self._partitions, 0)
        self._task = asyncio.create_task(self._follow(consumer), name=f"follow {self._topic}")

    async def stop(self) -> None:
        """Stop following and disconnect."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._consumer is not None:
            await self._consumer.stop()

    async def caught_up(self) -> None:
        """Wait until everything that was in the topic at the time of the call has been applied."""
        consumer = self._consumer
        if consumer is None:
            raise RuntimeError("the topic is not being followed; call start first")
        ends = await self._ends(consumer)
        async with self._moved:
            await self._moved.wait_for(lambda: all(self._positions[tp] >= end for tp, end in ends.items()))

    async def _ends(self, consumer: AIOKafkaConsumer) -> dict[TopicPartition, int]:
        while True:
            try:
                ends: dict[TopicPartition, int] = await consumer.end_offsets(self._partitions)
            except KafkaError as error:
                log.warning("cannot read the end of %s (%s); trying again", self._topic, type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return ends

    async def _follow(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            try:
                fetched = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
                for records in fetched.values():
                    for record in records:
                        if record.key is not None:
                            self._apply(record.key, record.value)
                for tp in self._partitions:
                    self._positions[tp] = await consumer.position(tp)
            except KafkaError as error:
                log.warning("cannot follow %s (%s); trying again", self._topic, type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)
            async with self._moved:
                self._moved.notify_all()
