"""What a contender is told, and how it says that its first records have come."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from workers.topic_catalogue import topic_name


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment in the life of a process: CPU it has used, user and system, and monotonic time, in nanoseconds."""

    cpu_ns: int
    at_ns: int

    @classmethod
    def now(cls) -> Self:
        """Return this moment of the calling process."""
        return cls(time.process_time_ns(), time.monotonic_ns())

    def write(self, path: Path) -> None:
        """Write the mark; the file appears complete or not at all."""
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(asdict(self)), encoding="ascii")
        unfinished.replace(path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the mark that a contender has written.

        Raises:
            FileNotFoundError: it has not written one yet.
        """
        return cls(**json.loads(path.read_text(encoding="ascii")))


@dataclass(frozen=True, slots=True)
class Task:
    """Read the turns under ``prefix`` as ``group`` and publish their verdicts; ``turns`` is how many there are.

    The contender writes its first mark into ``folder`` when the first records have come.
    """

    bootstrap_servers: str
    prefix: str
    group: str
    turns: int
    folder: str

    @property
    def input(self) -> str:
        """The topic with the turns."""
        return topic_name("turns", self.prefix)

    @property
    def output(self) -> str:
        """The topic for the verdicts."""
        return topic_name("fidelity", self.prefix)

    @property
    def first_mark(self) -> Path:
        """Where the mark of the first fetch goes."""
        return Path(self.folder) / "first.json"

    @property
    def last_mark(self) -> Path:
        """Where a contender without outputs marks its end."""
        return Path(self.folder) / "last.json"

    def as_argument(self) -> str:
        """Return the task as one argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_command_line(cls) -> Self:
        """Take the task from the first argument of this process, and remove it there."""
        return cls(**json.loads(sys.argv.pop(1)))


def wait_for_the_end() -> None:
    """Sleep until a signal ends the process, so that it can still be measured; an orphan ends by itself."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.2)
