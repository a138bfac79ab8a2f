"""Read verdicts and print each once. Needs confluent-kafka and fastavro; run it where the folder schemas/ is.

    python read_verdicts.py [N]     stop after N changes; go on until Ctrl-C without N
"""

import io
import json
import os
import sqlite3
import sys
from pathlib import Path

import fastavro
from confluent_kafka import Consumer, KafkaException

TOPIC = os.environ.get("FIDELITY_TOPIC", "fidelity")
READER = fastavro.parse_schema(json.loads(Path("schemas/fidelity/v1.avsc").read_text()))
WRITERS = {3: READER}  # writer's schema by id: schemas/ids.yaml where no registry is used; else ask the registry
COMPLETE = {"present", "not_applicable", "fallback"}


def verdict_of(value: bytes) -> dict:
    writer = WRITERS[int.from_bytes(value[1:5], "big")]  # value[0] is 0: Confluent's framing
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), writer, READER)


def changed(store: sqlite3.Connection, key: bytes, value: bytes | None) -> bool:
    """Keep the last value of each key; tell whether it is another one than before."""
    known = store.execute("SELECT value FROM verdicts WHERE key = ?", (key,)).fetchone()
    if value is None:  # withdrawn, because the conversation was erased
        store.execute("DELETE FROM verdicts WHERE key = ?", (key,))
        return known is not None
    store.execute("INSERT OR REPLACE INTO verdicts VALUES (?, ?)", (key, value))
    return known is None or known[0] != value


def line_of(key: bytes, value: bytes | None) -> str:
    if value is None:
        return f"{key.decode()}: withdrawn"
    verdict = verdict_of(value)
    gaps = [gap["code"] for gap in verdict["missing_evidence"]]
    missing = [f"{part} is {state}" for part, state in verdict["completeness"].items() if state not in COMPLETE]
    level = f"{verdict['level']} ({', '.join(gaps) or 'no gap'})" if verdict["level"] else verdict["status"]
    return f"{key.decode()}: {level}; {'complete' if verdict['complete'] else ', '.join(missing)}"


def main() -> None:
    left = int(sys.argv[1]) if len(sys.argv) > 1 else -1
    store = sqlite3.connect(os.environ.get("VERDICTS_DB", ":memory:"))
    store.execute("CREATE TABLE IF NOT EXISTS verdicts (key BLOB PRIMARY KEY, value BLOB)")
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"),
            "group.id": os.environ.get("GROUP_ID", "verdict-reader"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    try:
        while left:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                raise KafkaException(message.error())
            if changed(store, message.key(), message.value()):
                print(line_of(message.key(), message.value()), flush=True)
                left -= 1
            store.commit()  # first the store, then the offset: what is read twice is found in the store
            consumer.commit(message, asynchronous=False)
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
