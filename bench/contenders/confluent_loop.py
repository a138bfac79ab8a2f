"""The peer without framework: librdkafka by confluent-kafka and fastavro, in a plain loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer

from bench.contenders.job import RecordJob
from bench.contenders.task import Mark, Task
from workers.processing.lineage import SOURCE_HEADER

_BATCH: Final = 500
_COMMIT_SECONDS: Final = 1.0
"""As often as the worker commits."""


def consume(task: Task) -> None:
    """Judge turns until a signal comes; commit only what is acknowledged."""
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap_servers,
            "group.id": task.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": task.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    job, on_delivery = RecordJob(), _raise_on_failure
    consumer.subscribe([task.input])
    marked, uncommitted, commit_at = False, False, 0.0
    while True:
        messages = consumer.consume(_BATCH, timeout=0.1)
        if messages and not marked:
            Mark.now().write(task.first_mark)
            marked = True
        for message in messages:
            _publish(producer, task.output, message, job, on_delivery)
        uncommitted = uncommitted or bool(messages)
        if uncommitted and time.monotonic() >= commit_at:
            producer.flush()
            consumer.commit(asynchronous=False)
            uncommitted, commit_at = False, time.monotonic() + _COMMIT_SECONDS


def _publish(
    producer: Producer,
    topic: str,
    message: Message,
    job: RecordJob,
    on_delivery: Callable[[KafkaError | None, Message], None],
) -> None:
    value, partition, error = message.value(), message.partition(), message.error()
    if error is not None or value is None or partition is None:
        raise RuntimeError(f"the bench publishes turns only, and got {error or 'a tombstone'}")
    verdict = job.verdict(value)
    source = f"{message.topic()}:{partition}:{message.offset()}".encode()
    producer.produce(
        topic,
        key=verdict.key,
        value=verdict.value,
        partition=partition,
        headers=[(SOURCE_HEADER, source)],
        on_delivery=on_delivery,
    )
    producer.poll(0)


def _raise_on_failure(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise RuntimeError(f"a verdict was not written: {error}")


if __name__ == "__main__":
    consume(Task.from_command_line())
