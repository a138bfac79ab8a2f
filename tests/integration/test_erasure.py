"""Erasing a conversation, or one turn of it, while workers run and others' turns keep coming."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from command_line import engram_stream
from traffic_sending import Traffic
from turn_records import turn_message, verdict_key
from worker_process import WorkerProcess, wait_until

from workers.keys import encode_key
from workers.testing.kafka_io import Message, Received, committed_offsets, end_offsets, produce, read_to_end
from workers.testing.kafka_topics import TopicFactory
from workers.testing.traffic import TrafficPlan
from workers.topic_catalogue import load_catalogue

pytestmark = pytest.mark.kafka

PARTITIONS = 4
ERASED = "to be | forgotten 100%"
"""A conversation whose name has to be escaped in keys."""
ARGUMENT = encode_key("acme", ERASED).decode()
NEIGHBOUR = ERASED + "|0"
"""A conversation whose keys begin almost like the erased one's."""


@pytest.fixture
def topics(kafka_topics: TopicFactory) -> TopicFactory:
    kafka_topics.create(*(topic.name for topic in load_catalogue()), partitions=PARTITIONS)
    return kafka_topics


def send(kafka: str, topic: str, messages: Iterable[Message]) -> None:
    asyncio.run(produce(kafka, topic, messages))


def wait_committed(kafka: str, worker: WorkerProcess, topic: str) -> None:
    ends = {number: end for number, end in asyncio.run(end_offsets(kafka, topic)).items() if end}
    wait_until(
        lambda: all(
            asyncio.run(committed_offsets(kafka, worker.group, topic)).get(number, 0) >= end
            for number, end in ends.items()
        ),
        "what was sent is committed",
    )


def last_of_each(records: Iterable[Received]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


def verdicts(kafka: str, topics: TopicFactory) -> list[Received]:
    return asyncio.run(read_to_end(kafka, topics.name("fidelity")))


def test_an_erased_conversation_leaves_no_verdict_while_others_keep_theirs(
    kafka: str, topics: TopicFactory, tmp_path: Path
) -> None:
    turns = topics.name("turns")
    old, new = ([f"t-{number}" for number in numbers] for numbers in (range(300), range(300, 500)))
    traffic = Traffic(kafka, TrafficPlan(seed=3, topic_prefix=topics.prefix).records(None), rate=150)
    with WorkerProcess(kafka, topics.prefix, tmp_path) as worker:
        with traffic:
            send(kafka, turns, [turn_message(ERASED, turn) for turn in old])
            worker.wait_ready()
            wait_committed(kafka, worker, turns)
            # A new process does not know the turns of the old one: their verdicts are left to the command.
            assert worker.terminate() == 0
            worker.start()
            send(kafka, turns, [turn_message(ERASED, turn) for turn in new])
            send(kafka, turns, [turn_message(NEIGHBOUR, turn) for turn in old])
            worker.wait_ready()
            wait_committed(kafka, worker, turns)
            kept = last_of_each(verdicts(kafka, topics))

            done = engram_stream(kafka, topics.prefix, "erase", ARGUMENT, "--format=json")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout) == {"by_workers": 200, "here": 300, "newer": 0, "left": 0}

            erased = {verdict_key(ERASED, turn) for turn in (*old, *new)}
            written = verdicts(kafka, topics)
            latest = last_of_each(written)
            assert {key for key, value in latest.items() if value is None} == erased
            assert {key: latest[key] for key in kept.keys() - erased} == {
                key: kept[key] for key in kept.keys() - erased
            }
            assert {verdict_key(NEIGHBOUR, turn) for turn in old} <= latest.keys()

            again = engram_stream(kafka, topics.prefix, "erase", ARGUMENT)
            assert again.returncode == 0, again.stderr
            assert again.stdout == "erased: 500 verdicts nulled by workers, 0 here; 0 left\n"
            mine = [record for record in written if record.key in erased]
            assert [record for record in verdicts(kafka, topics) if record.key in erased] == mine

        wait_committed(kafka, worker, turns)
        latest = last_of_each(verdicts(kafka, topics))
        sent = {encode_key(*record.ids) for record in traffic.books.sent.values() if record.ids is not None}
        assert sent
        assert all(latest[key] is not None for key in sent)
        assert worker.terminate() == 0


def test_turns_sent_after_the_tombstone_stay(kafka: str, topics: TopicFactory, tmp_path: Path) -> None:
    turns = topics.name("turns")
    with WorkerProcess(kafka, topics.prefix, tmp_path) as worker:
        tombstone = Message(encode_key("acme", ERASED), None)
        send(kafka, turns, [turn_message(ERASED, "t-1"), tombstone, turn_message(ERASED, "t-2")])
        worker.wait_ready()
        wait_committed(kafka, worker, turns)
        assert worker.terminate() == 0
    latest = last_of_each(verdicts(kafka, topics))
    assert latest[verdict_key(ERASED, "t-1")] is None
    assert latest[verdict_key(ERASED, "t-2")] is not None


def test_a_tombstone_with_a_turn_id_erases_that_turn_whether_or_not_it_is_known(
    kafka: str, topics: TopicFactory, tmp_path: Path
) -> None:
    turns = topics.name("turns")
    with WorkerProcess(kafka, topics.prefix, tmp_path) as worker:
        send(kafka, turns, [turn_message(ERASED, f"t-{number}") for number in range(3)])
        worker.wait_ready()
        wait_committed(kafka, worker, turns)
        assert worker.terminate() == 0  # the next process does not know the turn
        worker.start()
        send(kafka, turns, [Message(encode_key("acme", ERASED), None, headers=(("engram.turn-id", b"t-1"),))])
        worker.wait_ready()
        wait_committed(kafka, worker, turns)
        latest = last_of_each(verdicts(kafka, topics))
        assert {key for key, value in latest.items() if value is None} == {verdict_key(ERASED, "t-1")}
        assert len(latest) == 3
        assert worker.terminate() == 0


def test_without_workers_the_command_says_that_it_is_not_done(kafka: str, topics: TopicFactory) -> None:
    done = engram_stream(kafka, topics.prefix, "erase", ARGUMENT, "--timeout=1")
    assert (done.returncode, done.stdout) == (5, "")
    assert f"no worker of group {topics.prefix}group got past {topics.name('turns')}" in done.stderr
    assert "Start or repair the workers, then run this again." in done.stderr


def test_a_name_that_is_no_key_is_told_before_anything_is_sent(kafka: str, topics: TopicFactory) -> None:
    done = engram_stream(kafka, topics.prefix, "erase", "acme|a|b")
    assert done.returncode == 2
    assert "expected TENANT|CONVERSATION" in done.stderr
    assert not any(asyncio.run(end_offsets(kafka, topics.name("turns"))).values())
