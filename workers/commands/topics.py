"""``engram-stream topics``: compare a cluster's topics with the catalogue; create and change them, never delete."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from workers.admin.topic_plan import ClusterState, Plan, make_plan
from workers.admin.topics import TopicAdmin
from workers.commands.options import settings_options
from workers.config import Settings
from workers.errors import EngramError
from workers.topic_catalogue import DEFAULT_PARTITIONS, load_catalogue, topic_name

EXIT_FINDINGS: Final = 3
_HOUR_MS: Final = 3_600_000


@click.group()
def command() -> None:
    """Compare topics with the catalogue; create and change them."""


def _plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--partitions",
            type=click.IntRange(min=1),
            help=f"Partitions of the inputs; default: as many as they have, for new ones {DEFAULT_PARTITIONS}.",
        ),
        click.option(
            "--replication-factor",
            type=click.IntRange(min=1),
            help="Replication factor of new topics; default: the number of brokers, at most 3.",
        ),
        click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True),
    ):
        function = option(function)
    return settings_options(function)


@command.command()
@_plan_options
def plan(settings: Settings, partitions: int | None, replication_factor: int | None, form: str) -> None:
    """Show what `apply` would do.

    Exits with 0 when there is nothing to do, with 3 when there is something to do or to refuse.
    """
    planned = _Planner(settings, partitions, replication_factor).plan()
    _show(planned, form)
    if planned.changes or planned.refusals:
        sys.exit(EXIT_FINDINGS)


@command.command()
@_plan_options
@click.option("--yes", is_flag=True, help="Do not ask.")
def apply(settings: Settings, partitions: int | None, replication_factor: int | None, form: str, yes: bool) -> None:
    """Create missing topics, correct their configuration, add partitions where no key depends on them.

    Never deletes a topic. Where anything has to be refused, nothing is done and the exit code is 1.
    """
    planner = _Planner(settings, partitions, replication_factor)
    planned = planner.plan()
    _show(planned, form)
    if planned.refusals:
        names = ", ".join(refusal.topic for refusal in planned.refusals)
        raise EngramError(f"nothing was done, because of {names}: see the lines that begin with `refuse`")
    if not planned.changes:
        return
    if not yes and not _confirmed():
        raise EngramError("nothing was done")
    planner.admin.apply(planned, lambda line: click.echo(line, err=True))
    planner.admin.wait_until(lambda: not planner.plan().changes)


class _Planner:
    """Makes the same plan again against the cluster as it is."""

    def __init__(self, settings: Settings, partitions: int | None, replication_factor: int | None) -> None:
        self.admin = TopicAdmin(settings.kafka)
        self._prefix = settings.topics.prefix
        self._partitions = partitions
        self._replication_factor = replication_factor

    def plan(self) -> Plan:
        catalogue = load_catalogue()
        state: ClusterState = self.admin.state([topic_name(topic.name, self._prefix) for topic in catalogue])
        return make_plan(
            catalogue,
            state,
            partitions=self._partitions,
            replication_factor=self._replication_factor,
            prefix=self._prefix,
        )


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on; add --yes to apply the plan")
    return click.confirm("Apply this?", err=True)


def _show(plan: Plan, form: str) -> None:
    if form == "json":
        click.echo(json.dumps(dataclasses.asdict(plan), indent=2))
        return
    lines = list(_lines(plan))
    width = max((len(topic) for _, topic, _ in lines), default=0)
    for verb, topic, text in lines:
        click.echo(f"{verb:<10} {topic:<{width}}  {text}")
    if not plan.changes and not plan.refusals:
        click.echo("nothing to do")


def _lines(plan: Plan) -> Iterator[tuple[str, str, str]]:
    for creation in plan.creations:
        settings = ", ".join(f"{name}={_readable(name, value)}" for name, value in creation.configuration.items())
        size = f"{creation.partitions} partitions, replication factor {creation.replication_factor}"
        yield "create", creation.topic, f"{size}, {settings}"
    for change in plan.configurations:
        for setting in change.settings:
            now = _readable(setting.name, setting.now)
            yield "configure", change.topic, f"{setting.name} {now} → {_readable(setting.name, setting.wanted)}"
    for growth in plan.growths:
        yield "grow", growth.topic, f"{growth.now} → {growth.wanted} partitions"
    for refusal in plan.refusals:
        yield "refuse", refusal.topic, refusal.text
    for remark in plan.remarks:
        yield "note", remark.topic, remark.text


def _readable(name: str, value: str | None) -> str:
    if value is None:
        return "(unknown)"
    if name.endswith(".ms") and int(value) > 0 and int(value) % _HOUR_MS == 0:
        hours = int(value) // _HOUR_MS
        return f"{value} ({hours // 24} d)" if hours % 24 == 0 else f"{value} ({hours} h)"
    return value
