"""``engram-stream dlq``: letters as a worker wrote them, and no word of their content unless it is asked for."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from command_line import engram_stream
from turn_records import bad_message, conversation_in, turn_message
from worker_process import WorkerProcess, wait_until

from workers.cli import cli
from workers.testing.kafka_io import Message, produce
from workers.testing.kafka_topics import TopicFactory
from workers.topic_catalogue import load_catalogue

pytestmark = pytest.mark.kafka

SECRET = "ada.lovelace@example.org"
FIRST, SECOND = (conversation_in(partition, 2) for partition in range(2))
REFUSED = [
    bad_message(FIRST, f"one {SECRET}"),
    turn_message(FIRST, "", user_key=SECRET),
    Message(SECRET.encode(), b"\x00", (("note", SECRET.encode()), ("note", None)), partition=1),
    bad_message(SECOND, f"two {SECRET}"),
]
"""Two in each partition, in this order."""


class Letters(NamedTuple):
    """Where the letters lie."""

    kafka: str
    topics: TopicFactory

    def dlq(self, *arguments: str) -> CompletedProcess[str]:
        return engram_stream(self.kafka, self.topics.prefix, "dlq", *arguments)

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        done = self.dlq("list", "turns", "--format=jsonl", *arguments)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def id_of(self, partition: int, offset: int) -> str:
        return f"{self.topics.name('turns')}:{partition}:{offset}"


@pytest.fixture(scope="module")
def letters(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Letters]:
    with TopicFactory(kafka) as topics:
        topics.create(*(topic.name for topic in load_catalogue()), partitions=2)
        asyncio.run(produce(kafka, topics.name("turns"), REFUSED))
        with WorkerProcess(kafka, topics.prefix, tmp_path_factory.mktemp("worker")) as worker:
            worker.wait_ready()
            wait_until(lambda: worker.metric("engram_records_total", end="dlq") == len(REFUSED), "all are letters")
            assert worker.terminate() == 0
            assert SECRET not in worker.log()
        yield Letters(kafka, topics)


def test_a_list_tells_reason_place_and_size_of_each_letter(letters: Letters) -> None:
    rows = letters.rows()
    assert [(row["id"], row["reason"], row.get("detail"), row["bytes"]) for row in rows] == [
        (letters.id_of(0, 0), "bad_magic", None, len(REFUSED[0].value or b"")),
        (letters.id_of(0, 1), "invalid_record", "turn_id", len(REFUSED[1].value or b"")),
        (letters.id_of(1, 0), "truncated_frame", None, 1),
        (letters.id_of(1, 1), "bad_magic", None, len(REFUSED[3].value or b"")),
    ]
    assert {(row["class"], row["attempt"]) for row in rows} == {("producer", "1")}


def test_filters_and_limit_choose_and_the_rest_is_counted(letters: Letters) -> None:
    assert [row["id"] for row in letters.rows("--reason=bad_magic")] == [letters.id_of(0, 0), letters.id_of(1, 1)]
    assert [row["id"] for row in letters.rows("--reason=bad_magic", "--partition=1")] == [letters.id_of(1, 1)]
    assert letters.rows("--reason=bad_utf8") == []
    limited = letters.dlq("list", "turns", "--limit=3")
    assert len(limited.stdout.splitlines()) == 3
    assert limited.stderr.strip() == "3 of 4 letters shown"


@pytest.mark.parametrize("form", ["--format=text", "--format=jsonl"])
def test_a_list_holds_nothing_of_key_header_or_payload(form: str, letters: Letters) -> None:
    done = letters.dlq("list", "turns", form)
    encoded = base64.b64encode(SECRET.encode()).decode()
    for content in (SECRET, encoded):
        assert content not in done.stdout + done.stderr


def test_a_letter_is_shown_with_meaning_and_fix_and_its_content_only_when_revealed(letters: Letters) -> None:
    done = letters.dlq("show", "turns", letters.id_of(1, 0))
    assert done.returncode == 0, done.stderr
    assert "truncated_frame" in done.stdout
    assert "The value ends inside the 5-byte frame." in done.stdout
    assert SECRET not in done.stdout
    assert "base64" not in done.stdout
    revealed = json.loads(letters.dlq("show", "turns", letters.id_of(1, 0), "--reveal", "--format=json").stdout)
    note = base64.b64encode(SECRET.encode()).decode()
    assert base64.b64decode(revealed["value_base64"]) == b"\x00"
    assert base64.b64decode(revealed["key_base64"]) == SECRET.encode()
    assert revealed["headers"] == [["note", note], ["note", None]]


@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_revealed_letter_is_a_file_that_validate_refuses_for_the_same_reason(
    place: tuple[int, int], letters: Letters, tmp_path: Path
) -> None:
    letter = tmp_path / "letter.json"
    letter.write_text(letters.dlq("show", "turns", letters.id_of(*place), "--reveal", "--format=json").stdout)
    shown = json.loads(letter.read_text())
    judged = json.loads(CliRunner().invoke(cli, ["validate", "--format=jsonl", str(letter)]).stdout)
    assert (judged["reason"], judged.get("detail")) == (shown["reason"], shown.get("detail"))


def test_an_unknown_letter_ends_with_4_and_says_where_to_look(letters: Letters) -> None:
    done = letters.dlq("show", "turns", letters.id_of(1, 77))
    assert (done.returncode, done.stdout) == (4, "")
    assert "`dlq list turns` shows those there are" in done.stderr


@pytest.mark.parametrize("wrong", ["1:0", "turns", "turns:1:x"])
def test_what_is_no_id_of_a_letter_is_wrong_usage_and_says_what_an_id_is(wrong: str, letters: Letters) -> None:
    done = letters.dlq("show", "turns", wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{wrong} is not topic:partition:offset" in done.stderr


def test_one_letter_is_counted_as_one(letters: Letters) -> None:
    done = letters.dlq("list", "turns", "--reason=truncated_frame")
    assert done.stderr.strip() == "1 of 1 letter shown"


def test_an_input_without_letters_lists_none(letters: Letters) -> None:
    done = letters.dlq("list", "state-writes", "--format=jsonl")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.strip() == "0 of 0 letters shown"


def test_a_missing_topic_is_told_in_one_line(kafka: str) -> None:
    done = engram_stream(kafka, "nobody-", "dlq", "list", "turns")
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1
    assert "topic nobody-turns-dlq does not exist; create it with `engram-stream topics apply`" in done.stderr
