"""Kafka's murmur2 over many keys at once: one key at a time costs more than all else about its turn.

Source: Kafka's default partitioner; `workers.keys.partition_of` is the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)
_TAIL_MASKS: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)

Words = NDArray[np.uint32]


def partitions_of(keys: Sequence[bytes], partitions: int) -> list[int]:
    """Return the partition in ``0 .. partitions - 1`` of each of ``keys``."""
    lengths = np.fromiter(map(len, keys), np.uint32, len(keys))
    words = _words(keys, int(lengths.max(initial=0)))
    full = lengths >> np.uint32(2)
    hashed = _SEED ^ lengths
    for n in range(words.shape[1]):
        mixed = words[:, n] * _M
        mixed ^= mixed >> np.uint32(24)
        mixed *= _M
        hashed = np.where(n < full, hashed * _M ^ mixed, hashed)
    left = lengths & np.uint32(3)
    tail = words[np.arange(len(keys)), np.minimum(full, words.shape[1] - 1)] & _TAIL_MASKS[left]
    hashed = np.where(left > 0, (hashed ^ tail) * _M, hashed)
    hashed ^= hashed >> np.uint32(13)
    hashed *= _M
    hashed ^= hashed >> np.uint32(15)
    placed: list[int] = ((hashed & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)).tolist()
    return placed


def _words(keys: Sequence[bytes], longest: int) -> Words:
    """Return ``keys`` padded with zeros to one length, as little-endian words of four bytes."""
    width = (longest + 4) & ~3
    return np.frombuffer(b"".join(key.ljust(width, b"\0") for key in keys), "<u4").reshape(len(keys), -1)
