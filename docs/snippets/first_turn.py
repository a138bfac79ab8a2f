"""Publish a first turn. Needs confluent-kafka and fastavro; run it where the folder schemas/ is."""

import io
import json
import os
import struct
import time
import uuid
from pathlib import Path

import fastavro
from confluent_kafka import Producer

TOPIC = os.environ.get("TURNS_TOPIC", "turns")
SCHEMA_ID = 1  # of schemas/turns/v1.avsc where no registry is used (schemas/ids.yaml); else the registry's id
SCHEMA = fastavro.parse_schema(json.loads(Path("schemas/turns/v1.avsc").read_text()))


def key_of(*parts: str) -> bytes:
    """Join parts by "|", with "%" and "|" escaped inside each of them."""
    return "|".join(part.replace("%", "%25").replace("|", "%7C") for part in parts).encode()


def framed(record: dict) -> bytes:
    """Byte 0, the schema id in four bytes, then bare Avro."""
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, SCHEMA, record, strict_allow_default=True)
    return struct.pack(">BI", 0, SCHEMA_ID) + payload.getvalue()


def new_turn() -> dict:
    now = time.time_ns() // 1_000_000
    return {
        "tenant": "acme",
        "conversation_id": f"c-{uuid.uuid4()}",
        "turn_id": "t-1",
        "turn_index": 1,
        "assembled_at": now,  # when the definition was read: the event time, in milliseconds
        "completed_at": now + 850,
        "producer": {
            "service": "chat",
            "region": "eu-1",
            "build_id": "2026.05.1",
            "instance_id": "chat-7f9c",
            "path": "web",
        },
        "fingerprint": {
            "definition_id": "ada",
            "definition_version": "v7",
            "state_shape_version": "3",
            "summary_depth": 0,
            "state_counts": {"history": 0, "facts": 2},
            "model_id": "example-1-2026-05-01",
            "moderation_version": None,
            "not_applicable": ["moderation_version"],  # this service has no moderation: said, not forgotten
        },
    }


def publish(turn: dict) -> None:
    producer = Producer(
        {
            "bootstrap.servers": os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"),
            "partitioner": "murmur2_random",  # librdkafka's own default puts keys elsewhere than Kafka's
            "enable.idempotence": True,
            "compression.type": "lz4",
        }
    )
    failed = []
    producer.produce(
        TOPIC,
        key=key_of(turn["tenant"], turn["conversation_id"]),
        value=framed(turn),
        on_delivery=lambda error, message: failed.append(error) if error else None,
    )
    if producer.flush(30) or failed:
        raise SystemExit(f"not published: {failed or 'no answer within 30 s'}")
    print("published", key_of(turn["tenant"], turn["conversation_id"], turn["turn_id"]).decode())


if __name__ == "__main__":
    publish(new_turn())
