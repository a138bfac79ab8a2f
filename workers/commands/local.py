"""`engram-stream local up`: Apache Kafka on this machine, in the foreground."""

from __future__ import annotations

import signal
import time
from types import FrameType
from typing import Literal

import click

from workers.testing.local_kafka import LocalKafka

_CHECK_S = 0.5


@click.group()
def command() -> None:
    """Run Apache Kafka on this machine."""


@command.command()
@click.option("--brokers", type=click.Choice(["1", "3"]), default="1", show_default=True, help="Nodes of the cluster.")
def up(brokers: str) -> None:
    """Start Apache Kafka, print where it listens, and run it until Ctrl-C or SIGTERM.

    It needs Java 17 or later, and Maven for the first start. Data and logs lie in a temporary folder, which is removed
    at the end.
    """
    count: Literal[1, 3] = 3 if brokers == "3" else 1
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        with LocalKafka(count) as kafka:
            click.echo(f"bootstrap.servers={kafka.bootstrap_servers}")
            click.echo(f"Apache Kafka is up, logs in {kafka.folder}; stop it with Ctrl-C", err=True)
            while True:
                kafka.check_running()
                time.sleep(_CHECK_S)
    except _StopRequested:
        click.echo("Apache Kafka is stopped and its data removed", err=True)


class _StopRequested(BaseException):
    """Ctrl-C or SIGTERM. Not an Exception, so that nothing on the way takes it for a failure."""


def _stop(_number: int, _frame: FrameType | None) -> None:
    # Once is enough: a second signal must not interrupt the clean-up.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise _StopRequested
