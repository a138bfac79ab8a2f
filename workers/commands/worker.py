"""``engram-stream worker``: run a worker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from functools import partial
from typing import Final

import click
import faust
from aiokafka.admin import AIOKafkaAdminClient

from workers.app import build_app
from workers.commands.options import settings_options
from workers.config import Settings
from workers.errors import ConfigurationError
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
    try:
        app, runtime = build_app(settings)
    except ConfigurationError as error:
        click.echo(f"engram-stream worker: {error}", err=True)
        sys.exit(EXIT_FATAL_CONFIGURATION)
    worker = faust.Worker(app, loglevel=settings.log.level, override_logging=False, quiet=True, redirect_stdouts=False)
    worker.spinner = None
    app.on_before_shutdown.connect(
        partial(_exit_hard_after, settings.worker.drain_deadline + GRACE_SECONDS), weak=False
    )
    with contextlib.suppress(SystemExit):
        worker.execute_from_commandline()
    logging.shutdown()
    sys.exit(EXIT_FATAL_CONFIGURATION if runtime.fatal is not None else app.exit_code)


async def _check_connection(settings: Settings) -> None:
    """Connect once, so that a wrong address or password is told as what it is."""
    admin = AIOKafkaAdminClient(**client_options(settings.kafka))
    with explained(settings.kafka):
        try:
            await admin.start()
        finally:
            await admin.close()


async def _exit_hard_after(seconds: float, *_: object, **__: object) -> None:
    """End the process in ``seconds`` if it is still there: a hung broker must not keep a stopped worker alive."""
    timer = threading.Timer(seconds, os._exit, (int(ExitCode.WORK_ABANDONED),))
    timer.daemon = True
    timer.start()
