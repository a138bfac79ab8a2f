"""The documentation's programs do what their pages say, on Apache Kafka and with a worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from worker_process import WorkerProcess, wait_until

from workers.keys import decode_key, encode_key, partition_of
from workers.testing.kafka_io import Message, produce, read_to_end
from workers.testing.kafka_topics import TopicFactory
from workers.topic_catalogue import load_catalogue

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs/snippets"


class Reader:
    """``read_verdicts.py`` as a process; ``lines`` holds what it has printed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, str(SNIPPETS / "read_verdicts.py")],
            cwd=ROOT,
            env=dict(environment),
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line.rstrip("\n") for line in self._process.stdout)

    def stop(self) -> int:
        """End it as Ctrl-C does; return its exit code."""
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(30)
        finally:
            self._process.kill()
            self._thread.join(10)


@pytest.fixture
def environment(kafka: str, kafka_topics: TopicFactory, tmp_path: Path) -> dict[str, str]:
    kafka_topics.create(*(topic.name for topic in load_catalogue()), partitions=3)
    return {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": kafka,
        "TURNS_TOPIC": kafka_topics.name("turns"),
        "STATE_WRITES_TOPIC": kafka_topics.name("state-writes"),
        "FIDELITY_TOPIC": kafka_topics.name("fidelity"),
        "GROUP_ID": kafka_topics.group_id("readers"),
        "VERDICTS_DB": str(tmp_path / "verdicts.db"),
    }


@contextmanager
def reading(environment: Mapping[str, str]) -> Iterator[Reader]:
    reader = Reader(environment)
    try:
        yield reader
    finally:
        assert reader.stop() == 0


def run(snippet: str, environment: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SNIPPETS / snippet), *arguments],
        cwd=ROOT,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def published(snippet: str, environment: Mapping[str, str]) -> str:
    """Run a snippet that publishes a turn; return the turn's key on ``fidelity``."""
    return run(snippet, environment).removeprefix("published ").strip()


async def test_the_turns_of_the_producer_guide_get_their_verdicts_which_the_reader_tells_once_and_erasing_withdraws(
    environment: dict[str, str], kafka: str, kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    fidelity = kafka_topics.name("fidelity")
    with WorkerProcess(kafka, kafka_topics.prefix, tmp_path) as worker, reading(environment) as reader:
        first, graded = published("first_turn.py", environment), published("turn_with_manifest.py", environment)
        told = {
            f"{first}: no_manifest; complete",
            f"{graded}: controlled (model_determinism_best_effort); complete",
        }
        wait_until(lambda: told <= set(reader.lines), f"both verdicts are told: {reader.lines}")

        verdict = next(record for record in await read_to_end(kafka, fidelity) if record.key == first.encode())
        repeated = Message(verdict.key, verdict.value, verdict.headers, partition=verdict.partition)
        await produce(kafka, fidelity, [repeated])
        tenant, conversation, turn = decode_key(graded.encode(), 3)
        run("tombstone.py", environment, tenant, conversation, turn)
        run("tombstone.py", environment, *decode_key(first.encode(), 3)[:2])
        withdrawn = {f"{first}: withdrawn", f"{graded}: withdrawn"}
        wait_until(lambda: withdrawn <= set(reader.lines), f"both verdicts are withdrawn: {reader.lines}")
        assert sorted(reader.lines) == sorted(told | withdrawn)
        assert worker.metric("engram_key_mismatch_total") == 0
        assert worker.terminate() == 0


async def test_a_reader_that_starts_anew_tells_nothing_that_its_store_holds(
    environment: dict[str, str], kafka: str, kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    with WorkerProcess(kafka, kafka_topics.prefix, tmp_path):
        first = published("first_turn.py", environment)
        with reading(environment) as reader:
            wait_until(lambda: len(reader.lines) == 1, "the verdict is told")
        from_the_start = {**environment, "GROUP_ID": kafka_topics.group_id("later-readers")}
        with reading(from_the_start) as reader:
            second = published("first_turn.py", environment)
            wait_until(lambda: bool(reader.lines), "the second verdict is told")
        assert [line.partition(":")[0] for line in reader.lines] == [second]
        assert first != second


async def test_the_snippet_s_turns_lie_where_kafka_s_own_partitioner_puts_them(
    environment: dict[str, str], kafka: str, kafka_topics: TopicFactory
) -> None:
    keys = [published("first_turn.py", environment) for _ in range(4)]
    records = await read_to_end(kafka, kafka_topics.name("turns"))
    expected = {encode_key(*decode_key(key.encode(), 3)[:2]) for key in keys}
    assert {record.key for record in records} == expected
    assert all(record.key is not None and record.partition == partition_of(record.key, 3) for record in records)


@pytest.mark.timeout(180)
def test_the_quick_start_works_from_top_to_bottom(tmp_path: Path) -> None:
    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    script = "set -eu\n" + "".join(re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    # The page is followed in a checkout; here in a folder that looks like one, so that nothing is left in ours.
    for name in ("docs", "schemas"):
        (tmp_path / name).symlink_to(ROOT / name)
    unset = {"KAFKA_BOOTSTRAP_SERVERS"} | {name for name in os.environ if name.startswith("ENGRAM_")}
    done = subprocess.run(
        ["bash"],
        input=script,
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if name not in unset},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "ENGRAM_METRICS__PORT": "0",
        },
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^acme\|c-[\w-]+\|t-1: no_manifest; complete$", done.stdout, re.MULTILINE), done.stdout
    assert "missing_event_time" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"docs", "schemas"}
