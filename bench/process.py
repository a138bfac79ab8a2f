"""A contender as a process: started, measured from outside, ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from enum import StrEnum
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from prometheus_client.parser import text_string_to_metric_families

from bench.contenders.task import Mark, Task

_STOP_S: Final = 20.0
_LOG_TAIL: Final = 4_000


class ContenderName(StrEnum):
    """The contenders, in the order of the table."""

    FLOOR = "floor"
    WORKER = "worker"
    FAUST = "faust"
    CONFLUENT = "confluent"


_MODULES: Final[Mapping[ContenderName, str]] = {
    ContenderName.FLOOR: "floor",
    ContenderName.WORKER: "worker",
    ContenderName.FAUST: "faust_agent",
    ContenderName.CONFLUENT: "confluent_loop",
}


class ContenderProcess:
    """One contender at work on ``task``; use it as a context manager, and nothing of it is left.

    ``settings`` are those of the worker that differ from its defaults, by key (``worker.max_batch_records``); other
    contenders read none. The CPU clocks of other processes are Linux's.
    """

    def __init__(self, name: ContenderName, task: Task, settings: Mapping[str, str]) -> None:
        self.task = task
        self._log_path = Path(task.folder) / "log.txt"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ENGRAM_")}
        environment |= {
            "KAFKA_BOOTSTRAP_SERVERS": task.bootstrap_servers,
            "ENGRAM_TOPICS__PREFIX": task.prefix,
            "ENGRAM_KAFKA__GROUP_ID": task.group,
            "ENGRAM_METRICS__PORT": "0",
            "ENGRAM_WORKER__DATADIR": str(Path(task.folder) / "data"),
        }
        environment |= {f"ENGRAM_{key.upper().replace('.', '__')}": value for key, value in settings.items()}
        self.started_ns = time.monotonic_ns()
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"bench.contenders.{_MODULES[name]}", task.as_argument()],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def check_running(self) -> None:
        """Do nothing while the process runs.

        Raises:
            RuntimeError: it has ended; the message has the end of its log.
        """
        code = self._process.poll()
        if code is not None:
            raise RuntimeError(f"{self._process.args!r} ended with {code}:\n{self.log()[-_LOG_TAIL:]}")

    def log(self) -> str:
        """Return what it has written to stdout and stderr."""
        return self._log_path.read_text(encoding="utf-8", errors="replace")

    def mark(self) -> Mark:
        """Return this moment: CPU of the process so far, all threads, those that have ended included."""
        # How Linux numbers the CPU clock of a process (clock_getcpuclockid): ~pid, then 2 for "scheduler".
        clock = (~self._process.pid << 3) | 2
        return Mark(time.clock_gettime_ns(clock), time.monotonic_ns())

    def first_fetch(self) -> Mark | None:
        """Return the mark of its first fetch, None before it."""
        return _read(self.task.first_mark)

    def last_fetch(self) -> Mark | None:
        """Return the mark at its end of a contender without outputs, None before it."""
        return _read(self.task.last_mark)

    def memory_mb(self, field: str = "VmHWM") -> float:
        """Return resident memory in MB (10⁶ bytes): the peak (``VmHWM``) or that of now (``VmRSS``)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii", errors="replace")
        match = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
        if match is None:
            raise RuntimeError(f"/proc/{self._process.pid}/status has no {field}")
        return int(match.group(1)) * 1_024 / 1e6

    def decoded_rows(self) -> dict[str, int]:
        """Return how many rows the worker decoded, by ``route/reason``."""
        host, port = re.findall(r"probes and metrics on http://(\S+):(\d+)", self.log())[-1]
        with closing(HTTPConnection(host, int(port), timeout=10)) as connection:
            connection.request("GET", "/metrics")
            return routes_of(connection.getresponse().read().decode())


def routes_of(metrics: str) -> dict[str, int]:
    """Return the rows by ``route/reason`` that the text of a worker's metrics counts, without those at 0."""
    rows: Counter[str] = Counter()
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == "engram_decode_rows_total" and sample.value:
                rows[f"{sample.labels['route']}/{sample.labels['reason']}"] += int(sample.value)
    return dict(rows)


def _read(path: Path) -> Mark | None:
    try:
        return Mark.read(path)
    except FileNotFoundError:
        return None
