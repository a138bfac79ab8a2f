"""Processes of the demo: the workers and the generator, each behind a guard that ends it when we are gone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from workers.errors import EngramError
from workers.testing.local_kafka import guard

TAIL_LINES: Final = 15
STOP_SECONDS: Final = 15.0
"""Longer than a worker's drain deadline."""
_ADDRESS: Final = re.compile(r"probes and metrics on (http://\S+)")


class Child:
    """One ``engram-stream`` command in a process of its own; its log and files lie in ``folder``.

    The guard (workers/testing/local_kafka/guard.py) keeps it from outliving us and removes ``folder`` if we are killed.
    """

    def __init__(self, name: str, arguments: Sequence[str], settings: Mapping[str, str], folder: Path) -> None:
        """Start ``engram-stream ARGUMENTS`` with ``settings`` as its only ``ENGRAM_`` variables."""
        self.name = name
        self._log = folder / f"{name.replace(' ', '-')}.log"
        self._log.touch()
        command = [sys.executable, "-c", "from workers.cli import main; main()", *arguments]
        foreign = ("ENGRAM_", "KAFKA_BOOTSTRAP_SERVERS")
        environment = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        self._guard = subprocess.Popen(
            [sys.executable, "-I", guard.__file__, str(folder), str(self._log), json.dumps([command])],
            stdin=subprocess.PIPE,
            env=environment | dict(settings),
            # Ctrl-C on the terminal reaches the demo alone, which then ends its processes in order.
            start_new_session=True,
        )

    @property
    def address(self) -> str | None:
        """Where a worker answers probes, ``http://HOST:PORT``; None until it does."""
        found = _ADDRESS.search(self.log())
        return found.group(1) if found else None

    def log(self) -> str:
        """Return what the process has written."""
        return self._log.read_text(errors="replace")

    def log_tail(self) -> str:
        """Return the last lines of it."""
        return "\n".join(self.log().splitlines()[-TAIL_LINES:])

    def check_running(self) -> None:
        """Do nothing while the process runs.

        Raises:
            EngramError: it has ended; the message has the end of its log.
        """
        code = self._guard.poll()
        if code is not None:
            raise EngramError(f"{self.name} ended with exit code {code}; its log ends:\n{self.log_tail()}")

    def begin_stop(self) -> None:
        """Ask the process to end, as an operator would: SIGTERM."""
        self._order(guard.STOP)

    def finish_stop(self) -> None:
        """Wait for the end of the process; kill it if it takes too long. May be called again."""
        try:
            self._guard.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._order(guard.KILL)
            self._guard.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()

    def _order(self, order: bytes) -> None:
        if self._guard.stdin is None or self._guard.poll() is not None:
            return
        try:
            self._guard.stdin.write(order)
            self._guard.stdin.flush()
        except BrokenPipeError:
            return  # It ended in this moment.
