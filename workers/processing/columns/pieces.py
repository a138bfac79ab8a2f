"""Pieces of encoded verdicts: records are written field after field, so fields that repeat are encoded once.

Source: the Avro 1.12 specification, "Complex Types"; schemas/fidelity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from workers.processing.columns.reading import Longs, Mask, Numbers
from workers.serde.encoder import Encoder
from workers.serde.schemas import Schema, load

NULL: Final = b"\x00"
SOME: Final = b"\x02"
"""Which of the two branches of an optional field follows."""

_GROUP_BITS: Final = 7


def encode_piece(record: Mapping[str, Any], first: str, last: str, within: str | None = None) -> bytes:
    """Return the fields from ``first`` to ``last`` of a verdict as they are encoded in it.

    ``record`` may have more fields. ``within`` names the optional record of a verdict that the fields are in.
    """
    encoder, names = _encoder(first, last, within)
    return encoder.payload({name: record[name] for name in names})


@cache
def _encoder(first: str, last: str, within: str | None) -> tuple[Encoder, tuple[str, ...]]:
    fields = _fields(load("fidelity"))
    if within is not None:
        [union] = [field["type"] for field in fields if field["name"] == within]
        fields = _fields(union[1])
    names = [field["name"] for field in fields]
    chosen = fields[names.index(first) : names.index(last) + 1]
    piece = {"type": "record", "name": "engram.Piece", "fields": chosen}
    return Encoder(cast("Schema", piece), 0), tuple(field["name"] for field in chosen)


def _fields(record: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a schema is open JSON
    fields: list[dict[str, Any]] = record["fields"]
    return fields


def integer(value: int) -> bytes:
    """Return the zigzag form of ``value``, also what comes before a text of that many bytes."""
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest >= 1 << _GROUP_BITS:
        encoded.append((rest & 0x7F) | 0x80)
        rest >>= _GROUP_BITS
    encoded.append(rest)
    return bytes(encoded)


def text(value: str) -> bytes:
    """Return ``value`` as a string."""
    encoded = value.encode()
    return integer(len(encoded)) + encoded


def runs(rows: int, parts: Sequence[bytes | Longs | Numbers]) -> list[bytes]:
    """Return for each row its parts side by side: bytes as they are, integers, and integers that may be null."""
    blocks: list[NDArray[np.uint8]] = []
    kept: list[Mask] = []
    for part in parts:
        if isinstance(part, bytes):
            block = np.broadcast_to(np.frombuffer(part, np.uint8), (rows, len(part)))
            mask = np.broadcast_to(np.True_, block.shape)
        elif isinstance(part, Numbers):
            branch = np.where(part.present, np.uint8(SOME[0]), np.uint8(NULL[0]))
            block, mask = _integers(part.values)
            block = np.concatenate([branch[:, None], block], axis=1)
            mask = np.concatenate([np.ones((rows, 1), np.bool_), mask & part.present[:, None]], axis=1)
        else:
            block, mask = _integers(part)
        blocks.append(block)
        kept.append(mask)
    written = np.concatenate(kept, axis=1)
    encoded = np.concatenate(blocks, axis=1)[written].tobytes()
    ends = np.cumsum(written.sum(axis=1)).tolist()
    return [encoded[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _integers(values: Longs) -> tuple[NDArray[np.uint8], Mask]:
    """Return the zigzag form of each value in one row of bytes, and which of these bytes count."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = max(1, -(-int(zigzag.max(initial=0)).bit_length() // _GROUP_BITS))
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(_GROUP_BITS)
    rest = zigzag[:, None] >> shifts
    goes_on = rest >= np.uint64(1 << _GROUP_BITS)
    groups = (rest & np.uint64(0x7F)).astype(np.uint8) | (goes_on.astype(np.uint8) << np.uint8(_GROUP_BITS))
    counts = np.concatenate([np.ones((len(values), 1), np.bool_), rest[:, 1:] != 0], axis=1)
    return groups, counts
