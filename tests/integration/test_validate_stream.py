"""``engram-stream validate`` and a worker on Apache Kafka refuse the same records for the same reasons, and details."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, Message, Producer
from serde_builders import small_turn, turn_schema, write
from worker_process import WorkerProcess, wait_until

from workers.cli import cli
from workers.keys import encode_key
from workers.outputs.dlq import PREFIX
from workers.reasons import CATALOGUE, Reason, ReasonClass
from workers.records import Headers
from workers.serde.limits import TURN_LIMITS, Limits
from workers.serde.schemas import load_ids
from workers.serde.wire_format import SCHEMA_ID_HEADER, frame, guid_header
from workers.testing.golden import golden_payloads
from workers.testing.kafka_io import read_to_end
from workers.testing.kafka_topics import TopicFactory
from workers.topic_catalogue import load_catalogue

pytestmark = pytest.mark.kafka

GOLDEN = {(golden.subject, golden.name): golden for golden in golden_payloads()}
MINIMAL = GOLDEN["turns", "minimal"]
FACT = GOLDEN["state-writes", "fact_written"]
IDS = {subject: versions[1] for subject, versions in load_ids().items()}
OTHER_SUBJECT = IDS["fidelity"].id

NOT_FROM_A_FILE = {
    Reason.DECODE_FAILED: "the net below the scan; no input is known that it misses",
    Reason.SCHEMA_RESOLUTION: "takes a schema of the producer's own: tried with a registry",
    Reason.NOT_OPERATOR: "no kind of record asks for it yet",
    Reason.REJECTED: "no kind of record asks for it yet",
}


@dataclass(frozen=True)
class Case:
    """A broken record as it is sent, and the file that a producer gives to ``validate``."""

    name: str
    reason: Reason
    value: bytes | None
    detail: str | None = None
    subject: str = "turns"
    key: bytes | None = b"acme|c-42"
    headers: Headers = ()
    readable: Mapping[str, Any] | None = None

    def file(self, folder: Path) -> Path:
        """Write the file: readable JSON, the bytes of the value, or the whole record."""
        if self.readable is not None:
            path = folder / "record.json"
            path.write_text(json.dumps(self.readable), encoding="utf-8")
        elif self.value is not None and not self.headers:
            path = folder / "value.bin"
            path.write_bytes(self.value)
        else:
            path = folder / "letter.json"
            headers = [[name, None if content is None else encoded(content)] for name, content in self.headers]
            record = {"headers": headers, "value_base64": None if self.value is None else encoded(self.value)}
            path.write_text(json.dumps(record if self.key is None else record | {"key_base64": encoded(self.key)}))
        return path


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def payload_case(name: str, reason: Reason, payload: bytes, detail: str | None = None) -> Case:
    return Case(name, reason, frame(IDS["turns"].id, payload), detail)


def turn_case(reason: Reason, detail: str | None, **changes: Any) -> Case:
    """A turn that a serializer writes and the contract refuses, given to ``validate`` as JSON."""
    record = small_turn(**changes)
    value = frame(IDS["turns"].id, write(turn_schema(), record))
    return Case(f"{reason}-{detail or 'turn'}", reason, value, detail, readable=record)


def write_case(reason: Reason, detail: str, **changes: Any) -> Case:
    record = FACT.record | changes
    value = frame(IDS["state-writes"].id, FACT._replace(record=record).encode())
    return Case(f"{reason}-write-{detail}", reason, value, detail, "state-writes", readable=record)


def cut(payload: bytes, at: int, new: bytes) -> bytes:
    return payload[:at] + new + payload[at + len(new) :]


LONG = "x" * 1_001
ITEMS = TURN_LIMITS.collection_items
AFTER_IDS = len(b"\x08acme\x08c-42\x06t-7")
"""Where the union ``turn_index`` begins in the minimal turn."""

CASES = [
    Case("value of one byte", Reason.TRUNCATED_FRAME, b"\x00"),
    Case("empty value", Reason.TRUNCATED_FRAME, b""),
    Case("json text", Reason.BAD_MAGIC, b'{"tenant": "acme"}'),
    Case("container file", Reason.BAD_MAGIC, b"Obj\x01" + MINIMAL.payload),
    Case("short header", Reason.BAD_HEADER_FRAMING, MINIMAL.payload, headers=((SCHEMA_ID_HEADER, b"\x01x"),)),
    Case("null header", Reason.BAD_HEADER_FRAMING, b"\x08", headers=((SCHEMA_ID_HEADER, None),)),
    Case("unknown id", Reason.UNKNOWN_SCHEMA_ID, frame(2_000_000_011, MINIMAL.payload)),
    Case(
        "unknown guid",
        Reason.UNKNOWN_SCHEMA_ID,
        MINIMAL.payload,
        headers=(guid_header("00000000-0000-4000-8000-000000000000"),),
    ),
    Case("another subject", Reason.SCHEMA_REJECTED, frame(OTHER_SUBJECT, MINIMAL.payload), "producer"),
    payload_case("empty payload", Reason.PAYLOAD_TRUNCATED, b"", "tenant"),
    payload_case("cut payload", Reason.PAYLOAD_TRUNCATED, MINIMAL.payload[:-1], "content"),
    payload_case("cut text", Reason.PAYLOAD_TRUNCATED, MINIMAL.payload[: AFTER_IDS - 1], "turn_id"),
    payload_case("tail", Reason.TRAILING_BYTES, MINIMAL.payload + b"\x00"),
    payload_case("bad text", Reason.BAD_UTF8, cut(MINIMAL.payload, 1, b"\xff"), "tenant"),
    payload_case("bad union", Reason.BAD_INDEX, cut(MINIMAL.payload, AFTER_IDS, b"\x0e"), "turn_index"),
    payload_case("negative length", Reason.BAD_VALUE, cut(MINIMAL.payload, 0, b"\x01"), "tenant"),
    turn_case(Reason.TOO_LARGE, None, content={"memories": [], "events": [], "reply": {"text": "x" * 1_000_000}}),
    turn_case(Reason.LIMIT_EXCEEDED, "provider_id", provider_id=LONG),
    turn_case(Reason.LIMIT_EXCEEDED, "producer.path", producer={"service": "chat", "path": LONG}),
    turn_case(Reason.LIMIT_EXCEEDED, "user_key", user_key="x" * 201),
    turn_case(Reason.LIMIT_EXCEEDED, "content.memories", content={"memories": [{"id": "m"}] * 201, "events": []}),
    turn_case(
        Reason.LIMIT_EXCEEDED,
        "fingerprint.state_counts",
        fingerprint={"state_counts": {f"p{number}": 0 for number in range(ITEMS + 1)}},
    ),
    turn_case(Reason.INVALID_RECORD, "tenant", tenant="acme corp"),
    turn_case(Reason.INVALID_RECORD, "conversation_id", conversation_id="c\n42"),
    turn_case(Reason.INVALID_RECORD, "turn_id", turn_id=""),
    turn_case(Reason.INVALID_RECORD, "snapshot.expires_at", snapshot={"ref": "s3://bucket/one"}),
    turn_case(Reason.MISSING_EVENT_TIME, None, assembled_at=None),
    Case("no key and no value", Reason.MISSING_KEY, None, key=None),
    Case("key of one part", Reason.BAD_KEY, None, key=b"acme"),
    Case("key not escaped", Reason.BAD_KEY, None, key=b"acme|50%"),
    Case("turn id not text", Reason.BAD_KEY, None, headers=(("engram.turn-id", b"\xff"),)),
    write_case(Reason.UNKNOWN_KIND, "kind", kind="fact_teleported"),
    write_case(Reason.INVALID_RECORD, "scope_type", scope_type="planet"),
    write_case(Reason.INVALID_RECORD, "record_id", record_id=""),
    write_case(Reason.INVALID_RECORD, "seq", seq=0),
    write_case(Reason.INVALID_RECORD, "memory", kind="memory_approved"),
    Case("write-tombstone without key", Reason.MISSING_KEY, None, subject="state-writes", key=None),
    Case("write-tombstone of a turn key", Reason.BAD_KEY, None, subject="state-writes", key=encode_key("a", "b", "c")),
    Case("write-too large", Reason.TOO_LARGE, b"\x00" * (Limits().record_bytes + 1), subject="state-writes"),
]


def name_of(case: Case) -> str:
    return case.name.replace(" ", "-")


Letters = Mapping[str, Mapping[str, str | None]]


@pytest.fixture(scope="module")
def letters(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Letters]:
    """What one worker said of all cases: the facts of their letters, by case; every value is checked on the way."""
    with TopicFactory(kafka) as topics:
        topics.create(*(topic.name for topic in load_catalogue()), partitions=1)
        by_place = send(kafka, topics.name)
        with WorkerProcess(kafka, topics.prefix, tmp_path_factory.mktemp("worker")) as worker:
            worker.wait_ready()
            wait_until(
                lambda: worker.metric("engram_records_total", end="dlq") == len(CASES), "every case is a dead letter"
            )
            assert worker.terminate() == 0
        found: dict[str, Mapping[str, str | None]] = {}
        for subject in ("turns", "state-writes"):
            for letter in asyncio.run(read_to_end(kafka, topics.name(f"{subject}-dlq"))):
                facts = {
                    name.removeprefix(PREFIX): (content or b"").decode()
                    for name, content in letter.headers
                    if name.startswith(PREFIX)
                }
                case = by_place[facts["topic"], int(facts["offset"])]
                unchanged = (letter.key, letter.value) == (case.key, case.value)
                assert unchanged, case.name  # a comparison of megabytes takes its time to be shown
                found[case.name] = facts
        yield found


def send(kafka: str, name: Callable[[str], str]) -> dict[tuple[str, int], Case]:
    """Send the cases; return them by topic and offset."""
    producer = Producer({"bootstrap.servers": kafka, "message.max.bytes": 2 << 20, "log_level": 0})
    places: dict[tuple[str, int], Case] = {}

    def note(case: Case, error: KafkaError | None, message: Message) -> None:
        topic, offset = message.topic(), message.offset()
        assert error is None, error
        assert topic is not None
        assert offset is not None
        places[topic, offset] = case

    for case in CASES:
        producer.produce(
            name(case.subject),
            value=case.value,
            key=case.key,
            headers=list(case.headers),
            partition=0,
            on_delivery=partial(note, case),
        )
    assert producer.flush(30) == 0
    assert len(places) == len(CASES)
    return places


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_file_is_refused_for_the_reason_that_the_stream_has(case: Case, letters: Letters, tmp_path: Path) -> None:
    file = case.file(tmp_path)
    result = CliRunner().invoke(cli, ["validate", "--format=jsonl", f"--subject={case.subject}", str(file)])
    assert result.exit_code == 3, result.output
    row = json.loads(result.stdout)
    letter = letters[case.name]
    assert (row["reason"], row.get("detail")) == (letter["reason"], letter.get("detail"))
    assert (row["reason"], row.get("detail")) == (case.reason, case.detail)


def test_every_reason_that_a_producer_can_cause_is_among_the_cases() -> None:
    caused = {reason for reason, entry in CATALOGUE.items() if entry.reason_class is ReasonClass.PRODUCER}
    assert {case.reason for case in CASES} == caused - NOT_FROM_A_FILE.keys()
    assert len({case.name for case in CASES}) == len(CASES)
