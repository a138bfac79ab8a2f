"""Our worker: ``engram-stream worker`` as it is, with a mark at its first fetch."""

from __future__ import annotations

import sys

from bench.contenders.first_fetch import mark_first_fetch
from bench.contenders.task import Task
from workers.cli import main

if __name__ == "__main__":
    mark_first_fetch(Task.from_command_line())
    sys.argv[1:] = ["worker"]
    main()
