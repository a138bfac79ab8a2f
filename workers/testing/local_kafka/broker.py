"""One broker: its JVM behind its guard."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workers.errors import EngramError
from workers.testing.local_kafka import guard
from workers.testing.local_kafka.properties import LOG4J

_SHORT_LIVED: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_HEAP: Final = ("-Xms256m", "-Xmx768m", "-XX:+UseSerialGC")
_EXCERPT_LINES: Final = 30
_ERROR: Final = re.compile(r"\[[^]]*\] (ERROR|FATAL) |Exception in thread|Error: |Unrecognized VM option")


class KafkaStartError(EngramError):
    """The local Kafka did not come up; the message ends with what its log says."""


class PortTakenError(KafkaStartError):
    """Somebody else was faster on one of our ports."""

    retriable = True


@dataclass(frozen=True, slots=True)
class Installation:
    """A Java and the jars of Kafka."""

    java: str
    jars: Path

    def command(self, main_class: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """Return the command line that runs ``main_class``."""
        return [self.java, *options, "-cp", f"{self.jars}/*", main_class, *arguments]


class Broker:
    """One node of a local cluster. Its files live in ``folder/node-N``: configuration, data, ``server.log``."""

    def __init__(self, node: int, folder: Path, installation: Installation) -> None:
        self.node = node
        self._cluster_folder = folder
        self._folder = folder / f"node-{node}"
        self._installation = installation
        self._guard: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def data(self) -> Path:
        """Folder of the partitions."""
        return self._folder / "data"

    @property
    def log(self) -> Path:
        """The broker's log file."""
        return self._folder / "server.log"

    def configure(self, properties: str) -> None:
        """Write the configuration files."""
        self._folder.mkdir()
        (self._folder / "server.properties").write_text(properties, encoding="utf-8")
        (self._folder / "log4j2.properties").write_text(LOG4J, encoding="utf-8")

    def start_new(self, cluster_id: str, users: dict[str, str]) -> None:
        """Format the data folder, with SCRAM credentials of ``users`` (name → password), and start; returns at once."""
        scram = [
            word
            for name, password in users.items()
            for word in ("--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]")
        ]
        arguments = ("format", "-t", cluster_id, "-c", str(self._folder / "server.properties"), *scram)
        self._start(self._java("kafka.tools.StorageTool", *arguments, options=_SHORT_LIVED), self._server())

    def start(self) -> None:
        """Start on the data that is there; returns at once."""
        self._start(self._server())

    @property
    def running(self) -> bool:
        """Whether the JVM runs (it may not answer yet)."""
        return self._guard is not None and self._guard.poll() is None

    def kill(self) -> None:
        """SIGKILL; the data stays."""
        self._order(guard.KILL)

    def stop(self) -> None:
        """SIGTERM: an orderly shutdown; the data stays."""
        self._order(guard.STOP)

    def check_running(self) -> None:
        """Do nothing while the JVM runs.

        Raises:
            PortTakenError: it ended because a port was taken.
            KafkaStartError: it ended for another reason; the message has what its log says.
        """
        if self.running:
            return
        error = PortTakenError if "Address already in use" in self._log_of_this_run() else KafkaStartError
        raise error(f"broker {self.node} of the local Kafka ended; its log says:\n{self.log_excerpt()}")

    def log_excerpt(self) -> str:
        """Return the first error of the log since the last start and what follows, without any error the last lines."""
        lines = self._log_of_this_run().splitlines()
        errors = (number for number, line in enumerate(lines) if _ERROR.match(line))
        first = next(errors, max(0, len(lines) - _EXCERPT_LINES))
        return "\n".join(lines[first : first + _EXCERPT_LINES])

    def _log_of_this_run(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _start(self, *commands: list[str]) -> None:
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self.log.touch()
        self._guard = subprocess.Popen(
            [sys.executable, "-I", guard.__file__, str(self._cluster_folder), str(self.log), json.dumps(commands)],
            stdin=subprocess.PIPE,
            # Ctrl-C on the terminal reaches the owner alone, which then stops the brokers in its own order.
            start_new_session=True,
        )

    def _server(self) -> list[str]:
        return self._java("kafka.Kafka", str(self._folder / "server.properties"), options=_HEAP)

    def _order(self, order: bytes) -> None:
        process = self._guard
        if process is None:
            return
        if process.stdin is not None and process.poll() is None:
            try:
                process.stdin.write(order)
                process.stdin.flush()
            except BrokenPipeError:
                pass  # it ended in this moment
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self._guard = None

    def _java(self, main_class: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        own = (
            f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}",
            # A JVM that is killed leaves native libraries and counters in the common folder otherwise.
            f"-Djava.io.tmpdir={self._folder}",
            "-XX:-UsePerfData",
        )
        return self._installation.command(main_class, *arguments, options=(*options, *own))
