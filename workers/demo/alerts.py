"""The topic ``alerts``, followed from its start."""

from __future__ import annotations

import io
from typing import Any, Final, NamedTuple, cast

import fastavro
from confluent_kafka import Consumer, TopicPartition

from workers.demo.picture import ProducerPath
from workers.serde.avro_schema import plain
from workers.serde.schemas import load

TOPIC: Final = "alerts"
_PREFIX_BYTES: Final = 5
_MOST_AT_ONCE: Final = 500


class SeenAlert(NamedTuple):
    """One alert of the stream; ``at`` is in seconds since the epoch."""

    name: str
    at: float
    tenant: str | None
    producer: ProducerPath
    release: str | None


class AlertReader:
    """Reads the alerts; without a group, so it disturbs nobody's offsets."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._schema = fastavro.parse_schema(cast("dict[str, Any]", plain(load(TOPIC))))
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "demo",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def read_new(self) -> list[SeenAlert]:
        """Return what has come since the last call; never waits."""
        messages = self._consumer.consume(_MOST_AT_ONCE, timeout=0)
        values = [message.value() for message in messages if message.error() is None]
        return [self._decoded(value) for value in values if isinstance(value, bytes)]

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def _decoded(self, value: bytes) -> SeenAlert:
        record = fastavro.schemaless_reader(io.BytesIO(value[_PREFIX_BYTES:]), self._schema, None)
        if not isinstance(record, dict):
            raise TypeError("the schema of alerts is not a record")
        subject = {part["name"]: part["value"] for part in record["subject"]}
        producer = ProducerPath(str(subject.get("service")), str(subject.get("path")))
        at = record["starts_at"]
        seconds = at / 1000 if isinstance(at, int) else at.timestamp()
        return SeenAlert(record["alert"], seconds, record["tenant"], producer, record["release"])
