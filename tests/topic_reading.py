"""What lies in a topic, read record by record by another client than the product's, so that it fits in memory."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from workers.testing.kafka_io import Received

_TIMEOUT_S = 30.0


def read_topic(bootstrap_servers: str, topic: str) -> Iterator[Received]:
    """Yield all of ``topic`` up to its end of now, committed transactions only, each partition in order.

    Raises:
        TimeoutError: nothing came for 30 s.
    """
    with _consumer(bootstrap_servers) as consumer:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        unread = set(partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        while unread:
            message = consumer.poll(_TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"{topic}: nothing came, partitions {sorted(unread)} are not read to their ends")
            failure = message.error()
            if failure is None:
                yield _received(message)
            elif failure.code() == KafkaError._PARTITION_EOF:
                unread.discard(_number(message))
            else:
                raise KafkaException(failure)


def count_records(bootstrap_servers: str, topic: str) -> int:
    """Return the sum of the end offsets of ``topic``."""
    with _consumer(bootstrap_servers) as consumer:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        return sum(_end(consumer, TopicPartition(topic, number)) for number in partitions)


def committed_and_end(bootstrap_servers: str, group: str, topics: list[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the committed offset of ``group``, 0 where there is none, and the end, by topic and partition."""
    with _consumer(bootstrap_servers, group) as consumer:
        partitions = [
            TopicPartition(topic, number)
            for topic in topics
            for number in consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
        ]
        return {
            (found.topic, found.partition): (max(found.offset, 0), _end(consumer, found))
            for found in consumer.committed(partitions, timeout=_TIMEOUT_S)
        }


def open_offsets(bootstrap_servers: str, group: str, topics: list[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the same of those partitions alone where the two differ."""
    offsets = committed_and_end(bootstrap_servers, group, topics)
    return {partition: (committed, end) for partition, (committed, end) in offsets.items() if committed != end}


@contextmanager
def _consumer(bootstrap_servers: str, group: str | None = None) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group or f"reading-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
            "queued.max.messages.kbytes": 65_536,
            "log_level": 0,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            _, end = consumer.get_watermark_offsets(partition, timeout=_TIMEOUT_S)
        except KafkaException as error:  # the topic is new, and its broker not yet told
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                raise
        else:
            return int(end)


def _number(message: Message) -> int:
    number = message.partition()
    assert number is not None
    return number


def _received(message: Message) -> Received:
    offset, (_, timestamp) = message.offset(), message.timestamp()
    assert offset is not None
    headers = tuple(cast("list[tuple[str, bytes | None]]", message.headers() or []))
    return Received(_number(message), offset, timestamp, _bytes(message.key()), _bytes(message.value()), headers)


def _bytes(content: str | bytes | None) -> bytes | None:
    assert not isinstance(content, str)
    return content
