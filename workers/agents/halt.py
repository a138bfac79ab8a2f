"""Standing still on purpose: a lane that cannot go on says so once, waits, and tries again."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from workers.metrics.labels import HaltReason
from workers.records import Partition

log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 10.0
"""As long a publication may take before the partition counts as halted by its output."""


class Holds(Protocol):
    """Tells others that a partition waits on purpose."""

    def hold(self, partition: Partition, reason: HaltReason) -> None:
        """The partition waits for ``reason``: liveness must not count it as stuck."""

    def release(self, partition: Partition) -> None:
        """The partition goes on."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between tries, in seconds: ``first``, doubled up to ``last``."""

    first: float = 0.5
    last: float = 15.0

    def pause(self, attempt: int) -> float:
        """Return the pause after the try of number ``attempt``, from 0."""
        return min(self.first * 2.0 ** min(attempt, 16), self.last)


class Halt:
    """The halts of one step of a lane; leaving it as a context manager lets the partition go on."""

    def __init__(self, partition: Partition, holds: Holds, backoff: Backoff) -> None:
        self._partition = partition
        self._holds = holds
        self._backoff = backoff
        self._attempt = 0
        self._reason: HaltReason | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reason is not None:
            self._holds.release(self._partition)
            if error is None:
                log.info("%s-%d goes on", *self._partition)

    def note(self, reason: HaltReason, text: str) -> None:
        """Hold the partition for ``reason`` and log it, loudly the first time."""
        level = logging.WARNING if self._reason is reason else logging.ERROR
        log.log(level, "%s-%d halted (%s), nothing is lost: %s", *self._partition, reason, text)
        if self._reason is not reason:
            self._reason = reason
            self._holds.hold(self._partition, reason)

    async def wait(self, reason: HaltReason, text: str) -> None:
        """Hold the partition for ``reason`` and wait before the next try, longer each time."""
        pause = self._backoff.pause(self._attempt)
        self._attempt += 1
        self.note(reason, f"{text}; next try in {pause:.1f} s")
        await asyncio.sleep(pause)
