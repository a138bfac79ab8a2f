"""The field rules and limits of turns on whole columns; what may break one leaves for the reference, which decides.

A text is measured in bytes here, which are never fewer than its characters: the rules of `workers.serde.validation`
stay the only ones.

Source: docs/producer-guide.md, "Limits" and "Ids".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from workers.processing.columns.routes import RouteReason
from workers.serde import validation
from workers.serde.columns.buffers import Bools, BufferPlan, Buffers, Ints, Joined
from workers.serde.columns.project import NO_SYMBOL, Decoded, Projection, Within
from workers.serde.columns.wire import Kind, Wire
from workers.serde.limits import Limits

_IDS: Final = ("tenant", "conversation_id", "turn_id")
_OWN_LIMITS: Final = {
    "tenant": 64,
    "conversation_id": validation.MAX_ID,
    "turn_id": validation.MAX_ID,
    "user_key": validation.MAX_USER_KEY,
    **dict.fromkeys(
        ("content.user_message.text", "content.reply.text", "content.memories.text", "content.events.data"),
        validation.MAX_CONTENT_TEXT,
    ),
}
_UNLIMITED: Final = ("fingerprint.", "manifest.")
_ITEM_LIMITS: Final = {"content.memories": validation.MAX_MEMORIES, "content.events": validation.MAX_EVENTS}
_NO_LIMIT: Final = 2**31 - 1
_INT: Final = 2**31
_BITS: Final = 62

_TENANT_BYTES: Final = np.array([validation.is_tenant(chr(byte)) for byte in range(256)])
_CONTROL_BYTES: Final = np.array([byte < 0x20 or byte == 0x7F for byte in range(256)])
_C1_LEAD, _C1_LAST = 0xC2, 0x9F
"""The control characters U+0080 to U+009F in UTF-8."""


class Doubts:
    """The rows of one batch that must leave, each with the first reason found."""

    def __init__(self) -> None:
        self.reasons: dict[int, RouteReason] = {}

    def add(self, rows: Ints, reason: RouteReason) -> None:
        """Let ``rows`` leave."""
        for row in rows.tolist():
            self.reasons.setdefault(row, reason)


class Checks:
    """The checks of one writer's schema."""

    def __init__(self, plan: BufferPlan, projection: Projection, limits: Limits) -> None:
        self._limits = limits
        self._bound = projection.bound
        self._required = (
            (RouteReason.DECODE, projection.required),
            (RouteReason.INVALID, projection.required_of_manifest),
        )
        self._odd = projection.odd
        self._maps = [wire for wire in projection.bound.values() if wire.kind is Kind.MAP]
        path_of = {wire: path for path, wire in projection.bound.items()}
        self._text_limits = np.array([_text_limit(path_of.get(wire)) for wire in plan.strings.wires], np.int32)
        self._item_limits = np.array(
            [
                min(_ITEM_LIMITS.get(path_of.get(wire, ""), _NO_LIMIT), limits.collection_items)
                for wire in plan.lists_group.wires
            ],
            np.int32,
        )

    def run(self, decoded: Decoded, doubts: Doubts) -> None:
        """Add the rows that may break a rule to ``doubts``."""
        buffers = decoded.buffers
        _check_numbers(decoded, doubts)
        self._check_texts(buffers, doubts)
        self._check_items(buffers, doubts)
        for name in _IDS:
            _check_id(name, self._bound[name], buffers, doubts)
        self._check_rules(buffers, doubts)
        for wire in self._maps:
            _check_keys(wire, buffers, doubts)
        for reason, required in self._required:
            for within in required:
                doubts.add(buffers.rows(within.wire.domain)[_present(within, buffers, null=True)], reason)

    def odd_manifest(self, buffers: Buffers) -> Bools:
        """Return which rows have a value in a field of the manifest that is not ours."""
        odd = np.zeros(int(buffers.counts[0]), np.bool_)
        for within in self._odd:
            odd[buffers.rows(within.wire.domain)[_present(within, buffers)]] = True
        return odd

    def _check_texts(self, buffers: Buffers, doubts: Doubts) -> None:
        _check_lengths(buffers.strings, buffers.text_lengths, self._text_limits, buffers, doubts)

    def _check_items(self, buffers: Buffers, doubts: Doubts) -> None:
        _check_lengths(buffers.lists, buffers.item_counts, self._item_limits, buffers, doubts)
        if int(buffers.counts[1:].sum()) > self._limits.record_items:
            rows = int(buffers.counts[0])
            items = np.zeros(rows, np.int64)
            for domain in range(1, len(buffers.counts)):
                items += np.bincount(buffers.rows(domain), minlength=rows)
            doubts.add(np.flatnonzero(items > self._limits.record_items), RouteReason.LIMIT)

    def _check_rules(self, buffers: Buffers, doubts: Doubts) -> None:
        timed = self._set("assembled_at", buffers) | self._set("completed_at", buffers)
        kept_for_ever = self._set("snapshot.ref", buffers) & ~self._set("snapshot.expires_at", buffers)
        wrong: Ints = ~timed | kept_for_ever
        if np.any(wrong):
            rows = np.unpackbits(wrong, bitorder="little", count=int(buffers.counts[0]))
            doubts.add(np.flatnonzero(rows), RouteReason.INVALID_TURN)

    def _set(self, path: str, buffers: Buffers) -> Ints:
        """Return in which rows our field at ``path`` is not null, as a bitmap."""
        bits = np.full((int(buffers.counts[0]) + 7) // 8, 0xFF, np.uint8)
        parts = path.split(".")
        for wire in (self._bound.get(".".join(parts[: end + 1])) for end in range(len(parts))):
            held = 0 if wire is None else buffers.bits(wire)
            if held is not None:
                bits &= held
        return bits


def _text_limit(path: str | None) -> int:
    if path is None or path.startswith(_UNLIMITED):
        return _NO_LIMIT
    return _OWN_LIMITS.get(path, validation.MAX_TEXT)


def _check_lengths(offsets: Joined, lengths: Ints, limits: Ints, buffers: Buffers, doubts: Doubts) -> None:
    """Find what is longer than the limit of its column."""
    held = offsets.lengths > 0
    if not held.any():
        return
    if np.any(np.maximum.reduceat(lengths, (offsets.ends - offsets.lengths)[held]) > limits[held]):
        for wire, found in offsets.places(lengths > np.repeat(limits, offsets.lengths)):
            doubts.add(buffers.rows(wire.domain)[found], RouteReason.LIMIT)


def _check_numbers(decoded: Decoded, doubts: Doubts) -> None:
    buffers = decoded.buffers
    ints = buffers.ints
    if len(ints.values) and (ints.values.min() < -_INT or ints.values.max() >= _INT):
        wrong = [ints.places((ints.values < -_INT) | (ints.values >= _INT))]
    else:
        wrong = []
    if len(decoded.codes.values) and decoded.codes.values.min() == NO_SYMBOL:
        wrong.append(decoded.codes.places(decoded.codes.values == NO_SYMBOL))
    for places in wrong:
        for wire, found in places:
            doubts.add(buffers.rows(wire.domain)[found], RouteReason.DECODE)


def _check_id(name: str, wire: Wire, buffers: Buffers, doubts: Doubts) -> None:
    offsets = buffers.strings.of(wire)
    lengths = np.diff(offsets)
    if lengths.min() == 0:
        doubts.add(np.flatnonzero(lengths == 0), RouteReason.INVALID_TURN)
    data = np.frombuffer(buffers.raw[wire.buffer + 2] or b"", np.uint8)[: int(offsets[-1])]
    if name == "tenant":
        wrong = ~_TENANT_BYTES[data]
    else:
        wrong = _CONTROL_BYTES[data]
        wrong[:-1] |= (data[:-1] == _C1_LEAD) & (data[1:] <= _C1_LAST)
    if wrong.any():
        rows = np.searchsorted(offsets, np.flatnonzero(wrong), side="right") - 1
        doubts.add(np.unique(rows), RouteReason.INVALID_TURN)


def _check_keys(wire: Wire, buffers: Buffers, doubts: Doubts) -> None:
    """Find the maps that hold a key twice, which a dictionary would merge."""
    assert wire.key is not None  # noqa: S101 - for the type checker
    offsets = buffers.offsets(wire.key.domain)
    counts = np.diff(offsets)
    entries = int(buffers.counts[wire.key.domain])
    if entries < 2:
        return
    at = wire.key.buffer
    keys = pa.Array.from_buffers(pa.utf8(), entries, [None, *buffers.raw[at + 1 : at + 3]]).dictionary_encode()
    codes = keys.indices.to_numpy()
    filled = np.flatnonzero(counts)
    if len(keys.dictionary) <= _BITS:
        starts = offsets[filled]
        different = np.bitwise_count(np.bitwise_or.reduceat(np.left_shift(np.int64(1), codes), starts))
        twice = filled[different != counts[filled]]
    else:
        maps = np.repeat(np.arange(len(counts)), counts)
        pairs, seen = np.unique(maps * len(keys.dictionary) + codes, return_counts=True)
        twice = np.unique(pairs[seen > 1] // len(keys.dictionary))
    doubts.add(buffers.rows(wire.domain)[twice], RouteReason.DUPLICATE_KEY)


def _present(within: Within, buffers: Buffers, *, null: bool = False) -> Ints:
    """Return the indexes of the values that are there and not null (or ``null``), in records that are there."""
    count = int(buffers.counts[within.wire.domain])
    valid = buffers.valid(within.wire)
    found = np.ones(count, np.bool_) if valid is None else valid.copy()
    if null:
        np.logical_not(found, out=found)
    for record in within.around:
        held = buffers.valid(record)
        if held is not None:
            found &= held
    return np.flatnonzero(found)
