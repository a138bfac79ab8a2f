"""The log on stderr: one line of text, or one JSON object, per entry."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from workers.config import LogSettings

NOISY: Final = ("faust", "mode", "aiokafka", "kafka", "httpx", "httpcore", "workers.transport")
"""Libraries, and our services under them, whose everyday lines are left out."""


class JsonFormatter(logging.Formatter):
    """One JSON object per entry."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger and message; a traceback as its exception's type only, since texts may quote."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info is not None and record.exc_info[0] is not None:
            entry["exception"] = record.exc_info[0].__name__
        return json.dumps(entry, ensure_ascii=False)


def configure_logging(settings: LogSettings) -> None:
    """Write the log to stderr as ``settings`` say; called again, it replaces what was."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-8s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.level, handlers=[handler], force=True)
    for name in NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(settings.level)))
    # Timers run late wherever lanes are busy: a backlog would warn every few seconds. Liveness watches the loop itself.
    logging.getLogger("mode.timers").setLevel(logging.ERROR)
