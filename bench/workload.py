"""The turns of a run: real bodies drawn once, repeated under ids of their own.

Default: about 2 kB with manifest, `SHAPES` shapes of evidence, and one turn in fifty whose tool calls are unproven, so
that its gaps bear call ids and no two such turns look alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Final, NamedTuple

from workers.keys import encode_key
from workers.serde.encoder import Encoder
from workers.serde.schemas import latest, load, load_ids
from workers.serde.wire_format import frame
from workers.testing.traffic import stepping_clock
from workers.testing.traffic.conversations import Conversations

SHAPES: Final = 16
BODIES: Final = 20_000
"""Bodies that are drawn; longer runs repeat them in other conversations."""

_HOUR_MS: Final = 3_600_000
_CLOSED: Final = frozenset(
    {"capture", "provenance", "captureMethod", "determinism", "replayMode", "callsComplete"}
    | {"isolation", "network", "filesystem", "externalServices"}
)
"""Members of a manifest whose value decides about its grade; of the others only whether they are there."""

Turn = dict[str, Any]


class TurnRecord(NamedTuple):
    """Key and framed value of one turn."""

    key: bytes
    value: bytes


class _Body(NamedTuple):
    """A turn without its three ids, which its payload begins with."""

    tenant: str
    conversation: str
    turn: str
    rest: bytes


@dataclass(frozen=True)
class Workload:
    """Turns by seed.

    ``size`` is the length of every payload in bytes, that of generated traffic when None. ``definitions`` is the
    number of distinct definitions, those of generated traffic when None. ``bodies`` is how many bodies are drawn.
    """

    seed: int = 0
    size: int | None = None
    definitions: int | None = None
    bodies: int = BODIES

    def turns(self, count: int) -> Iterator[TurnRecord]:
        """Yield ``count`` turns, no two with the same id."""
        schema_id = self._encoder.schema_id
        for number in range(count):
            lap, at = divmod(number, len(self._bodies))
            body = self._bodies[at]
            conversation = f"{body.conversation}-{lap}"
            payload = b"".join(map(_text, (body.tenant, conversation, body.turn))) + body.rest
            yield TurnRecord(encode_key(body.tenant, conversation), frame(schema_id, payload))

    @cached_property
    def mean_bytes(self) -> float:
        """Mean length of a value in bytes."""
        return sum(len(turn.value) for turn in self.turns(len(self._bodies))) / len(self._bodies)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(load("turns"), load_ids()["turns"][latest("turns")].id)

    @cached_property
    def _bodies(self) -> list[_Body]:
        # An event time ahead of the broker's clock would be clamped, which no healthy producer causes.
        clock = stepping_clock(time.time_ns() // 1_000_000 - _HOUR_MS, per_second=1_000)
        conversations = Conversations(Random(self.seed), clock, incident_after=None, state_write_share=0.0)
        wanted = _ShapeFilter(SHAPES)
        bodies: list[_Body] = []
        for step in conversations.steps():
            turn = step.turn.record
            if not wanted.admits(turn["manifest"]):
                continue
            bodies.append(self._body(turn, len(bodies)))
            if len(bodies) == self.bodies:
                break
        return bodies

    def _body(self, turn: Turn, number: int) -> _Body:
        if self.definitions is not None:
            definition = f"definition-{number % self.definitions}"
            turn = {**turn, "fingerprint": {**turn["fingerprint"], "definition_id": definition}}
        if self.size is not None:
            turn = resized(turn, self.size, self._encoder)
        ids = turn["tenant"], turn["conversation_id"], turn["turn_id"]
        payload = self._encoder.payload(turn)
        return _Body(*ids, payload[sum(len(_text(part)) for part in ids) :])


def _text(text: str) -> bytes:
    """Return ``text`` as an Avro string."""
    content = text.encode()
    length, prefix = len(content) << 1, bytearray()
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*prefix, length]) + content


class _ShapeFilter:
    """Admits manifests of the first ``limit`` shapes that come, and all whose calls are unproven."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._seen: set[object] = set()

    def admits(self, manifest: Mapping[str, Any] | None) -> bool:
        if manifest is None:
            return False
        if any(call["output"]["provenance"] != "observed" for call in manifest["tools"]["calls"]):
            return True
        shape = _shape(manifest)
        if len(self._seen) < self._limit:
            self._seen.add(shape)
        return shape in self._seen


def _shape(value: object, name: str = "") -> object:
    if isinstance(value, Mapping):
        return tuple((key, _shape(item, key)) for key, item in sorted(value.items()))
    if isinstance(value, list):
        return tuple(_shape(item) for item in value)
    return value if name in _CLOSED or value is None else True


# Sizes. A small turn leaves out what producers leave out first; a large one has a longer prompt and a longer reply.


def resized(turn: Turn, size: int, encoder: Encoder) -> Turn:
    """Return ``turn`` with a payload of ``size`` bytes, or the smallest it can be made with its manifest."""
    for reduce in _REDUCTIONS:
        if len(encoder.payload(turn)) <= size:
            break
        turn = reduce(turn)
    missing = size - len(encoder.payload(turn))
    if missing > 0:
        turn = _padded(turn, missing)
        # The lengths of the padded texts may take a byte more now.
        turn = _reply_cut(turn, len(encoder.payload(turn)) - size)
    return turn


def _without_content(turn: Turn) -> Turn:
    return {**turn, "content": None, "snapshot": None}


def _with_short_prompts(turn: Turn) -> Turn:
    prompts = {
        name: artifact if artifact["value"] is None else {**artifact, "value": '"-"'}
        for name, artifact in turn["manifest"]["prompts"].items()
    }
    return {**turn, "manifest": {**turn["manifest"], "prompts": prompts}}


def _without_optional_ids(turn: Turn) -> Turn:
    producer = turn["producer"] | dict.fromkeys(("region", "instance_id", "sdk", "sdk_version"))
    return {**turn, "producer": producer, "user_key": None, "provider_id": None}


def _without_digests(turn: Turn) -> Turn:
    manifest = turn["manifest"]
    environment = dict.fromkeys(manifest["environment"])
    return {
        **turn,
        "manifest": {**manifest, "environment": environment, "source": {**manifest["source"], "sourceHash": None}},
    }


_REDUCTIONS: Final[tuple[Callable[[Turn], Turn], ...]] = (
    _without_content,
    _with_short_prompts,
    _without_digests,
    _without_optional_ids,
)


def _padded(turn: Turn, missing: int) -> Turn:
    manifest = turn["manifest"]
    prompts = manifest["prompts"]
    in_prompt = missing // 2 if prompts["system"]["value"] is not None else 0
    if in_prompt:
        text = json.dumps(json.loads(prompts["system"]["value"]) + "p" * in_prompt, ensure_ascii=False)
        manifest = {**manifest, "prompts": {**prompts, "system": {**prompts["system"], "value": text}}}
    content = turn["content"] or {"user_message": None, "reply": None, "memories": [], "events": []}
    reply = content["reply"] or {"text": "", "ref": None, "sha256": None, "size_bytes": None}
    reply = {**reply, "text": reply["text"] + "r" * (missing - in_prompt)}
    return {**turn, "manifest": manifest, "content": {**content, "reply": reply}}


def _reply_cut(turn: Turn, excess: int) -> Turn:
    content = turn["content"]
    text = content["reply"]["text"]
    kept = text[: max(0, len(text) - excess)]
    return {**turn, "content": {**content, "reply": {**content["reply"], "text": kept}}}
