"""``engram-stream generate``: publish realistic traffic and say what the workers must make of it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Mapping

import click

from workers.commands.options import settings_options
from workers.config import RegistrySettings, Settings
from workers.errors import ConfigurationError
from workers.serde.registry import open_registry
from workers.serde.schemas import load
from workers.testing.traffic import TURN_KINDS, BadKind, TrafficPlan
from workers.testing.traffic.plan import INPUTS
from workers.testing.traffic.publishing import Published, publish
from workers.topic_catalogue import topic_name

_DEFAULT_BAD = 0.01
_KINDS = [kind.value for kind in BadKind]


@click.command()
@click.option("--turns", type=click.IntRange(min=1), help="Records to publish on turns; until Ctrl-C when not given.")
@click.option(
    "--rate", type=click.FloatRange(min=0), default=100.0, show_default=True, help="Turns per second; 0: no pause."
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed draws the same traffic.")
@click.option("--bad", type=click.FloatRange(0, 1), help="Share of bad records; 0.01 with --bad-kind, else 0.")
@click.option(
    "--bad-kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    type=click.Choice(_KINDS),
    help=f"Kinds that bad records are drawn from, repeatable: {', '.join(_KINDS)}.",
)
@click.option(
    "--state-writes", type=click.FloatRange(0, 1), default=0.0, help="Share of conversations with state writes."
)
@click.option("--no-incident", is_flag=True, help="Let no code path forget the moderation version.")
@click.option(
    "--incident-after",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Turns before the release of that code path that forgets it.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@settings_options
def command(
    turns: int | None,
    rate: float,
    seed: int,
    bad: float | None,
    kinds: tuple[str, ...],
    state_writes: float,
    no_incident: bool,
    incident_after: int,
    form: str,
    settings: Settings,
) -> None:
    """Publish realistic turns of three services, with manifests of every fidelity level.

    Prints at the end, on stdout, how many records the workers must process, skip and dead-letter, and why. Ctrl-C
    stops cleanly.
    """
    plan = TrafficPlan(
        seed=seed,
        clock=lambda: time.time_ns() // 1_000_000,
        bad_share=bad if bad is not None else _DEFAULT_BAD if kinds else 0.0,
        bad_kinds=tuple(BadKind(kind) for kind in kinds) or TURN_KINDS,
        state_write_share=state_writes,
        incident=not no_incident,
        incident_after=incident_after,
        topic_prefix=settings.topics.prefix,
    )
    published = asyncio.run(_publish(plan, turns, rate, settings))
    click.echo(json.dumps(published.as_dict()) if form == "json" else "\n".join(_as_text(published)))


async def _publish(plan: TrafficPlan, turns: int | None, rate: float, settings: Settings) -> Published:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        stop.set()
        loop.remove_signal_handler(number)  # A second one ends at once, should Kafka have gone.

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    ids = await _schema_ids(settings.registry)
    paced = topic_name("turns", settings.topics.prefix)
    return await publish(plan.records(turns, ids), settings.kafka, rate=rate, paced=paced, stop=stop, progress=_say)


async def _schema_ids(settings: RegistrySettings) -> Mapping[str, int]:
    """Return the ids under which the registry knows the schemas of the inputs."""
    registry = open_registry(settings)
    try:
        ids = {name: await registry.id_of(name, load(name)) for name in INPUTS}
    finally:
        await registry.close()
    missing = [name for name, number in ids.items() if number is None]
    if missing:
        raise ConfigurationError(
            f"the registry does not hold the schemas of {', '.join(missing)}. "
            "Register them by `engram-stream schemas register`."
        )
    return {name: number for name, number in ids.items() if number is not None}


def _say(published: Published) -> None:
    sys.stderr.write(f"{published.records:,} records acknowledged\n")


def _as_text(published: Published) -> list[str]:
    lines = [f"{published.records:,} records in {published.seconds:.1f} s; the workers must count:"]
    for (topic, end), count in sorted(published.ends.items()):
        lines.append(f"  {topic:<16} {end:<12} {count:>10,}")
    for (topic, reason), count in sorted(published.letters.items()):
        lines.append(f"  {topic:<16} dlq: {reason:<20} {count:>8,}")
    for level, count in sorted(published.verdicts.items()):
        lines.append(f"  verdict {level:<20} {count:>10,}")
    lines.append(f"  incomplete fingerprints {published.incomplete:>14,}")
    return lines
