"""Generated traffic on its way into Kafka, as fast as it goes or at a pace, noted in the books once acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from accounting import Books, Source
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivered
from topic_reading import count_records

from workers.testing.kafka_io import Message
from workers.testing.traffic import GeneratedRecord

_TIMEOUT_S = 60.0


def send(bootstrap_servers: str, records: Iterable[GeneratedRecord], rate: float = 0.0) -> Books:
    """Send ``records`` in order and return the books; ``rate`` is in records per second, 0 as fast as it goes."""
    books = Books()
    _send(bootstrap_servers, records, books, rate, threading.Event())
    return books


class Traffic:
    """Sends in a thread of its own while the test does something else; a context manager, which waits for the end."""

    def __init__(self, bootstrap_servers: str, records: Iterable[GeneratedRecord], rate: float) -> None:
        self.books = Books()
        self._bootstrap_servers = bootstrap_servers
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(bootstrap_servers, records, rate))

    def stop_after(self, turns: int, topic: str) -> None:
        """Send until ``topic`` holds as many as ``turns`` records, then no more, and wait for what is on its way."""
        while self._thread.is_alive() and count_records(self._bootstrap_servers, topic) < turns:
            self._thread.join(0.5)
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self, bootstrap_servers: str, records: Iterable[GeneratedRecord], rate: float) -> None:
        try:
            _send(bootstrap_servers, records, self.books, rate, self._stop)
        except Exception as error:  # noqa: BLE001 - raised again by join
            self._failure = error


def settings(bootstrap_servers: str) -> dict[str, str | int | bool]:
    """Return the settings of a well-behaved producer on librdkafka."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "partitioner": "murmur2_random",
        "enable.idempotence": True,
        "compression.type": "lz4",
        "linger.ms": 10,
        "message.max.bytes": 2 << 20,
        "log_level": 0,
    }


def queue(producer: Producer, record: GeneratedRecord, books: Books) -> None:
    """Give ``record`` to ``producer``; once acknowledged it stands in ``books``.

    Raises:
        KafkaException: Kafka refused this record, or one before it.
    """
    while True:
        try:
            producer.produce(
                record.topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                on_delivery=partial(_acknowledged, books, record),
            )
        except BufferError:
            producer.poll(1)
        else:
            producer.poll(0)
            return


def _send(
    bootstrap_servers: str, records: Iterable[GeneratedRecord], books: Books, rate: float, stop: threading.Event
) -> None:
    producer = Producer(settings(bootstrap_servers))
    started = time.monotonic()
    for number, record in enumerate(records):
        if rate and (wait := started + number / rate - time.monotonic()) > 0:
            stop.wait(wait)
        if stop.is_set():
            break
        queue(producer, record, books)
    left = producer.flush(_TIMEOUT_S)
    assert not left, f"{left} records are not acknowledged"


def send_messages(bootstrap_servers: str, topic: str, messages: Sequence[Message]) -> list[Source]:
    """Send ``messages`` in order and return where each lies; any of them may lack key, value or both.

    Raises:
        KafkaException: Kafka refused one.
    """
    producer = Producer(settings(bootstrap_servers))
    sources: dict[int, Source] = {}
    for number, message in enumerate(messages):
        producer.produce(
            topic,
            value=message.value,
            key=message.key,
            headers=list(message.headers),
            partition=-1 if message.partition is None else message.partition,
            timestamp=message.timestamp or 0,
            on_delivery=partial(_delivered, sources, number),
        )
        producer.poll(0)
    left = producer.flush(_TIMEOUT_S)
    assert not left, f"{left} records are not acknowledged"
    return [sources[number] for number in range(len(messages))]


def _acknowledged(books: Books, record: GeneratedRecord, error: KafkaError | None, delivered: Delivered) -> None:
    books.add(_place(error, delivered), record)


def _delivered(sources: dict[int, Source], number: int, error: KafkaError | None, delivered: Delivered) -> None:
    sources[number] = _place(error, delivered)


def _place(error: KafkaError | None, delivered: Delivered) -> Source:
    if error is not None:
        raise KafkaException(error)
    topic, partition, offset = delivered.topic(), delivered.partition(), delivered.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return Source(topic, partition, offset)
