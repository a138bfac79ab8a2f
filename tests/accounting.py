"""Double entry for whole runs: what was sent, with the end each record must come to, against what the topics hold."""

from __future__ import annotations

import hashlib
import io
import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, cast

import fastavro
from topic_reading import committed_and_end, read_topic

from workers.keys import encode_key, partition_of
from workers.metrics.labels import End
from workers.records import Headers
from workers.serde.avro_schema import plain
from workers.serde.schemas import Schema, load
from workers.testing.kafka_io import Received
from workers.testing.kafka_topics import TopicFactory
from workers.testing.traffic import BadKind, Expected, GeneratedRecord, TrafficPlan

PARTITIONS = 4
TURNS = int(os.environ.get("TEST_TURNS", "20000"))
"""Turns of an undisturbed run."""
DISTURBED_TURNS = int(os.environ.get("TEST_TURNS", "8000"))
"""Turns of a run during which workers come and go."""

EVERY_KIND = tuple(BadKind)


def plan_with_one_percent_of_each_kind(prefix: str, seed: int) -> TrafficPlan:
    """Return turns and state writes, 1 % of the turns' number bad in each way there is."""
    return TrafficPlan(
        seed=seed,
        bad_share=0.01 * len(EVERY_KIND),
        bad_kinds=EVERY_KIND,
        state_write_share=0.2,
        topic_prefix=prefix,
    )


class Source(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


class Fingerprint(NamedTuple):
    """A record without its bytes; two are equal when key, value and headers are equal byte for byte."""

    key: bytes | None
    size: int
    digest: bytes | None
    headers: Headers


def fingerprint(key: bytes | None, value: bytes | None, headers: Headers) -> Fingerprint:
    """Return the fingerprint of a record."""
    digest = None if value is None else hashlib.sha256(value).digest()
    return Fingerprint(key, len(value or b""), digest, headers)


class Sent(NamedTuple):
    """One acknowledged record and what must become of it."""

    expected: Expected
    kind: BadKind | None
    ids: tuple[str, str, str] | None
    fingerprint: Fingerprint


@dataclass
class Books:
    """Everything that was sent, by where it lies; several producers may write into it, one per record."""

    sent: dict[Source, Sent] = field(default_factory=dict)

    def add(self, source: Source, record: GeneratedRecord) -> None:
        """Note one acknowledged record."""
        self.sent[source] = Sent(
            record.expected, record.kind, record.ids, fingerprint(record.key, record.value, record.headers)
        )

    def __add__(self, other: Books) -> Books:
        return Books({**self.sent, **other.sent})

    def of(self, topic: str, end: End) -> dict[Source, Sent]:
        """Return what was sent to ``topic`` and must come to ``end``."""
        return {
            source: sent for source, sent in self.sent.items() if source.topic == topic and sent.expected.end is end
        }

    def ends(self, topic: str) -> Counter[End]:
        """Return how many records of ``topic`` must come to each end."""
        return Counter(sent.expected.end for source, sent in self.sent.items() if source.topic == topic)

    def kinds(self) -> Counter[BadKind | None]:
        """Return how many records there are of each bad kind."""
        return Counter(sent.kind for sent in self.sent.values())

    def reasons(self, topic: str) -> Counter[str]:
        """Return how many dead letters of each reason ``topic`` must lead to."""
        return Counter(
            str(sent.expected.reason)
            for source, sent in self.sent.items()
            if source.topic == topic and sent.expected.reason is not None
        )


@dataclass
class Outputs:
    """The outputs found in a topic, by the record they stem from."""

    by_source: dict[Source, list[Received]] = field(default_factory=lambda: defaultdict(list))

    @property
    def repeated(self) -> int:
        """How many outputs are second ones of their record."""
        return sum(len(outputs) - 1 for outputs in self.by_source.values())


def verdict(value: bytes) -> dict[str, Any]:
    """Decode a value of ``fidelity`` by its schema, timestamps as milliseconds."""
    decoded = fastavro.schemaless_reader(io.BytesIO(value[5:]), _verdict_schema(), None)
    assert isinstance(decoded, dict)
    return decoded


@cache
def _verdict_schema() -> Any:
    return fastavro.parse_schema(cast("Schema", plain(load("fidelity"))))


def header(received: Received, name: str) -> str | None:
    """Return the only header ``name`` of a record, None where there is none."""
    found = [content for key, content in received.headers if key == name]
    assert len(found) <= 1, f"{len(found)} headers {name}"
    return found[0].decode() if found and found[0] is not None else None


def source_of(received: Received, name: str = "engram.source") -> Source:
    """Return which record an output stems from."""
    topic, partition, offset = (header(received, name) or "").rsplit(":", 2)
    return Source(topic, int(partition), int(offset))


def check_verdicts(bootstrap_servers: str, fidelity: str, turns: str, books: Books, allowed: Books) -> Outputs:
    """Assert that every good turn has its verdict, none another, and repeated ones are equal byte for byte.

    The tombstone of a single turn nulls its verdict, known or not. A repeat of a turn may have a verdict of its own
    where a worker has started after the first one: see the delivery guarantees.
    """
    may_have = allowed.of(turns, End.PROCESSED) | allowed.of(turns, End.DUPLICATE)
    tombstones = allowed.of(turns, End.TOMBSTONE)
    found = Outputs()
    for received in read_topic(bootstrap_servers, fidelity):
        source = source_of(received)
        if received.value is None:
            assert source in tombstones, f"{source} is no tombstone, and nulls a verdict"
            continue
        assert source in may_have, f"{source} must have no verdict"
        others = found.by_source[source]
        assert all((other.key, other.value) == (received.key, received.value) for other in others), f"{source} differs"
        if not others:
            check_verdict(received, may_have[source])
        others.append(received)
    missing = books.of(turns, End.PROCESSED).keys() - found.by_source.keys()
    assert not missing, f"{len(missing)} turns without a verdict, such as {min(missing)}"
    return found


def check_verdict(received: Received, sent: Sent) -> None:
    """Assert that a verdict has the key, the place and the judgement of its turn."""
    assert sent.ids is not None
    assert received.key == encode_key(*sent.ids)
    assert received.partition == partition_of(encode_key(*sent.ids[:2]), PARTITIONS)
    assert received.value is not None
    if sent.expected.end is End.PROCESSED:
        decoded = verdict(received.value)
        expected = sent.expected
        assert (decoded["tenant"], decoded["conversation_id"], decoded["turn_id"]) == sent.ids
        assert (decoded["status"], decoded["level"], decoded["complete"]) == (
            expected.status,
            expected.level,
            expected.complete,
        )


def check_letters(bootstrap_servers: str, letters: str, topic: str, books: Books, allowed: Books) -> Outputs:
    """Assert that every bad record of ``topic`` lies in ``letters`` byte for byte with its reason, and none else."""
    may_have = allowed.of(topic, End.DLQ)
    found = Outputs()
    for received in read_topic(bootstrap_servers, letters):
        source = source_of(received, "engram.dlq.id")
        assert source in may_have, f"{source} must have no letter"
        check_letter(received, may_have[source], source)
        found.by_source[source].append(received)
    missing = books.of(topic, End.DLQ).keys() - found.by_source.keys()
    assert not missing, f"{len(missing)} bad records without a letter, such as {min(missing)}"
    return found


def check_letter(received: Received, sent: Sent, source: Source) -> None:
    """Assert that a letter holds the record as it was sent, and what the headers of letters say of it."""
    assert original(received) == sent.fingerprint, f"{source} is not the record that was sent"
    assert received.partition == source.partition
    assert header(received, "engram.dlq.reason") == sent.expected.reason
    assert header(received, "engram.dlq.topic") == source.topic
    assert header(received, "engram.dlq.partition") == str(source.partition)
    assert header(received, "engram.dlq.offset") == str(source.offset)
    assert header(received, "engram.dlq.timestamp") == str(received.timestamp)
    assert header(received, "engram.dlq.attempt") == "1"


def original(received: Received) -> Fingerprint:
    """Return the fingerprint of the record inside a letter: its own headers come first, in their order."""
    names = [name for name, _ in received.headers]
    added = next(n for n, name in enumerate(names) if name.startswith("engram.dlq."))
    assert all(name.startswith("engram.dlq.") for name in names[added:]), names
    return fingerprint(received.key, received.value, received.headers[:added])


def check_all_outputs(
    bootstrap_servers: str, topics: TopicFactory, books: Books, tolerated: Books | None = None
) -> int:
    """Assert that verdicts and letters are what the books demand; return how many are second ones of their record.

    Records in ``tolerated`` alone may have an output, the one that is due to them, but need not.
    """
    turns, writes = topics.name("turns"), topics.name("state-writes")
    allowed = books + (tolerated or Books())
    return (
        check_verdicts(bootstrap_servers, topics.name("fidelity"), turns, books, allowed).repeated
        + check_letters(bootstrap_servers, topics.name("turns-dlq"), turns, books, allowed).repeated
        + check_letters(bootstrap_servers, topics.name("state-writes-dlq"), writes, books, allowed).repeated
    )


def check_commits(bootstrap_servers: str, topics: TopicFactory, group: str, books: Books) -> None:
    """Assert that exactly the records below the commits of ``group`` have their verdict or letter."""
    turns, writes = topics.name("turns"), topics.name("state-writes")
    offsets = committed_and_end(bootstrap_servers, group, [turns, writes])
    has_output = books.of(turns, End.PROCESSED) | books.of(turns, End.DLQ) | books.of(writes, End.DLQ)
    below = {source for source in has_output if source.offset < offsets[source.topic, source.partition][0]}
    found = {
        source_of(received) for received in read_topic(bootstrap_servers, topics.name("fidelity")) if received.value
    }
    for letters in ("turns-dlq", "state-writes-dlq"):
        found |= {
            source_of(received, "engram.dlq.id") for received in read_topic(bootstrap_servers, topics.name(letters))
        }
    assert found & has_output.keys() == below
