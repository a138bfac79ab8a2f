"""Single records that a worker must survive, sent to one worker on Apache Kafka among turns that must not suffer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from time import time

import pytest
from accounting import PARTITIONS, Source, fingerprint, header, original, source_of, verdict
from topic_reading import open_offsets, read_topic
from traffic_sending import send_messages
from turn_records import bad_message, turn_message, verdict_key
from worker_process import WorkerProcess

from workers.keys import encode_key
from workers.metrics.labels import End
from workers.serde.encoder import Encoder
from workers.serde.schemas import load, load_ids
from workers.testing.kafka_io import Message, Received
from workers.testing.kafka_topics import TopicFactory
from workers.testing.traffic.state_writes import key_of, state_write
from workers.topic_catalogue import load_catalogue

pytestmark = pytest.mark.kafka

Series = Mapping[frozenset[tuple[str, str]], float]
PERSON = "jane.doe@example.com"


@dataclass(frozen=True)
class Site:
    """A worker at work, and what it showed before the first record."""

    kafka: str
    topics: TopicFactory
    worker: WorkerProcess
    letters_at_start: Series

    def send(self, *messages: Message, topic: str = "turns") -> list[Source]:
        """Send ``messages`` in order, wait until the worker has committed them, and return where they lie."""
        name = self.topics.name(topic)
        sources = send_messages(self.kafka, name, messages)
        self.worker.wait_until(
            lambda: not open_offsets(self.kafka, self.worker.group, [name]), "what was sent is committed"
        )
        return sources

    def verdicts(self, conversation: str) -> list[Received]:
        """Return everything on ``fidelity`` about ``conversation``, oldest first."""
        prefix = encode_key("acme", conversation) + b"|"
        received = read_topic(self.kafka, self.topics.name("fidelity"))
        return [record for record in received if (record.key or b"").startswith(prefix)]

    def letter(self, source: Source) -> Received:
        """Return the only dead letter of the record at ``source``."""
        topic = source.topic + "-dlq"
        (letter,) = [letter for letter in read_topic(self.kafka, topic) if source_of(letter, "engram.dlq.id") == source]
        return letter

    def count(self, name: str, **labels: str) -> float:
        """Return a counter of the worker, of the topic ``turns`` unless ``labels`` say otherwise."""
        return self.worker.metric(name, **{"topic": self.topics.name("turns"), **labels})


@pytest.fixture(scope="module")
def site(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with TopicFactory(kafka) as topics:
        topics.create(*(topic.name for topic in load_catalogue()), partitions=PARTITIONS)
        folder = tmp_path_factory.mktemp("cases")
        with WorkerProcess(kafka, topics.prefix, folder, log__level="DEBUG") as worker:
            worker.wait_ready()
            made = Site(kafka, topics, worker, worker.series("engram_dead_letters_total"))
            # The schema is known from now on, and no later case may ask a registry.
            made.send(turn_message("first", "t-0"))
            yield made
            assert worker.metric("engram_conservation_difference") == 0
            worker.wait_until(lambda: worker.metric("engram_lag_records") == 0, "the lag is 0")
            assert worker.terminate() == 0


def is_letter_of(letter: Received, message: Message, reason: str) -> bool:
    """Tell whether ``letter`` holds ``message`` byte for byte under ``reason``."""
    same = original(letter) == fingerprint(message.key, message.value, message.headers)
    return same and header(letter, "engram.dlq.reason") == reason


def test_one_garbage_value_in_the_middle_of_a_batch_costs_nothing_but_itself(site: Site) -> None:
    messages = [turn_message("long", f"t-{n}") for n in range(2_000)]
    garbage = bad_message("long", "in the middle")
    messages.insert(1_234, garbage)
    sources = site.send(*messages)
    assert is_letter_of(site.letter(sources[1_234]), garbage, "bad_magic")
    assert [record.key for record in site.verdicts("long")] == [verdict_key("long", f"t-{n}") for n in range(2_000)]


def test_a_null_value_nulls_the_verdicts_of_its_conversation_and_no_other(site: Site) -> None:
    turns = [turn_message(name, f"t-{n}") for n in range(3) for name in ("gone", "stays")]
    *_, tombstone = site.send(*turns, Message(encode_key("acme", "gone"), None))
    verdicts = site.verdicts("gone")
    nulled = [record for record in verdicts if record.value is None]
    assert [record.key for record in nulled] == [verdict_key("gone", f"t-{n}") for n in range(3)]
    assert {source_of(record) for record in nulled} == {tombstone}
    assert verdicts[-3:] == nulled
    assert all(record.value is not None for record in site.verdicts("stays"))


def test_a_null_key_is_processed_and_counted_and_a_null_key_and_value_is_a_letter(site: Site) -> None:
    mismatches = site.count("engram_key_mismatch_total")
    nothing = Message(None, None, headers=(("why", b"unknown"), ("why", None)))
    _, source = site.send(replace(turn_message("keyless", "t-0"), key=None), nothing)
    (found,) = site.verdicts("keyless")
    assert found.key == verdict_key("keyless", "t-0")
    assert site.count("engram_key_mismatch_total") == mismatches + 1
    assert is_letter_of(site.letter(source), nothing, "missing_key")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "truncated_frame"),
        (b"\x00\x00\x00\x01", "truncated_frame"),
        (b"\x01" + bytes(16) + b"payload", "bad_magic"),
        (b'{"tenant": "acme"}', "bad_magic"),
    ],
    ids=["empty", "four bytes", "first byte 1", "JSON"],
)
def test_a_value_without_frame_is_a_letter_and_no_registry_is_asked(site: Site, value: bytes, reason: str) -> None:
    requests = site.worker.metric("engram_registry_requests_total")
    message = Message(encode_key("acme", "frameless"), value)
    (source,) = site.send(message)
    assert is_letter_of(site.letter(source), message, reason)
    assert site.worker.metric("engram_registry_requests_total") == requests


def test_poison_as_large_as_its_topic_takes_is_a_letter_with_all_its_bytes(site: Site) -> None:
    poison = Message(
        encode_key("acme", "poison"),
        b"\x02" + Random(1).randbytes(1_048_575),
        headers=(("large", Random(2).randbytes(60_000)), ("large", b"again")),
    )
    source, *_ = site.send(poison, turn_message("poison", "t-after"))
    assert is_letter_of(site.letter(source), poison, "bad_magic")
    assert len(site.verdicts("poison")) == 1


def test_poison_too_large_for_the_letters_topic_is_pointed_at_and_the_others_flow(
    kafka: str, kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    names = {topic.name for topic in load_catalogue()} - {"turns-dlq"}
    kafka_topics.create(*names, partitions=PARTITIONS)
    kafka_topics.create("turns-dlq", partitions=PARTITIONS, max_message_bytes="100000")
    poison = Message(encode_key("acme", "poison"), b"\x02" + Random(1).randbytes(300_000), headers=(("h", b"1"),))
    with WorkerProcess(kafka, kafka_topics.prefix, tmp_path) as worker:
        worker.wait_ready()
        site = Site(kafka, kafka_topics, worker, {})
        before, source, after = site.send(turn_message("poison", "t-0"), poison, turn_message("poison", "t-1"))
        letter = site.letter(source)
        assert letter.value is None
        assert original(letter) == fingerprint(poison.key, None, poison.headers)
        facts = {name: header(letter, f"engram.dlq.{name}") for name in ("reason", "truncated", "size", "sha256")}
        digest = fingerprint(None, poison.value, ()).digest
        assert digest is not None
        assert facts == {"reason": "bad_magic", "truncated": "1", "size": "300001", "sha256": digest.hex()}
        assert [source_of(found) for found in site.verdicts("poison")] in ([before, after], [before, after, after])
        assert worker.metric("engram_conservation_difference") == 0
        assert worker.metric("engram_partition_halted") == 0
        assert worker.terminate() == 0


def test_event_times_far_off_are_told_as_sent_and_a_future_one_is_counted_as_clamped(site: Site) -> None:
    in_ten_years = int(time() * 1000) + 10 * 365 * 86_400_000
    clamped = site.count("engram_clamped_total")
    times = (0, -1, in_ten_years)
    # The producer's own record timestamps count for nothing: the broker stamps what it appends.
    site.send(
        *(
            replace(turn_message("time", f"t-{n}", assembled_at=at), timestamp=in_ten_years)
            for n, at in enumerate(times)
        )
    )
    verdicts = site.verdicts("time")
    assert [verdict(found.value)["event_at"] for found in verdicts if found.value is not None] == list(times)
    assert all(found.timestamp < in_ten_years for found in verdicts)
    assert site.count("engram_clamped_total") == clamped + 1


def test_the_very_first_failure_of_its_kind_raises_a_series_that_stood_at_zero(site: Site) -> None:
    turns = site.topics.name("turns")
    series = frozenset({("topic", turns), ("reason", "trailing_bytes"), ("class", "producer")})
    assert site.letters_at_start[series] == 0
    assert set(site.letters_at_start.values()) == {0}
    turn = turn_message("trailing", "t-0")
    assert turn.value is not None
    site.send(replace(turn, value=turn.value + b"\x00"))
    assert site.worker.series("engram_dead_letters_total")[series] == 1


def test_the_trace_of_a_turn_is_on_its_verdict_and_on_its_letter(site: Site) -> None:
    trace = (
        ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("tracestate", b"rojo=00f067aa0ba902b7"),
    )
    good = replace(turn_message("traced", "t-0"), headers=(*trace, ("other", b"1")))
    _, source = site.send(good, replace(bad_message("traced", "letter"), headers=trace))
    (found,) = site.verdicts("traced")
    assert [pair for pair in found.headers if pair[0] != "engram.source"] == list(trace)
    assert site.letter(source).headers[:2] == trace


def test_a_persons_address_in_a_turn_is_in_no_log_no_metric_and_no_reason(site: Site) -> None:
    part = {"text": f"write to {PERSON}", "ref": None, "sha256": None, "size_bytes": None}
    content: dict[str, object] = {"user_message": part, "reply": None, "memories": [], "events": []}
    poison = turn_message("private", "t-0", content=content)
    assert poison.value is not None
    path, version = (
        turn_message("private", "t-1", producer={"service": f"chat for {PERSON}", "path": f"/users/{PERSON}"}),
        turn_message(
            "private",
            "t-2",
            fingerprint={"definition_id": "d", "definition_version": PERSON, "model_id": PERSON},
            provider_id=PERSON,
        ),
    )
    sources = site.send(
        replace(poison, value=poison.value[:-1]),
        replace(poison, value=poison.value.replace(b"write", b"\xff\xfe\xfd\xfc\xfb")),
        turn_message("private", f"\x00{PERSON}"),
        turn_message("private", "t-3", provider_id=PERSON * 100),
        Message(PERSON.encode(), None),
        path,
        version,
    )
    assert len(site.verdicts("private")) == 2
    assert PERSON not in site.worker.log()
    assert PERSON not in site.worker.scrape()
    for source in sources[:5]:
        added = [content for name, content in site.letter(source).headers if name.startswith("engram.")]
        assert all(PERSON.encode() not in (content or b"") for content in added)


def test_services_over_the_cap_count_under_other_and_no_turn_is_missing(site: Site) -> None:
    before = site.worker.metric("engram_fidelity_turns_total")
    folded = site.worker.metric("engram_label_overflow_total", metric="engram_fidelity_turns_total")
    site.send(*(turn_message("services", f"t-{n}", producer={"service": f"service-{n}"}) for n in range(80)))
    services = {dict(series)["service"] for series in site.worker.series("engram_fidelity_turns_total")}
    assert "other" in services
    assert len(services) <= 51
    assert site.worker.metric("engram_fidelity_turns_total") == before + 80
    assert site.worker.metric("engram_label_overflow_total", metric="engram_fidelity_turns_total") >= folded + 30


def test_a_state_write_is_accepted_and_counted_and_one_of_an_unknown_kind_is_a_letter(site: Site) -> None:
    writes = site.topics.name("state-writes")
    scope = {"tenant": "acme", "scope_type": "conversation", "scope_id": "c-1"}
    encoder = Encoder(load("state-writes"), load_ids()["state-writes"][1].id)
    accepted, unknown = (
        state_write(f"w-{kind}", kind, 1_796_000_000_000, scope, {"service": "chat"}, **fields)
        for kind, fields in (("fact_deleted", {"piece": "facts", "item_id": "f-1"}), ("fact_teleported", {}))
    )
    messages = [Message(key_of(write), encoder.encode(write)) for write in (accepted, unknown)]
    _, source = site.send(*messages, topic="state-writes")
    assert is_letter_of(site.letter(source), messages[1], "unknown_kind")
    assert site.count("engram_records_total", topic=writes, end=End.PROCESSED) == 1
    assert site.count("engram_records_total", topic=writes, end=End.DLQ) == 1
    assert site.count("engram_records_received_total", topic=writes) == 2
