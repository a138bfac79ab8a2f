"""Ctrl-C, SIGTERM and a closed terminal, as one exception that ends the demo in order, whatever it is doing."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Final

_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """Somebody asked us to stop. Not an Exception, so that nothing on the way takes it for a failure."""


def raise_on_stop_signals() -> None:
    """Raise `StopRequested` in the main thread at the first signal; later ones are ignored."""
    for number in _STOPPING:
        signal.signal(number, _stop)


def ignore_stop_signals() -> None:
    """Let nothing interrupt the cleaning up that has begun."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)


def _stop(_number: int, _frame: FrameType | None) -> None:
    ignore_stop_signals()
    raise StopRequested
