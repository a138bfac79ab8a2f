"""``engram-stream`` as a process of its own, on the topics of one test."""

from __future__ import annotations

import os
import subprocess
import sys

from worker_process import PATIENCE_S


def engram_stream(
    bootstrap_servers: str, prefix: str, *arguments: str, **settings: object
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with ``settings`` as a `WorkerProcess` has them, in the group of its workers."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("ENGRAM_")},
        "KAFKA_BOOTSTRAP_SERVERS": bootstrap_servers,
        "ENGRAM_TOPICS__PREFIX": prefix,
        "ENGRAM_KAFKA__GROUP_ID": f"{prefix}group",
        **{f"ENGRAM_{key.upper()}": str(value) for key, value in settings.items()},
    }
    return subprocess.run(
        [sys.executable, "-c", "from workers.cli import main; main()", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
