"""A worker as a process of its own, as an operator runs it: settings by environment, probes and signals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

PATIENCE_S = 60.0
COMMAND = (sys.executable, "-c", "from workers.cli import main; main()", "worker")


def wait_until(condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until ``condition`` holds; fail naming ``what`` did not happen after ``patience_s`` seconds."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s:g} s: {what}")
        time.sleep(0.1)


class WorkerProcess:
    """One ``engram-stream worker``; use it as a context manager, and nothing of it is left."""

    def __init__(
        self,
        bootstrap_servers: str,
        prefix: str,
        folder: Path,
        name: str = "worker",
        command: Sequence[str] = COMMAND,
        **settings: object,
    ) -> None:
        """Prepare a worker of the topics under ``prefix``; ``settings`` are keys like ``worker__drain_deadline``."""
        self._command = command
        self.group = f"{prefix}group"
        self._log_path = folder / f"{name}.log"
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("ENGRAM_")},
            "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers,
            "ENGRAM_TOPICS__PREFIX": prefix,
            "ENGRAM_KAFKA__GROUP_ID": self.group,
            "ENGRAM_METRICS__PORT": "0",
            "ENGRAM_WORKER__DATADIR": str(folder / f"{name}-data"),
            **{f"ENGRAM_{key.upper()}": str(value) for key, value in settings.items()},
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(f"--- {self._log_path.name} ---\n{self.log()[-8000:]}\n")
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def start(self) -> None:
        """Start the process, again if it has ended."""
        self._started_at = len(self.log())
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the last start."""
        assert self._process is not None, "start the worker first"
        return self._process

    def log(self) -> str:
        """Return everything the worker has written."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    @property
    def address(self) -> str | None:
        """Host and port where the worker of the last start answers probes, None until it does."""
        found = re.search(r"probes and metrics on http://(\S+)\n", self.log()[self._started_at :])
        return found.group(1) if found else None

    def probe(self, path: str) -> int | None:
        """Return the status of a probe, None when there is no answer."""
        try:
            return self._get(path)[0]
        except OSError:
            return None

    def scrape(self) -> str:
        """Return what the worker exports, as text."""
        status, text = self._get("/metrics")
        assert status == HTTPStatus.OK
        return text

    def _get(self, path: str) -> tuple[int, str]:
        if self.address is None:
            raise ConnectionError("the worker does not answer yet")
        connection = HTTPConnection(self.address, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Whether the worker answers that it is ready."""
        return self.probe("/readyz") == 200

    def wait_ready(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until the worker is ready; fail at once when it has ended."""
        self.wait_until(self.is_ready, "the worker is ready", patience_s)

    def wait_until(self, condition: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
        """Wait as `wait_until` does; fail at once when the worker has ended."""

        def holds() -> bool:
            assert self.process.poll() is None, f"the worker ended with {self.process.returncode}"
            return condition()

        wait_until(holds, what, patience_s)

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the series of ``name`` that carry ``labels``; 0 without any."""
        return sum(value for series, value in self.series(name).items() if labels.items() <= dict(series).items())

    def series(self, name: str) -> Mapping[frozenset[tuple[str, str]], float]:
        """Return the series of ``name`` by their labels."""
        return {
            frozenset(sample.labels.items()): sample.value
            for family in text_string_to_metric_families(self.scrape())
            for sample in family.samples
            if sample.name == name
        }

    def terminate(self, patience_s: float = PATIENCE_S) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience_s)

    def kill(self) -> None:
        """Kill the process as the kernel would."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
