"""``engram-stream worker``: run a worker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Final

import click
from aiokafka.admin import AIOKafkaAdminClient

from workers.app import build_app
from workers.commands.options import settings_options
from workers.config import Settings
from workers.errors import ConfigurationError
from workers.transport.connection import client_options, explained
from workers.transport.process import BatchWorker

EXIT_FATAL_CONFIGURATION: Final = 4

log = logging.getLogger(__name__)


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
    crashed = BatchWorker(app, on_stop_signal=runtime.drain, loglevel=settings.log.level).run()
    code = EXIT_FATAL_CONFIGURATION if runtime.fatal is not None else crashed or app.exit_code
    log.info("stopped with exit code %d%s", code, "" if code else ": all that was begun is committed")
    logging.shutdown()
    sys.exit(code)


async def _check_connection(settings: Settings) -> None:
    """Connect once, so that a wrong address or password is told as what it is."""
    admin = AIOKafkaAdminClient(**client_options(settings.kafka))
    with explained(settings.kafka):
        try:
            await admin.start()
        finally:
            await admin.close()
