"""Which alert rules the numbers of a picture would set off, by the bounds of the catalogue and the default policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from workers.alerting.catalogue import ALERTS, MAX_DEAD_LETTER_SHARE, MAX_INCOMPLETE_SHARE
from workers.alerting.spec import Alert
from workers.demo.picture import Picture
from workers.metrics import catalogue as m
from workers.metrics.labels import LevelLabel
from workers.processing.fidelity.verdict import Status
from workers.processing.policy import Policy
from workers.reasons import CATALOGUE, ReasonClass


class Firing(NamedTuple):
    """A rule whose condition holds for ``subject``; it fires when that has lasted ``alert.hold`` seconds."""

    alert: Alert
    subject: str


def rules_that_hold(picture: Picture, policy: Policy | None = None) -> list[Firing]:
    """Return the rules of ``deploy/prometheus/rules`` whose condition ``picture`` meets, the quickest first.

    Rules over the workers themselves (blind, halted, offsets lost) need time or a cluster and are not judged here.
    """
    policy = policy or Policy()
    found = [
        Firing(ALERTS[name], subject) for name, subjects in CONDITIONS.items() for subject in subjects(picture, policy)
    ]
    return sorted(found, key=lambda firing: firing.alert.hold)


def _incomplete(picture: Picture, _policy: Policy) -> Iterator[str]:
    for gap in sorted(picture.gaps):
        yield f"{gap.service} {gap.path}: {gap.field} is {gap.state}"


def _incomplete_mass(picture: Picture, policy: Policy) -> Iterator[str]:
    turns = picture.samples.by(m.FINGERPRINT_TURNS, "service", "complete")
    part = Counter({service: n for (service, complete), n in turns.items() if complete == "false"})
    yield from _over(part, _sum_by_first(turns), MAX_INCOMPLETE_SHARE, policy)


def _letter_ratio(picture: Picture, policy: Policy) -> Iterator[str]:
    letters: Counter[str] = Counter()
    for (topic, reason), n in picture.letters.items():
        letters[topic] += n if CATALOGUE[reason].reason_class is ReasonClass.PRODUCER else 0
    yield from _over(letters, picture.received, MAX_DEAD_LETTER_SHARE, policy)


def _letters_of_ours(picture: Picture, _policy: Policy) -> Iterator[str]:
    for topic, reason in sorted(picture.letters):
        if CATALOGUE[reason].reason_class is ReasonClass.OURS:
            yield f"{topic}: {reason}"


def _key_mismatch(picture: Picture, _policy: Policy) -> Iterator[str]:
    for (topic,) in sorted(picture.samples.by(m.KEY_MISMATCH, "topic")):
        yield topic


def _unreplayable(picture: Picture, policy: Policy) -> Iterator[str]:
    turns = picture.samples.by(m.FIDELITY_TURNS, "service", "status", "level")
    graded = _select(turns, lambda status, _: status == Status.GRADED)
    part = _select(turns, lambda _, level: level == LevelLabel.UNREPLAYABLE)
    yield from _over(part, graded, policy.fidelity_bounds.unreplayable, policy)


def _invalid(picture: Picture, policy: Policy) -> Iterator[str]:
    turns = picture.samples.by(m.FIDELITY_TURNS, "service", "status", "level")
    whole = _select(turns, lambda status, _: status != Status.NO_MANIFEST)
    part = _select(turns, lambda status, _: status == Status.MANIFEST_INVALID)
    yield from _over(part, whole, policy.fidelity_bounds.invalid, policy)


def _missing(picture: Picture, policy: Policy) -> Iterator[str]:
    turns = picture.samples.by(m.FIDELITY_TURNS, "service", "status", "level")
    part = _select(turns, lambda status, _: status == Status.NO_MANIFEST)
    yield from _over(part, _sum_by_first(turns), policy.fidelity_bounds.missing, policy)


def _select(turns: Counter[tuple[str, ...]], matches: Callable[[str, str], bool]) -> Counter[str]:
    """Return by service the turns whose status and level match."""
    found: Counter[str] = Counter()
    for (service, status, level), n in turns.items():
        if matches(status, level):
            found[service] += n
    return found


def _sum_by_first(counts: Counter[tuple[str, ...]]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for (first, *_), n in counts.items():
        sums[first] += n
    return sums


def _over(part: Counter[str], whole: Counter[str], bound: float | None, policy: Policy) -> Iterator[str]:
    for name in sorted(whole):
        if bound is not None and whole[name] >= policy.n_min and part[name] > bound * whole[name]:
            yield f"{name}: {part[name] / whole[name]:.2%}, bound {bound:.0%}"


CONDITIONS: Final[dict[str, Callable[[Picture, Policy], Iterator[str]]]] = {
    "FingerprintIncomplete": _incomplete,
    "FingerprintIncompleteMass": _incomplete_mass,
    "DeadLetterRatio": _letter_ratio,
    "DeadLetterOurs": _letters_of_ours,
    "KeyMismatch": _key_mismatch,
    "FidelityUnreplayable": _unreplayable,
    "FidelityInvalid": _invalid,
    "ManifestMissing": _missing,
}
"""Subjects of which a rule's condition holds, by the name of the alert."""
