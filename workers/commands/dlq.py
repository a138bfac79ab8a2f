"""``engram-stream dlq``: dead letters, without their payload unless it is asked for."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Any, Final, TypeAlias

import click
from aiokafka import ConsumerRecord

from workers.admin.reading import read_to_end, reader
from workers.commands.files import EXIT_NOT_FOUND, Progress, counted, printable
from workers.commands.options import settings_options
from workers.config import Settings
from workers.outputs.dlq import PREFIX, added_to
from workers.reasons import CATALOGUE, Reason
from workers.topic_catalogue import topic_name
from workers.transport.connection import client_options
from workers.transport.metadata import partitions_of

_LETTER_ID: Final = re.compile(r"[^:]+:[0-9]+:[0-9]+")
INPUTS: Final = ("turns", "state-writes")
Letter: TypeAlias = ConsumerRecord[bytes | None, bytes | None]


@click.group()
def command() -> None:
    """Read dead letters."""


def _facts(letter: Letter) -> dict[str, str]:
    """Return what the headers of ``letter`` say about its refusal."""
    return {
        name.removeprefix(PREFIX): content.decode("utf-8", "replace")
        for name, content in letter.headers[added_to(letter.headers) :]
        if name.startswith(PREFIX) and content is not None
    }


async def _letters(settings: Settings, source: str, partition: int | None = None) -> AsyncIterator[Letter]:
    """Yield the letters of ``source``, of one partition or of one after the other, so that the order is always one."""
    topic = topic_name(f"{source}-dlq", settings.topics.prefix)
    progress = Progress("letters read")
    done = 0
    async with reader(settings.kafka) as consumer:
        for place in sorted(await partitions_of(topic, client_options(settings.kafka))):
            if partition not in {None, place.partition}:
                continue
            async for letter in read_to_end(consumer, [place]):
                yield letter
                done += 1
                progress.tell(done)


@command.command("list")
@click.argument("source", type=click.Choice(INPUTS))
@click.option("--reason", type=click.Choice([str(reason) for reason in Reason]), help="Only letters of this reason.")
@click.option("--partition", type=click.IntRange(min=0), help="Only letters of this partition.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="How many to show.")
@click.option("--format", "form", type=click.Choice(["text", "jsonl"]), default="text", show_default=True)
@settings_options
def list_letters(
    source: str, reason: str | None, partition: int | None, limit: int, form: str, settings: Settings
) -> None:
    """List the dead letters of SOURCE, one partition after the other, oldest first."""
    asyncio.run(_list(settings, source, reason, partition, limit, form))


async def _list(
    settings: Settings, source: str, reason: str | None, partition: int | None, limit: int, form: str
) -> None:
    matching = 0
    async for letter in _letters(settings, source, partition):
        facts = _facts(letter)
        if reason is not None and facts.get("reason") != reason:
            continue
        matching += 1
        if matching > limit:
            continue
        size = facts.get("size") or str(len(letter.value or b""))
        if form == "jsonl":
            click.echo(json.dumps({**facts, "letter": f"{letter.partition}:{letter.offset}", "bytes": int(size)}))
        else:
            detail = f" {facts['detail']}" if "detail" in facts else ""
            click.echo(f"{facts.get('id', '?'):32} {facts.get('reason', '?')}{detail} ({facts.get('class')}, {size} B)")
    shown = min(matching, limit)
    click.echo(f"{shown} of {counted(matching, 'letter')} shown", err=True)


@command.command("show")
@click.argument("source", type=click.Choice(INPUTS))
@click.argument("letter_id")
@click.option("--reveal", is_flag=True, help="Print key, headers and payload too: they may hold a person's words.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@settings_options
def show(source: str, letter_id: str, reveal: bool, form: str, settings: Settings) -> None:
    """Show the letter LETTER_ID (topic:partition:offset of the refused record) of SOURCE."""
    if not _LETTER_ID.fullmatch(letter_id):
        raise click.BadParameter(
            f"{printable(letter_id)} is not topic:partition:offset; `dlq list {source}` shows the ids there are"
        )
    if not asyncio.run(_show(settings, source, letter_id, reveal, form)):
        click.echo(f"no letter {letter_id} in {source}-dlq; `dlq list {source}` shows those there are", err=True)
        sys.exit(EXIT_NOT_FOUND)


async def _show(settings: Settings, source: str, letter_id: str, reveal: bool, form: str) -> bool:
    async for letter in _letters(settings, source):
        facts = _facts(letter)
        if facts.get("id") == letter_id:
            _print(letter, facts, reveal, form)
            return True
    return False


def _print(letter: Letter, facts: dict[str, str], reveal: bool, form: str) -> None:
    described: dict[str, Any] = {**facts, "letter": f"{letter.topic}:{letter.partition}:{letter.offset}"}
    if facts.get("reason") in {str(reason) for reason in Reason}:
        entry = CATALOGUE[Reason(facts["reason"])]
        described |= {"meaning": entry.meaning, "fix": entry.fix}
    if reveal:
        described["key_base64"] = _base64(letter.key)
        described["headers"] = [
            [name, _base64(content)] for name, content in letter.headers[: added_to(letter.headers)]
        ]
        described["value_base64"] = _base64(letter.value)
    if form == "json":
        click.echo(json.dumps(described))
        return
    for name, value in described.items():
        click.echo(f"{name:16} {value}")


def _base64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
