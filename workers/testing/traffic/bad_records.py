"""Records that producers get wrong, one kind per reason, each with the end it must come to.

The reasons are those of docs/reasons.md. Every kind is made from a good turn, so it sits where a real producer
would have put it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from random import Random
from typing import Any, Final, NamedTuple

from workers.keys import encode_key
from workers.processing.outcome import End
from workers.reasons import Reason
from workers.records import Headers
from workers.serde.encoder import Encoder
from workers.serde.wire_format import SCHEMA_ID_HEADER, frame
from workers.testing.traffic.conversations import GeneratedTurn
from workers.testing.traffic.manifests import Level
from workers.testing.traffic.state_writes import key_of, state_write

UNKNOWN_ID: Final = 2_000_000_011
"""A schema id that no registry of a test has issued."""


class BadKind(StrEnum):
    """What a producer can get wrong; closed."""

    BAD_MAGIC = "bad_magic"
    TRUNCATED_FRAME = "truncated_frame"
    BAD_HEADER_FRAMING = "bad_header_framing"
    UNKNOWN_SCHEMA_ID = "unknown_schema_id"
    PAYLOAD_TRUNCATED = "payload_truncated"
    TRAILING_BYTES = "trailing_bytes"
    BAD_UTF8 = "bad_utf8"
    BAD_INDEX = "bad_index"
    BAD_VALUE = "bad_value"
    LIMIT_EXCEEDED = "limit_exceeded"
    INVALID_RECORD = "invalid_record"
    MISSING_EVENT_TIME = "missing_event_time"
    TOO_LARGE = "too_large"
    MISSING_KEY = "missing_key"
    BAD_KEY = "bad_key"
    UNKNOWN_KIND = "unknown_kind"
    DUPLICATE = "duplicate"
    CONFLICTING_DUPLICATE = "conflicting_duplicate"
    INVALID_MANIFEST = "invalid_manifest"
    KEY_MISMATCH = "key_mismatch"
    CONVERSATION_TOMBSTONE = "conversation_tombstone"
    TURN_TOMBSTONE = "turn_tombstone"


TURN_KINDS: Final = tuple(kind for kind in BadKind if kind is not BadKind.UNKNOWN_KIND)
"""The kinds that belong on ``turns``; the other belongs on ``state-writes``."""

LETTERS: Final = frozenset(kind for kind in BadKind if kind.value in [reason.value for reason in Reason])
"""The kinds that end as dead letters; each bears the name of its reason."""

BESIDES: Final = frozenset(
    {
        BadKind.MISSING_KEY,
        BadKind.BAD_KEY,
        BadKind.UNKNOWN_KIND,
        BadKind.DUPLICATE,
        BadKind.CONFLICTING_DUPLICATE,
        BadKind.CONVERSATION_TOMBSTONE,
        BadKind.TURN_TOMBSTONE,
    }
)
"""The kinds that come beside the turns; the others stand in a turn's place."""


class Expected(NamedTuple):
    """What the workers must make of a record.

    ``reason`` is set for dead letters. The others are set for processed turns: the verdict's ``status``, its ``level``
    where graded, and whether the fingerprint is complete.
    """

    end: End
    reason: Reason | None = None
    status: str | None = None
    level: Level | None = None
    complete: bool | None = None


class GeneratedRecord(NamedTuple):
    """One record to publish, with what must become of it.

    ``ids`` are tenant, conversation and turn of a record that is, or repeats, a well-formed turn; else None.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    expected: Expected
    kind: BadKind | None = None
    ids: tuple[str, str, str] | None = None


class Encoders(NamedTuple):
    """The encoders of the two input topics."""

    turns: Encoder
    state_writes: Encoder


Turn = Mapping[str, Any]
_Raw = tuple[bytes | None, bytes | None, Headers]


def turn_key(turn: Turn) -> bytes:
    """Return the record key of a turn."""
    return encode_key(turn["tenant"], turn["conversation_id"])


def turn_ids(turn: Turn) -> tuple[str, str, str]:
    """Return tenant, conversation and turn id."""
    return turn["tenant"], turn["conversation_id"], turn["turn_id"]


def processed(turn: GeneratedTurn) -> Expected:
    """Return what must become of a well-formed turn."""
    status = "no_manifest" if turn.level is None else "graded"
    return Expected(End.PROCESSED, status=status, level=turn.level, complete=turn.complete)


def _length_prefixed(text: str) -> int:
    """Return how many bytes a short Avro string takes: one or two of length, then the text."""
    size = len(text.encode())
    return size + (1 if size < 64 else 2)


def _with_bad_index(turn: Turn, payload: bytes) -> bytes:
    """Return ``payload`` with branch 7 of the two-branch union ``turn_index``, which follows the three ids."""
    at = sum(_length_prefixed(text) for text in turn_ids(turn))
    return payload[:at] + b"\x0e" + payload[at + 1 :]


def _with_bad_text(turn: Turn, payload: bytes) -> bytes:
    """Return ``payload`` with a byte that UTF-8 never has as the last of the turn id."""
    end = sum(_length_prefixed(text) for text in turn_ids(turn))
    return payload[: end - 1] + b"\xff" + payload[end:]


def _oversized(turn: Turn) -> dict[str, Any]:
    part = {"text": "x" * 1_000_000, "ref": None, "sha256": None, "size_bytes": None}
    return {**turn, "content": {"user_message": None, "reply": part, "memories": [], "events": []}}


def _invalid_manifest(turn: Turn) -> dict[str, Any]:
    if turn["manifest"] is None:
        raise ValueError("a turn without manifest cannot have an invalid one")
    return {**turn, "manifest": {**turn["manifest"], "capturedAt": "yesterday"}}


_PAYLOADS: Final[Mapping[BadKind, Callable[[Turn, bytes], bytes]]] = {
    BadKind.PAYLOAD_TRUNCATED: lambda turn, payload: payload[: len(payload) // 2],
    BadKind.TRAILING_BYTES: lambda turn, payload: payload + b"\x00\x02",
    BadKind.BAD_UTF8: _with_bad_text,
    BadKind.BAD_INDEX: _with_bad_index,
    # The first byte is the length of the tenant; an odd one is negative.
    BadKind.BAD_VALUE: lambda turn, payload: b"\x01" + payload[1:],
}
"""Kinds whose payload no serializer writes."""

_RECORDS: Final[Mapping[BadKind, Callable[[Turn], dict[str, Any]]]] = {
    BadKind.LIMIT_EXCEEDED: lambda turn: {**turn, "provider_id": "p" * 1_001},
    BadKind.INVALID_RECORD: lambda turn: {**turn, "turn_id": ""},
    BadKind.MISSING_EVENT_TIME: lambda turn: {**turn, "assembled_at": None, "completed_at": None},
    BadKind.TOO_LARGE: _oversized,
    BadKind.INVALID_MANIFEST: _invalid_manifest,
}
"""Kinds that are well-encoded and break the contract of a turn."""

_VALUES: Final[Mapping[BadKind, Callable[[bytes], bytes]]] = {
    BadKind.BAD_MAGIC: lambda value: b"\x02" + value[1:],
    BadKind.TRUNCATED_FRAME: lambda value: value[:3],
    BadKind.UNKNOWN_SCHEMA_ID: lambda value: frame(UNKNOWN_ID, value[5:]),
}
"""Kinds whose frame is wrong."""


class BadRecords:
    """Makes bad records out of good turns."""

    def __init__(self, rng: Random, encoders: Encoders, topics: Mapping[str, str]) -> None:
        self._rng = rng
        self._encoders = encoders
        self._topics = topics

    def make(self, kind: BadKind, turn: GeneratedTurn) -> GeneratedRecord:
        """Return a record of ``kind``.

        ``turn`` is the one that goes wrong; for the kinds of `BESIDES`, the last one that went right.

        Raises:
            ValueError: the manifest of a turn without one cannot be made invalid.
        """
        record = turn.record
        if kind is BadKind.UNKNOWN_KIND:
            return self._unknown_kind(record)
        if kind in {BadKind.CONVERSATION_TOMBSTONE, BadKind.TURN_TOMBSTONE}:
            return self._tombstone(kind, record)
        key, value, headers = self._raw(kind, record)
        if kind in LETTERS:
            return self._on_turns(key, value, headers, Expected(End.DLQ, Reason(kind.value)), kind)
        expected = {
            BadKind.INVALID_MANIFEST: Expected(End.PROCESSED, status="manifest_invalid", complete=turn.complete),
            BadKind.KEY_MISMATCH: processed(turn),
        }.get(kind, Expected(End.DUPLICATE))
        return self._on_turns(key, value, headers, expected, kind, turn_ids(record))

    def _raw(self, kind: BadKind, turn: Turn) -> _Raw:
        encoder, key = self._encoders.turns, turn_key(turn)
        if kind is BadKind.MISSING_KEY:
            return None, None, ()
        if kind is BadKind.BAD_KEY:
            return turn["conversation_id"].encode(), None, ()
        if kind is BadKind.BAD_HEADER_FRAMING:
            return key, encoder.payload(turn), ((SCHEMA_ID_HEADER, b"\x01short"),)
        if kind is BadKind.KEY_MISMATCH:
            return encode_key(turn["tenant"], turn["conversation_id"] + "-old"), encoder.encode(turn), ()
        if kind in _PAYLOADS:
            return key, frame(encoder.schema_id, _PAYLOADS[kind](turn, encoder.payload(turn))), ()
        if kind in _VALUES:
            return key, _VALUES[kind](encoder.encode(turn)), ()
        if kind is BadKind.CONFLICTING_DUPLICATE:
            # Random bits, so that it also conflicts with an earlier conflict.
            turn = {**turn, "user_key": f"u-{self._rng.getrandbits(64):016x}"}
        return key, encoder.encode(_RECORDS[kind](turn) if kind in _RECORDS else turn), ()

    def _on_turns(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        expected: Expected,
        kind: BadKind,
        ids: tuple[str, str, str] | None = None,
    ) -> GeneratedRecord:
        return GeneratedRecord(self._topics["turns"], key, value, headers, expected, kind, ids)

    def _unknown_kind(self, turn: Turn) -> GeneratedRecord:
        scope = {"tenant": turn["tenant"], "scope_type": "conversation", "scope_id": turn["conversation_id"]}
        writer = {"service": turn["producer"]["service"]}
        record_id = f"w-{self._rng.getrandbits(64):016x}"
        write = state_write(record_id, "fact_teleported", turn["completed_at"], scope, writer)
        value = self._encoders.state_writes.encode(write)
        expected = Expected(End.DLQ, Reason.UNKNOWN_KIND)
        return GeneratedRecord(self._topics["state-writes"], key_of(write), value, (), expected, BadKind.UNKNOWN_KIND)

    def _tombstone(self, kind: BadKind, turn: Turn) -> GeneratedRecord:
        """Return an erasure in a conversation that has no turns, so that it changes nothing expected of others."""
        key = encode_key(turn["tenant"], f"gone-{self._rng.getrandbits(64):016x}")
        headers: Headers = (("engram.turn-id", b"t-0001"),) if kind is BadKind.TURN_TOMBSTONE else ()
        return self._on_turns(key, None, headers, Expected(End.TOMBSTONE), kind)
