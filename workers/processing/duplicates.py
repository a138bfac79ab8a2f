"""Finding repeated turns among the last turns of a partition, in bounded memory.

Source: docs/delivery-guarantees.md, "Duplicates". A turn is a duplicate when its id stands at a lower offset, at most
a window before it: a function of the log alone, so that reading offsets again gives the same answers. What the window
has not read (turns before the commit it started from) it cannot know: such a repeat passes as first, which its key
makes harmless.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b
from struct import Struct
from typing import Final

DEFAULT_WINDOW: Final = 65_536
"""Offsets of one partition in which a repeat is found."""

_DIGEST_BYTES: Final = 16
# Offset of the first turn of this id, offset of the last, hash of the first's body. Packed: three objects an entry
# would take twice the memory and be walked by the garbage collector.
_ENTRY: Final = Struct("<qqq")


class Arrival(StrEnum):
    """What a turn is to the window."""

    FIRST = "first"
    REDELIVERY = "redelivery"
    DUPLICATE = "duplicate"
    CONFLICTING = "conflicting"

    @property
    def is_repeat(self) -> bool:
        """True when an earlier turn has this id: no second verdict. Conflicting means with another body."""
        return self in (Arrival.DUPLICATE, Arrival.CONFLICTING)


class DuplicateWindow:
    """The ids of the last turns of one partition; give it every turn, in the order of the log.

    It keeps a 128-bit digest of each id and a 64-bit keyed hash of each body, which only tells a conflict from a
    repeat: at most 250 bytes a turn, 16 MB for a full default window. Drop it when the partition is revoked.
    """

    __slots__ = ("_entries", "_high", "_keys", "_size")

    def __init__(self, size: int = DEFAULT_WINDOW) -> None:
        """Find repeats up to ``size`` offsets apart.

        Raises:
            ValueError: ``size`` is not positive.
        """
        if size < 1:
            raise ValueError(f"a duplicate window of {size} offsets finds nothing; give at least 1")
        self._size = size
        self._entries: dict[bytes, bytes] = {}
        # Key of the turn at each offset from `high - size` to `high`, at `offset % (size + 1)`.
        self._keys: list[bytes | None] = [None] * (size + 1)
        self._high = -1

    def __len__(self) -> int:
        """Return the number of ids held."""
        return len(self._entries)

    def check(self, id_key: bytes, body: bytes, offset: int) -> Arrival:
        """Return what the turn at ``offset`` is, and remember it.

        ``id_key`` is the escaped key of tenant, conversation and turn; ``body`` is the payload as sent.
        """
        if offset == self._high + 1:
            # The log as it comes: one offset falls out of the window.
            self._high = offset
            if self._keys[offset % len(self._keys)] is not None:
                self._forget(offset - self._size - 1)
        else:
            self._move_to(offset)
        key = blake2b(id_key, digest_size=_DIGEST_BYTES).digest()
        digest = hash(body)
        entry = self._entries.get(key)
        if entry is None:
            self._remember(key, offset, offset, digest)
            return Arrival.FIRST
        first, last, known = _ENTRY.unpack(entry)
        if offset == first:
            return Arrival.REDELIVERY
        if offset < first:
            # Read for the first time, after going back to before the window began: this one is the earlier.
            self._remember(key, offset, last, digest)
            return Arrival.FIRST
        if offset > last:
            self._remember(key, first, offset, known)
        return Arrival.DUPLICATE if digest == known else Arrival.CONFLICTING

    def _remember(self, key: bytes, first: int, last: int, digest: int) -> None:
        slot = last % len(self._keys)
        held = self._keys[slot]
        if held is not None and held != key:
            # The topic was made anew, and its offsets hold other turns now.
            self._forget(last)
        self._entries[key] = _ENTRY.pack(first, last, digest)
        self._keys[slot] = key

    def _move_to(self, offset: int) -> None:
        """Let the window end at ``offset``, unless that lies within it, and forget what falls out."""
        leaving = range(self._high - self._size, offset - self._size)
        if len(leaving) > self._size or offset < self._high - self._size:
            self._entries.clear()
            self._keys = [None] * len(self._keys)
            self._high = offset
        elif leaving:
            for gone in leaving:
                self._forget(gone)
            self._high = offset

    def _forget(self, offset: int) -> None:
        slot = offset % len(self._keys)
        key, self._keys[slot] = self._keys[slot], None
        entry = self._entries.get(key) if key is not None else None
        # A later turn with the same id keeps the entry alive.
        if key is not None and entry is not None and _ENTRY.unpack(entry)[1] == offset:
            del self._entries[key]
