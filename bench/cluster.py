"""Topics of one round, the turns in them, and how many verdicts have come."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.workload import TurnRecord
from workers.testing.kafka_topics import TopicFactory

TOPICS: Final = ("turns", "state-writes", "fidelity", "alerts", "producer-paths", "turns-dlq", "state-writes-dlq")

_TIMEOUT_S: Final = 30.0
_RETRY_S: Final = 0.2


class TurnWriter:
    """Appends turns to a topic, partitioned by key as every Kafka client does.

    ``compression`` is Kafka's name of it. The default run has none, so that the floor is that of unpacking alone.
    """

    def __init__(self, bootstrap_servers: str, topic: str, compression: str = "none") -> None:
        self._topic = topic
        self._refused: KafkaError | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "partitioner": "murmur2",
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 256 << 10,
                "compression.type": compression,
                "log_level": 0,
            }
        )

    def write(self, turns: Iterable[TurnRecord]) -> None:
        """Queue ``turns``; waits while the queue is full."""
        for turn in turns:
            while not self._queued(turn):
                self._producer.poll(0.05)
            self._producer.poll(0)

    def finish(self) -> None:
        """Wait until the broker has acknowledged everything.

        Raises:
            RuntimeError: it refused a turn.
        """
        self._producer.flush()
        if self._refused is not None:
            raise RuntimeError(f"Kafka refused a turn of {self._topic}: {self._refused}")

    def _queued(self, turn: TurnRecord) -> bool:
        try:
            self._producer.produce(self._topic, key=turn.key, value=turn.value, on_delivery=self._delivered)
        except BufferError:
            return False
        return True

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._refused = self._refused or error


class VerdictCounter:
    """Counts the records that were appended to the verdicts' topic since the counter was made."""

    def __init__(self, factory: TopicFactory, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": factory.bootstrap_servers, "log_level": 0})
        topic = factory.name("fidelity")
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        self._question = {TopicPartition(topic, number): latest for number in range(partitions)}
        self._before = self._ends()

    def count(self) -> int:
        """Return how many there are now."""
        return self._ends() - self._before

    def _ends(self) -> int:
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            answers = self._admin.list_offsets(self._question, request_timeout=_TIMEOUT_S)
            try:
                return sum(int(answer.result(_TIMEOUT_S).offset) for answer in answers.values())
            except KafkaException:
                # A leader that is not ready yet, right after the topic was created.
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)
