"""A stream of records by seed: well-formed turns, state writes, and bad records in a chosen share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from workers.processing.outcome import End
from workers.serde.encoder import Encoder
from workers.serde.schemas import latest, load, load_ids
from workers.testing.traffic.bad_records import (
    BESIDES,
    TURN_KINDS,
    BadKind,
    BadRecords,
    Encoders,
    Expected,
    GeneratedRecord,
    processed,
    turn_ids,
    turn_key,
)
from workers.testing.traffic.conversations import Clock, Conversations, GeneratedTurn, Step, stepping_clock
from workers.testing.traffic.state_writes import key_of

INPUTS: Final = ("turns", "state-writes")


@dataclass(frozen=True, slots=True)
class TrafficPlan:
    """What traffic to generate. Equal plans with equal clocks yield equal records.

    Args:
        seed: seed of everything that is drawn.
        clock: gives event times, milliseconds since the epoch; a virtual one of 100 turns per second when None.
        bad_share: share of the records of ``turns``, 0 to 1, that are bad.
        bad_kinds: the kinds that bad records are drawn from, evenly.
        state_write_share: share of conversations, 0 to 1, whose state writes are published.
        incident: whether one code path leaves the moderation version out.
        incident_after: turns before the release of that code path that forgets it.
        topic_prefix: put before topic names.
    """

    seed: int = 0
    clock: Clock | None = None
    bad_share: float = 0.0
    bad_kinds: Sequence[BadKind] = TURN_KINDS
    state_write_share: float = 0.0
    incident: bool = True
    incident_after: int = 0
    topic_prefix: str = ""

    def records(self, turns: int | None, schema_ids: Mapping[str, int] | None = None) -> Iterator[GeneratedRecord]:
        """Yield traffic until ``turns`` records of the topic ``turns`` have come, for ever if None.

        Records of ``state-writes`` come in between and are not counted. ``schema_ids`` are ids by input topic, where a
        registry has issued others than the shipped ones.
        """
        left = turns
        for record in self._endless(_encoders(schema_ids)):
            if left is not None and record.topic == self.topic_prefix + "turns":
                if not left:
                    return
                left -= 1
            yield record

    def _endless(self, encoders: Encoders) -> Iterator[GeneratedRecord]:
        rng = Random(self.seed)
        topics = {name: self.topic_prefix + name for name in INPUTS}
        bad = BadRecords(rng, encoders, topics)
        conversations = Conversations(
            rng,
            self.clock or stepping_clock(),
            incident_after=self.incident_after if self.incident else None,
            state_write_share=self.state_write_share,
        )
        last: GeneratedTurn | None = None
        steps = conversations.steps()
        for _ in itertools.count():
            kind = rng.choice(self.bad_kinds) if self.bad_kinds and rng.random() < self.bad_share else None
            if kind in BESIDES and last is not None:
                yield bad.make(kind, last)
                continue
            step = next(steps)
            yield from _state_writes(step.before, encoders, topics)
            if kind is None or kind in BESIDES or _cannot_be(kind, step):
                last = step.turn
                yield _good(last, encoders, topics)
            else:
                yield bad.make(kind, step.turn)
            yield from _state_writes(step.after, encoders, topics)


def _cannot_be(kind: BadKind, step: Step) -> bool:
    return kind is BadKind.INVALID_MANIFEST and step.turn.level is None


def _encoders(schema_ids: Mapping[str, int] | None) -> Encoders:
    shipped = load_ids()
    ids = schema_ids or {name: shipped[name][latest(name)].id for name in INPUTS}
    return Encoders(Encoder(load("turns"), ids["turns"]), Encoder(load("state-writes"), ids["state-writes"]))


def _good(turn: GeneratedTurn, encoders: Encoders, topics: Mapping[str, str]) -> GeneratedRecord:
    record = turn.record
    value = encoders.turns.encode(record)
    return GeneratedRecord(topics["turns"], turn_key(record), value, (), processed(turn), None, turn_ids(record))


def _state_writes(
    writes: Sequence[Mapping[str, object]], encoders: Encoders, topics: Mapping[str, str]
) -> Iterator[GeneratedRecord]:
    for write in writes:
        value = encoders.state_writes.encode(write)
        yield GeneratedRecord(topics["state-writes"], key_of(write), value, (), Expected(End.PROCESSED))
