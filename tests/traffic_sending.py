"""Generated traffic on its way into Kafka, as fast as it goes or at a pace, noted in the books once acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Self

from accounting import Books, Source
from confluent_kafka import KafkaError, Message, Producer

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
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(bootstrap_servers, records, rate))

    @property
    def flows(self) -> bool:
        """Whether there is more to come."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Send no more, and wait until all that was sent is acknowledged."""
        self._stop.set()
        self.join()

    def join(self) -> None:
        """Wait until everything is sent and acknowledged."""
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


def _send(
    bootstrap_servers: str, records: Iterable[GeneratedRecord], books: Books, rate: float, stop: threading.Event
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 10,
            "message.max.bytes": 2 << 20,
            "log_level": 0,
        }
    )
    failures: list[KafkaError] = []
    started = time.monotonic()
    for number, record in enumerate(records):
        if rate and (wait := started + number / rate - time.monotonic()) > 0:
            stop.wait(wait)
        if stop.is_set() or failures:
            break
        _queue(producer, record, partial(_acknowledged, books, record, failures))
    left = producer.flush(_TIMEOUT_S)
    if failures or left:
        raise RuntimeError(f"Kafka refused records ({failures[:1]}), {left} are not acknowledged")


def _queue(producer: Producer, record: GeneratedRecord, acknowledged: object) -> None:
    while True:
        try:
            producer.produce(
                record.topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                on_delivery=acknowledged,  # type: ignore[arg-type]
            )
        except BufferError:
            producer.poll(1)
        else:
            producer.poll(0)
            return


def _acknowledged(
    books: Books, record: GeneratedRecord, failures: list[KafkaError], error: KafkaError | None, message: Message
) -> None:
    if error is not None:
        failures.append(error)
        return
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    books.add(Source(topic, partition, offset), record)
