"""The process around a Faust app: what happens at the signal to stop, before anything is drained."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import faust

from workers.transport.app import BatchApp
from workers.transport.status import ExitCode

GRACE_SECONDS = 5.0
"""Time after the drain deadline in which the process must be gone."""


class BatchWorker(faust.Worker):
    """Runs a `BatchApp` until SIGTERM or Ctrl-C, and is gone in bounded time after it.

    ``on_stop_signal`` is called at once, before the drain. Faust's signal ``on_before_shutdown`` comes after it.
    """

    def __init__(self, app: BatchApp, *, on_stop_signal: Callable[[], None], **options: Any) -> None:
        super().__init__(app, override_logging=False, quiet=True, redirect_stdouts=False, **options)
        self.spinner = None
        self._on_stop_signal = on_stop_signal
        self._limit = app.transport_options.drain_deadline + GRACE_SECONDS

    def _schedule_shutdown(self, signal: signal.Signals) -> None:
        if not self._signal_stop_time:
            timer = threading.Timer(self._limit, os._exit, (int(ExitCode.WORK_ABANDONED),))
            timer.daemon = True
            timer.start()
            self._on_stop_signal()
        super()._schedule_shutdown(signal)

    def run(self) -> int:
        """Run; return Faust's exit code: 0 after an orderly stop, another after a crash."""
        try:
            self.execute_from_commandline()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
