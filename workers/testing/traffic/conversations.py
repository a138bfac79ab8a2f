"""Conversations of the generated deployment: turns of a few hundred open ones, interleaved, and their state writes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from workers.testing.traffic.fleet import (
    FORGETFUL_BUILD,
    FORGETFUL_PATH,
    MODELS,
    MODERATION_VERSIONS,
    REGIONS,
    SERVICES,
    TENANTS,
    Definition,
    Service,
)
from workers.testing.traffic.manifests import Level, ManifestMaker, digest
from workers.testing.traffic.state_writes import activation, state_write

OPEN_CONVERSATIONS: Final = 240
MEAN_TURNS: Final = 12
FALLBACK_SHARE: Final = 0.005
CONTENT_SHARE: Final = 0.6
SNAPSHOT_SHARE: Final = 0.3
ERROR_SHARE: Final = 0.005
FACTS_KEPT: Final = 40
SUMMARY_EVERY: Final = 8
STATE_SHAPE: Final = "shape-3"

_QUESTIONS: Final = (
    "What is the fastest way from Lisbon to Oslo next Friday, and what does it cost?",
    "Can you explain the last step again? I lost you where the sign changed.",
    "Do you remember what I told you about the harbour of Trieste?",
    "Please move my appointment to the afternoon.",
    "I am tired. Tell me something short about lighthouses.",
)
_REPLIES: Final = (
    (
        "There is a direct flight at 07:40 for 129 EUR and one with a stop in Copenhagen at 10:15 for 174 EUR. "
        "The first one leaves early, but you are in Oslo before noon. Shall I ask for a seat?"
    ),
    (
        "Look at the second line: both sides were multiplied by minus one, so every sign turns. "
        "Try the third line yourself and tell me what you get."
    ),
    "You said it smelled of coffee and tar, and that you missed the last ferry on purpose. I would have done the same.",
    "I have noted the afternoon of the fourth, at half past three.",
    "A lighthouse keeper wrote down every ship for forty years, and on the last page: all of them came home.",
)


Clock = Callable[[], int]
"""Gives the time of the next event, in milliseconds since the epoch."""


def stepping_clock(start_ms: int = 1_796_000_000_000, per_second: float = 100.0) -> Clock:
    """Return a clock that advances by itself, ``per_second`` events in each second."""
    steps = itertools.count()
    return lambda: start_ms + int(next(steps) * 1000 / per_second)


class GeneratedTurn(NamedTuple):
    """One generated turn and what the workers must make of it; ``level`` is None for a turn without manifest."""

    record: dict[str, Any]
    level: Level | None
    complete: bool


class Step(NamedTuple):
    """One turn, the state writes committed before it, and those committed after it."""

    turn: GeneratedTurn
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]


@dataclass(slots=True)
class Conversation:
    """State of one conversation, as its service holds it; ``logged`` tells whether its writes are published."""

    tenant: str
    id: str
    user_key: str
    service: Service
    region: str
    instance: int
    path: str
    definition: Definition
    version: str
    model: tuple[str, str]
    logged: bool
    turns: int = 0
    seq: int = 0
    facts: int = 0
    depth: int = 0


class Conversations:
    """Draws one turn after the other from the open conversations; the same ``rng`` state gives the same turns.

    ``incident_after`` is the number of turns before the incident, None for none.
    """

    def __init__(self, rng: Random, clock: Clock, *, incident_after: int | None, state_write_share: float) -> None:
        self._rng = rng
        self._clock = clock
        self._incident_after = incident_after
        self._deployed_at: int | None = None
        self._state_write_share = state_write_share
        self._manifests = ManifestMaker(rng)
        self._count = itertools.count(1)
        self._activated: set[tuple[str, str]] = set()
        self._fleet_started = clock() - 6 * 3_600_000
        self._open = [self._new() for _ in range(OPEN_CONVERSATIONS)]

    def steps(self) -> Iterator[Step]:
        """Yield turns for ever; a conversation that ends is replaced by a new one."""
        for number in itertools.count():
            slot = self._rng.randrange(OPEN_CONVERSATIONS)
            conversation = self._open[slot]
            now = self._clock()
            if self._deployed_at is None and self._incident_after is not None and number >= self._incident_after:
                self._deployed_at = now
            yield self._step(conversation, now)
            if self._rng.random() < 1 / MEAN_TURNS:
                self._open[slot] = self._new()

    def _new(self) -> Conversation:
        rng = self._rng
        service = rng.choices(SERVICES, weights=[service.weight for service in SERVICES])[0]
        definition = rng.choice(service.definitions)
        names, weights = zip(*service.paths, strict=True)
        return Conversation(
            tenant=rng.choice(TENANTS),
            id=f"c-{next(self._count):06d}-{rng.getrandbits(32):08x}",
            user_key=f"u-{rng.getrandbits(48):012x}",
            service=service,
            region=rng.choice(REGIONS),
            instance=rng.randrange(service.instances),
            path=rng.choices(names, weights=weights)[0],
            definition=definition,
            version=rng.choice(definition.versions),
            model=rng.choice(MODELS),
            logged=rng.random() < self._state_write_share,
        )

    def _step(self, conversation: Conversation, now: int) -> Step:
        before = self._opening_writes(conversation, now) if conversation.logged and not conversation.turns else []
        turn = self._turn(conversation, now)
        return Step(turn, before, self._closing_writes(conversation, now))

    def _turn(self, conversation: Conversation, now: int) -> GeneratedTurn:
        rng = self._rng
        conversation.turns += 1
        service, model = conversation.service, conversation.model
        turn_id = f"t-{conversation.turns:04d}-{rng.getrandbits(32):08x}"
        assembled_at = now - rng.randint(300, 4000)
        talk = rng.randrange(len(_QUESTIONS))
        manifest, level = self._manifests.draw(
            service, conversation.definition, conversation.version, model, turn_id, now, _QUESTIONS[talk]
        )
        forgetful = self._deployed_at is not None and conversation.path == FORGETFUL_PATH
        record = {
            "tenant": conversation.tenant,
            "conversation_id": conversation.id,
            "turn_id": turn_id,
            "turn_index": conversation.turns,
            "user_key": conversation.user_key,
            "assembled_at": assembled_at,
            "completed_at": now,
            "producer": self._producer(conversation, deployed_at=self._deployed_at if forgetful else None),
            "fingerprint": self._fingerprint(conversation, forgetful=forgetful),
            "provider_id": model[0],
            "status": "error" if rng.random() < ERROR_SHARE else "completed",
            "snapshot": self._snapshot(turn_id, now),
            "manifest": manifest,
            "content": self._content(talk, now),
        }
        return GeneratedTurn(record, level, complete=not forgetful)

    def _producer(self, conversation: Conversation, *, deployed_at: int | None) -> dict[str, Any]:
        """Return the producing process; ``deployed_at`` is when the release of the incident started it, else None."""
        service = conversation.service
        build = service.builds[conversation.instance % len(service.builds)] if deployed_at is None else FORGETFUL_BUILD
        started = self._fleet_started + conversation.instance * 60_000 if deployed_at is None else deployed_at
        return {
            "service": service.name,
            "region": conversation.region,
            "build_id": build,
            "instance_id": f"{service.name}-{conversation.region}-{conversation.instance:02d}",
            "process_started_at": started,
            "sdk": service.sdk[0],
            "sdk_version": service.sdk[1],
            "path": conversation.path,
        }

    def _fingerprint(self, conversation: Conversation, *, forgetful: bool) -> dict[str, Any]:
        moderated = conversation.service.moderated
        fallback = self._rng.random() < FALLBACK_SHARE
        return {
            "definition_id": f"{conversation.service.name}-builtin" if fallback else conversation.definition.id,
            "definition_version": "builtin-1" if fallback else conversation.version,
            "definition_fallback": True if fallback else None,
            "state_shape_version": STATE_SHAPE,
            "summary_depth": conversation.depth,
            "state_counts": {"facts": conversation.facts, "history": conversation.turns - 1, "memories": 0},
            "model_id": conversation.model[1],
            "moderation_version": MODERATION_VERSIONS[conversation.instance % 2]
            if moderated and not forgetful
            else None,
            "not_applicable": None if moderated else ["moderation_version"],
            "state_position": conversation.seq if conversation.logged else None,
            "piece_digests": None,
        }

    def _snapshot(self, turn_id: str, now: int) -> dict[str, Any] | None:
        if self._rng.random() > SNAPSHOT_SHARE:
            return None
        return {
            "ref": f"snapshots/{turn_id}",
            "sha256": digest(turn_id),
            "size_bytes": self._rng.randint(4_000, 60_000),
            "expires_at": now + 30 * 86_400_000,
        }

    def _content(self, talk: int, now: int) -> dict[str, Any] | None:
        rng = self._rng
        if rng.random() > CONTENT_SHARE:
            return None
        memories = [
            {"id": f"m-{rng.getrandbits(32):08x}", "store": "memories", "sha256": None, "text": None}
            for _ in range(rng.randrange(3))
        ]
        events = [{"type": "typing_paused", "at": now - 200, "ref": None, "data": None}] if rng.random() < 0.2 else []
        return {
            "user_message": _part(_QUESTIONS[talk]),
            "reply": _part(_REPLIES[talk]),
            "memories": memories,
            "events": events,
        }

    def _opening_writes(self, conversation: Conversation, now: int) -> list[dict[str, Any]]:
        writes = []
        definition = conversation.definition.id
        if (conversation.tenant, definition) not in self._activated:
            self._activated.add((conversation.tenant, definition))
            writes.append(activation(conversation.tenant, conversation.definition, conversation.service.name, now))
        counts = [{"piece": piece, "count": 0} for piece in ("facts", "history", "memories")]
        state = {"counts": counts, "depth": 0, "shape": STATE_SHAPE}
        return [*writes, self._write(conversation, now, "conversation_started", state=state)]

    def _closing_writes(self, conversation: Conversation, now: int) -> list[dict[str, Any]]:
        """Return what the service writes after a turn; the conversation's state follows, logged or not."""
        rng = self._rng
        writes = [self._write(conversation, now, "history_appended", piece="history", count_after=conversation.turns)]
        if conversation.facts < FACTS_KEPT and rng.random() < 0.4:
            conversation.facts += 1
            fact = f"f-{rng.getrandbits(40):010x}"
            writes.append(
                self._write(conversation, now, "fact_written", piece="facts", item_id=fact, item_digest=digest(fact))
            )
        if conversation.turns % SUMMARY_EVERY == 0:
            conversation.depth += 1
            writes.append(self._write(conversation, now, "summary_rebuilt", depth_after=conversation.depth))
        return writes if conversation.logged else []

    def _write(self, conversation: Conversation, now: int, kind: str, **fields: object) -> dict[str, Any]:
        conversation.seq += 1
        writer = {"service": conversation.service.name, "region": conversation.region}
        scope = {"tenant": conversation.tenant, "scope_type": "conversation", "scope_id": conversation.id}
        cause = {"type": "turn", "id": f"{conversation.id}/{conversation.turns}"}
        return state_write(
            f"w-{conversation.id}-{conversation.seq}",
            kind,
            now,
            scope,
            writer,
            seq=conversation.seq,
            cause=cause,
            **fields,
        )


def _part(text: str) -> dict[str, Any]:
    return {"text": text, "ref": None, "sha256": None, "size_bytes": None}
