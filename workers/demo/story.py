"""What happened, in words. Pure: every number is taken from the metrics, every name from a catalogue."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal, NamedTuple

from workers.alerting.spec import Alert
from workers.demo.alerts import SeenAlert
from workers.demo.picture import MIX, STATE_WRITES, Gap, Onset, Picture
from workers.demo.rules import rules_that_hold
from workers.demo.samples import TURNS
from workers.metrics import catalogue as m
from workers.metrics.labels import End
from workers.processing.fidelity.catalogue import CATALOGUE as CODES
from workers.processing.fidelity.catalogue import IMPACTS
from workers.reasons import CATALOGUE as REASONS

ANNOUNCED_WITHIN_S: Final = 15.0
"""An alert about a path belongs to a gap of it that shows so soon after: turns are scraped in batches."""


class Line(NamedTuple):
    """A line of the story; a command is never wrapped, so that it can be copied."""

    text: str
    kind: Literal["text", "item", "command"] = "text"


class Section(NamedTuple):
    """A heading and its lines."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the story is made from.

    ``seconds`` is how long traffic has come, ``settled`` whether it has ended and everything is processed, ``stays``
    whether the demo goes on after the story.
    ``addresses`` are those of the workers' metrics; ``command`` is how the reader calls this program.
    """

    picture: Picture
    onsets: Mapping[Gap, Onset]
    alerts: Sequence[SeenAlert]
    seconds: float
    settled: bool
    stays: bool
    bootstrap_servers: str
    addresses: Sequence[str]
    command: str = "engram-stream"


def tell(facts: Facts) -> list[Section]:
    """Return the story."""
    return [
        Section("What happened", list(_what_happened(facts))),
        Section("Can every turn be attributed?", list(_attribution(facts))),
        Section("Can they be replayed?", list(_replay(facts.picture))),
        Section("Dead letters, and what their producers have to do", list(_letters(facts.picture))),
        Section("Alerts", list(_alerts(facts))),
    ]


def where_next(facts: Facts) -> Section:
    """Return the commands that work while the demo runs, and the pages to read."""
    servers = f"--bootstrap-servers {facts.bootstrap_servers}"
    lines = [
        Line("The letters, without their payload:"),
        Line(f"{facts.command} dlq list turns --limit 10 {servers}", "command"),
    ]
    code = _worst_gap(facts.picture)
    if code is not None:
        lines += [Line("A code of a verdict, explained:"), Line(f"{facts.command} fidelity explain {code}", "command")]
    lines += [
        Line("All numbers of this story, of each worker:"),
        *(Line(f"curl -s {address}/metrics", "command") for address in facts.addresses),
        Line("The topics, and that they are as the catalogue says:"),
        Line(f"{facts.command} topics plan {servers}", "command"),
        Line(
            f"The verdicts are on the topic fidelity of {facts.bootstrap_servers}, one per turn; "
            "docs/consumer-guide.md says how to read them, docs/reasons.md what becomes a dead letter and why, "
            "docs/alerts.md when somebody is told, docs/policy.md what you can set."
        ),
    ]
    while_it_runs = "" if facts.stays else ", while a demo runs (on a terminal it goes on until Ctrl-C)"
    return Section(f"Where to look next{while_it_runs}", lines)


def clock(at: float) -> str:
    """Return the time of day of ``at`` (seconds since the epoch) on this machine."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def count(number: int, one: str, many: str | None = None) -> str:
    """Return ``number`` with its noun."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def percent(share: float) -> str:
    """Return ``share`` in whole percent; neither a little nor almost all is rounded away."""
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def words(identifier: str) -> str:
    """Return an identifier as it reads in a sentence."""
    return identifier.replace("_", " ")


def listed(parts: Sequence[str]) -> str:
    """Return ``parts`` as an enumeration."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _what_happened(facts: Facts) -> Iterator[Line]:
    picture = facts.picture
    received = [count(picture.received[TURNS], "record") + f" on {TURNS}"]
    if picture.received[STATE_WRITES]:
        received.append(f"{picture.received[STATE_WRITES]:,} on {STATE_WRITES}")
    yield Line(
        f"In {facts.seconds:.0f} seconds of traffic {count(len(picture.shares), 'worker')} received {listed(received)}."
    )
    yield Line(f"Of {TURNS}, {listed([*_ends(picture)])}.")
    books = (
        "The books balance: every record that was received came to exactly one end."
        if picture.difference == 0
        else f"The books do not balance: {count(abs(picture.difference), 'record')} came to no end, or to two."
    )
    waiting = picture.lag.total()
    if facts.settled and not waiting:
        yield Line(f"{books} Nothing is left to read.")
    else:
        yield Line(f"{books} {count(waiting, 'record')} {'waits' if waiting == 1 else 'wait'} to be committed.")


def _ends(picture: Picture) -> Iterator[str]:
    yield f"{picture.ended(TURNS, End.PROCESSED):,} were judged, one verdict each on fidelity"
    texts = {
        End.DUPLICATE: ("repeated an earlier turn and got no second verdict",) * 2,
        End.TOMBSTONE: ("was an erasure", "were erasures"),
        End.DLQ: ("became a dead letter", "became dead letters"),
    }
    for end, (one, many) in texts.items():
        number = picture.ended(TURNS, end)
        if number:
            yield f"{number:,} {one if number == 1 else many}"


def _replay(picture: Picture) -> Iterator[Line]:
    total = picture.verdicts
    if not total:
        yield Line("No turn has been judged yet.")
        return
    shares = [f"{percent(picture.mix[name] / total)} {words(name)}" for name in MIX if picture.mix[name]]
    yield Line(f"Of {count(total, 'verdict')}: {listed(shares)}.")
    worst = _worst_gap(picture)
    if worst is not None:
        entry = CODES[worst]
        meaning = IMPACTS[entry.impact] if entry.impact else ""
        yield Line(
            f"The gravest gap met most often, {picture.evidence[worst]:,} times, is {worst}: {entry.reason} {meaning} "
            f"Fix: {entry.fix}"
        )


def _worst_gap(picture: Picture) -> str | None:
    """Return the code of the most frequent gap of the gravest impact there is."""
    order = list(IMPACTS)
    ranked = ((order.index(impact), -n, code) for code, n in picture.evidence.items() if (impact := CODES[code].impact))
    return min(ranked, default=(0, 0, None))[2]


def _attribution(facts: Facts) -> Iterator[Line]:
    picture = facts.picture
    if not picture.gaps:
        yield Line("Yes: each names all six parts of its state fingerprint.")
        return
    for gap, number in picture.gaps.most_common():
        onset = facts.onsets[gap]
        turns = picture.turns[gap.producer]
        yield Line(
            f"Since {clock(onset.at)} the path {gap.path} of {gap.service} does not name its {words(gap.field)} "
            f"(state {gap.state}): {count(number, 'turn')}, {_of_all(number, turns - onset.turns_before)} this path "
            f"has made since. {_before(onset.turns_before)}"
        )
        yield from _announced(gap, onset, facts.alerts)
    others = len(picture.turns.keys() - {gap.producer for gap in picture.gaps})
    if others:
        yield Line(f"The turns of the {count(others, 'other path')} name all six parts of their state fingerprint.")


def _of_all(number: int, since: int) -> str:
    return "all that" if number >= since else f"{percent(number / since)} of the {since:,} that"


def _before(turns: int) -> str:
    if not turns:
        return "It had made none before."
    return f"The {count(turns, 'turn')} before named it." if turns > 1 else "The one turn before named it."


def _announced(gap: Gap, onset: Onset, alerts: Sequence[SeenAlert]) -> Iterator[Line]:
    near = [
        alert
        for alert in alerts
        if alert.producer == gap.producer and onset.at - ANNOUNCED_WITHIN_S <= alert.at <= onset.at
    ]
    if near:
        newest = max(near, key=lambda alert: alert.at)
        # Each tenant meets the release for itself: the first one to do so tells when it came.
        first = min((alert for alert in near if alert.release == newest.release), key=lambda alert: alert.at)
        yield Line(
            f"The stream itself saw what changed: {first.name} on the topic alerts says that at {clock(first.at)} this "
            f"path began to run release {first.release}."
        )


def _letters(picture: Picture) -> Iterator[Line]:
    if not picture.letters:
        yield Line("There are none.")
    for (topic, reason), number in picture.letters.most_common():
        entry = REASONS[reason]
        owner = "" if entry.reason_class == "producer" else f" ({entry.reason_class})"
        where = "" if topic == TURNS else f" on {topic}"
        yield Line(f"{number:,} {reason}{where}{owner}: {entry.meaning} Fix: {entry.fix}", "item")


def _alerts(facts: Facts) -> Iterator[Line]:
    firing = rules_that_hold(facts.picture)
    if firing:
        yield Line("With the rules of deploy/prometheus/rules, Prometheus would raise:")
    for alert, group in groupby(firing, key=lambda firing: firing.alert):
        subjects = "; ".join(found.subject for found in group)
        yield Line(f"{alert.name} ({alert.severity}, {_delay(alert)}): {subjects}. See {alert.runbook()}.", "item")
    if not firing:
        yield Line("No rule of deploy/prometheus/rules would raise an alert.")
    announced = facts.picture.samples.by(m.ALERTS, "alert", "state")
    for (name, state), number in sorted(announced.items()):
        yield Line(f"On the topic alerts: {number:,} times {name} ({state}), once for each new way of producing turns.")


def _delay(alert: Alert) -> str:
    return "at once" if not alert.hold else f"once it has lasted {alert.hold / 60:.0f} min"
