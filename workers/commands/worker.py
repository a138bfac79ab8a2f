"""``engram-stream worker``: run a worker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from typing import Final

import click
import faust
from aiokafka import AIOKafkaConsumer

from workers.app import build_app
from workers.commands.options import settings_options
from workers.config import Settings
from workers.transport.connection import client_options, explained
from workers.transport.status import ExitCode

EXIT_FATAL_CONFIGURATION: Final = 4
GRACE_SECONDS: Final = 5.0
"""Time after the drain deadline in which the process must be gone."""


@click.command()
@settings_options
def command(settings: Settings) -> None:
    """Run a worker.

    Exit codes: 0 stopped with everything drained, 3 work was left for the next owner, 4 configuration, 5 Kafka cannot
    be reached at the start, or the watchdog found the worker stuck.
    """
    asyncio.run(_check_connection(settings))
    app, runtime = build_app(settings)
    worker = faust.Worker(app, loglevel=settings.log.level, override_logging=False, quiet=True, redirect_stdouts=False)
    app.on_before_shutdown.connect(lambda *_, **__: _exit_hard_after(settings.worker.drain_deadline + GRACE_SECONDS))
    with contextlib.suppress(SystemExit):
        worker.execute_from_commandline()
    sys.stderr.flush()
    sys.exit(EXIT_FATAL_CONFIGURATION if runtime.fatal is not None else app.exit_code)


async def _check_connection(settings: Settings) -> None:
    """Connect once, so that a wrong address or password is told as what it is."""
    consumer = AIOKafkaConsumer(**client_options(settings.kafka))
    with explained(settings.kafka):
        try:
            await consumer.start()
        finally:
            await consumer.stop()


def _exit_hard_after(seconds: float) -> None:
    """End the process in ``seconds`` if it is still there: a hung broker must not keep a stopped worker alive."""
    timer = threading.Timer(seconds, os._exit, (int(ExitCode.WORK_ABANDONED),))
    timer.daemon = True
    timer.start()
