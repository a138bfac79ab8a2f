"""A schema registry that is away: what needs it waits, what does not flows, and nothing becomes a dead letter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from serde_builders import field_of, small_turn, turn_schema, write
from tcp_gate import Gate
from turn_records import conversation_in, verdict_key
from worker_process import WorkerProcess, wait_until

from workers.cli import cli
from workers.keys import encode_key
from workers.outputs.dlq import PREFIX
from workers.serde.confluent_registry import ConfluentRegistry, RegistryOptions
from workers.serde.schemas import SUBJECTS, Schema, load
from workers.serde.wire_format import frame
from workers.testing.kafka_io import Message, committed_offsets, end_offsets, produce, read_to_end
from workers.testing.kafka_topics import TopicFactory
from workers.testing.local_registry import LocalSchemaRegistry
from workers.topic_catalogue import load_catalogue

pytestmark = pytest.mark.kafka

WAITING, FLOWING = (conversation_in(partition, 2) for partition in range(2))


@pytest.fixture(scope="module")
def registry() -> Iterator[LocalSchemaRegistry]:
    with LocalSchemaRegistry() as server:
        yield server


async def register(url: str, own: Schema) -> tuple[int, int]:
    """Register our schemas and a producer's own one; return the ids of our turn and of theirs."""
    client = ConfluentRegistry(RegistryOptions(url))
    try:
        ids = {subject: await client.register(subject, load(subject)) for subject in SUBJECTS}
        return ids["turns"], await client.register("a-producers-turns", own)
    finally:
        await client.close()


def of_a_producer() -> Schema:
    """Return our schema as a producer changed it, wrongly: its turn may come without an id."""
    schema = turn_schema()
    field_of(schema, "turn_id")["type"] = ["null", "string"]
    return schema


def message(conversation: str, turn: str | None, schema_id: int, schema: Schema) -> Message:
    record = small_turn(conversation_id=conversation, turn_id=turn)
    return Message(encode_key("acme", conversation), frame(schema_id, write(schema, record)))


def test_an_outage_of_the_registry_holds_what_needs_it_and_ends_by_itself(
    kafka: str, kafka_topics: TopicFactory, registry: LocalSchemaRegistry, tmp_path: Path
) -> None:
    kafka_topics.create(*(topic.name for topic in load_catalogue()), partitions=2)
    turns, own = kafka_topics.name("turns"), of_a_producer()
    known, asked = asyncio.run(register(registry.url, own))

    def send(*messages: Message) -> dict[int, int]:
        asyncio.run(produce(kafka, turns, messages))
        return asyncio.run(end_offsets(kafka, turns))

    target = urlsplit(registry.url)
    with Gate(target.port or 0) as gate:
        url = f"http://127.0.0.1:{gate.port}{target.path}"
        with WorkerProcess(kafka, kafka_topics.prefix, tmp_path, registry__url=url, registry__timeout=2) as worker:
            wait_until(lambda: "not ready: registry" in worker.log(), "the worker says what it waits for")
            assert (worker.probe("/readyz"), worker.probe("/healthz")) == (503, 200)
            send(message(FLOWING, "t-1", known, turn_schema()))

            gate.open()
            worker.wait_ready()
            ends = send(message(WAITING, "t-1", known, turn_schema()))

            def is_committed() -> bool:
                return asyncio.run(committed_offsets(kafka, worker.group, turns)) == ends

            wait_until(is_committed, "everything is committed")

            gate.close()
            without_id = message(WAITING, None, asked, own)
            send(message(WAITING, "t-2", asked, own), without_id)
            halted = {"topic": turns, "partition": "0", "reason": "registry"}
            wait_until(lambda: worker.metric("engram_partition_halted", **halted) == 1, "the partition waits")
            ends = send(message(FLOWING, "t-2", known, turn_schema()))
            committed = {"topic": turns, "partition": "1"}
            wait_until(lambda: worker.metric("engram_committed_offset", **committed) == ends[1], "known ids flow")
            assert worker.metric("engram_dead_letters_total") == 0
            assert worker.metric("engram_registry_requests_total", outcome="unreachable") > 0
            assert (worker.probe("/healthz"), worker.process.poll()) == (200, None)

            gate.open()
            wait_until(is_committed, "everything is committed")
            wait_until(lambda: worker.metric("engram_partition_halted", **halted) == 0, "the gauge falls")
            assert worker.terminate() == 0

    verdicts = asyncio.run(read_to_end(kafka, kafka_topics.name("fidelity")))
    assert sorted(verdict.key or b"" for verdict in verdicts) == sorted(
        verdict_key(conversation, turn) for conversation in (WAITING, FLOWING) for turn in ("t-1", "t-2")
    )
    [letter] = asyncio.run(read_to_end(kafka, kafka_topics.name("turns-dlq")))
    assert letter.value == without_id.value
    # With the same registry, validate says the same of the same bytes.
    payload = tmp_path / "payload.bin"
    payload.write_bytes(without_id.value or b"")
    arguments = ["validate", "--format=jsonl", f"--registry-url={registry.url}", str(payload)]
    judged = json.loads(CliRunner().invoke(cli, arguments).stdout)
    facts = dict(letter.headers)
    assert (judged["reason"], judged["detail"]) == ("schema_resolution", "turn_id")
    assert (facts[PREFIX + "reason"], facts[PREFIX + "detail"]) == (b"schema_resolution", b"turn_id")
