"""``engram-stream demo`` as somebody runs it: its words are true, its hints work, and nothing of it is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.kafka

DEMO = [str(Path(sys.executable).with_name("engram-stream")), "demo"]
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
Series = Counter[tuple[str, frozenset[tuple[str, str]]]]


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 90.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.05)


def processes_of(folder: Path) -> list[str]:
    """Command lines of all processes that were started with ``folder`` as the place of temporary files."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # It ended meanwhile, or is not ours.
    return found


@contextmanager
def demo(tmp_path: Path, *options: str, output: int | IO[str] = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """Run the demo in an empty folder, its temporary files in ``tmp_path``; afterwards nothing may be left of it."""
    temporary, here = tmp_path / "temporary", tmp_path / "here"
    temporary.mkdir()
    here.mkdir()
    process = subprocess.Popen(
        [*DEMO, *options],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output != subprocess.PIPE else subprocess.PIPE,
        text=True,
        cwd=here,
        env=os.environ | {"TMPDIR": str(temporary), "TERM": "xterm-256color"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
    assert processes_of(temporary) == []
    assert list(temporary.iterdir()) == []
    assert list(here.iterdir()) == []


class Watcher(threading.Thread):
    """Reads the demo's progress and scrapes the workers it names until they are gone, by means of its own."""

    def __init__(self, progress: IO[str]) -> None:
        super().__init__(daemon=True)
        self._progress = progress
        self.lines: list[str] = []
        self._pages: dict[str, str] = {}

    def run(self) -> None:
        scraper = threading.Thread(target=self._scrape, daemon=True)
        scraper.start()
        for line in self._progress:
            self.lines.append(line)
            for address in re.findall(r"metrics on (http://\S+)", line):
                self._pages[address] = ""

    def _scrape(self) -> None:
        while True:
            for address in list(self._pages):
                with contextlib.suppress(OSError, HTTPException):
                    self._pages[address] = page_at(address)
            time.sleep(0.1)

    def series(self) -> Series:
        """The last numbers of all workers, by name and labels."""
        found: Series = Counter()
        for page in self._pages.values():
            for family in text_string_to_metric_families(page):
                for sample in family.samples:
                    found[sample.name, frozenset(sample.labels.items())] += int(sample.value)
        return found


def page_at(url: str) -> str:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = HTTPConnection(host, timeout=10)
    try:
        connection.request("GET", f"/{path}")
        answer = connection.getresponse()
        assert answer.status == HTTPStatus.OK
        return answer.read().decode()
    finally:
        connection.close()


def total(series: Series, metric: str, **labels: str) -> int:
    return sum(n for (name, have), n in series.items() if name == metric and labels.items() <= dict(have).items())


def number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in:\n{text}"
    return int(found.group(1).replace(",", ""))


def test_without_a_terminal_it_ends_by_itself_and_its_words_are_what_the_workers_counted(tmp_path: Path) -> None:
    with demo(tmp_path, "--duration=15", "--no-live") as process:
        assert process.stderr is not None
        watcher = Watcher(process.stderr)
        watcher.start()
        assert process.stdout is not None
        words = process.stdout.read()
        assert process.wait(30) == 0, "".join(watcher.lines)
        watcher.join(30)
    assert "\x1b" not in words + "".join(watcher.lines)
    assert sum("verdicts, lag" in line for line in watcher.lines) >= 3
    told, counted = " ".join(words.split()), watcher.series()

    received = total(counted, "engram_records_received_total", topic="turns")
    assert received > 1_000
    assert number(r"received ([\d,]+) records on turns", told) == received
    assert number(r"([\d,]+) were judged", told) == total(counted, "engram_fidelity_turns_total")
    assert number(r"and ([\d,]+) became dead letters", told) == total(
        counted, "engram_records_total", topic="turns", end="dlq"
    )
    assert "The books balance" in told
    assert "Nothing is left to read." in told

    missing = {"service": "companion", "path": "batch-import", "field": "moderation_version", "state": "null"}
    forgotten = total(counted, "engram_fingerprint_incomplete_total", **missing)
    turns = total(counted, "engram_fidelity_turns_total", service="companion", path="batch-import")
    assert 0 < forgotten == total(counted, "engram_fingerprint_incomplete_total")
    assert f"batch-import of companion does not name its moderation version (state null): {forgotten} turns" in told
    # Turns that were read long after the first forgetful one, as on a busy machine, are not told as those before.
    assert 0 < number(r"The (\d+) turns before named it", told) <= turns - forgotten
    assert "this path began to run release 2026.12.0" in told
    assert "FingerprintIncomplete (ticket, at once)" in told

    letters = {reason: int(n) for n, reason in re.findall(r"- (\d+) (\w+): .*? Fix: ", told)}
    assert letters == {
        dict(labels)["reason"]: n
        for (name, labels), n in counted.items()
        if name == "engram_dead_letters_total" and n and dict(labels)["topic"] == "turns"
    }


def test_on_a_terminal_it_shows_the_view_and_runs_on_so_that_its_hints_work_until_ctrl_c(tmp_path: Path) -> None:
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    shown: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(own, 65_536):
                shown.append(piece)
        except OSError:
            return  # The last one to hold the other end has gone.

    def text() -> str:
        return ESCAPE.sub("", b"".join(shown).decode(errors="replace"))

    with demo(tmp_path, "--duration=5", output=its) as process:
        os.close(its)
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        wait_until(lambda: "Running on" in text() or process.poll() is not None, "the story is told")
        assert process.poll() is None, text()
        assert "Incomplete turns by path" in text()
        hints = re.findall(r"^    (\S.*?)\r?$", text()[text().index("Where to look next") :], re.MULTILINE)
        assert len(hints) >= 4
        for hint in hints:
            check_hint(hint)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        reader.join(10)
    assert "no process, port or folder is left behind" in text()
    os.close(own)


def check_hint(hint: str) -> None:
    """Do what the demo recommends."""
    if hint.startswith("curl"):
        assert "engram_records_received_total" in page_at(hint.split()[-1])
        return
    done = subprocess.run(hint.split(), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{hint}: {done.stderr}"
    assert done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with demo(tmp_path) as process:
        awaited = "kafka.Kafka" if number == signal.SIGINT else "workers.cli"

        def runs() -> bool:
            lines = processes_of(tmp_path / "temporary")
            return any(awaited in line and "guard.py" not in line for line in lines)

        wait_until(runs, f"{awaited} is running")
        process.send_signal(number)
        output, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors
    assert output == ""
    assert errors.endswith("no process, port or folder is left behind\n")
