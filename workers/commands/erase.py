"""``engram-stream erase``: erase a conversation's verdicts and prove it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys

import click

from workers.admin.erasure import erase
from workers.commands.options import settings_options
from workers.config import Settings
from workers.keys import decode_key

EXIT_FINDINGS = 3


@click.command()
@click.argument("conversation", metavar="TENANT|CONVERSATION")
@click.option("--timeout", type=float, default=120.0, show_default=True, help="Seconds to wait for the workers.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@settings_options
def command(conversation: str, timeout: float, form: str, settings: Settings) -> None:
    """Erase TENANT|CONVERSATION (in key encoding: % as %25, | inside a part as %7C).

    Sends the tombstones on turns and state-writes, waits until the workers are past them, nulls what is left of the
    conversation on fidelity, and reads the partition again to prove that nothing is. Turns
    sent after the tombstone stay.
    """
    try:
        tenant, name = decode_key(conversation.encode(), 2)
    except ValueError:
        raise click.BadParameter("expected TENANT|CONVERSATION, with % written %25 and | inside a part %7C") from None
    done = asyncio.run(erase(settings, tenant, name, timeout, lambda line: click.echo(line, err=True)))
    if form == "json":
        click.echo(json.dumps(dataclasses.asdict(done)))
    else:
        click.echo(f"erased: {done.by_workers} verdicts nulled by workers, {done.here} here; {done.left} left")
        if done.newer:
            click.echo(f"{done.newer} verdicts of turns sent after the tombstone were kept")
    if done.left:
        sys.exit(EXIT_FINDINGS)
