"""Pieces of encoded verdicts: records are written field after field, so fields that repeat are encoded once.

Source: the Avro 1.12 specification, "Complex Types"; schemas/fidelity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, cast

import pyarrow as pa

from workers.processing.columns.reading import Longs, Positions
from workers.serde.encoder import Encoder
from workers.serde.schemas import Schema, load

NULL: Final = b"\x00"
SOME: Final = b"\x02"
"""Which of the two branches of an optional field follows."""

_GROUP_BITS: Final = 7
_GROUP: Final = 0x7F
_GOES_ON: Final = 0x80
_LOW_BITS: Final = 2 * _GROUP_BITS
_MAX_INTEGERS: Final = 65_536


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
    return _unsigned((value << 1) ^ (value >> 63))


@lru_cache(maxsize=_MAX_INTEGERS)
def repeated_integer(value: int) -> bytes:
    """Return `integer`, remembered: for numbers that come again."""
    return integer(value)


@lru_cache(maxsize=_MAX_INTEGERS)
def optional_integer(value: int | None) -> bytes:
    """Return ``value`` as a number that may be null, remembered."""
    return NULL if value is None else SOME + integer(value)


def text(value: str) -> bytes:
    """Return ``value`` as a string."""
    encoded = value.encode()
    return integer(len(encoded)) + encoded


def text_bytes(array: pa.StringArray) -> list[bytes]:
    """Return each text in UTF-8, without its length."""
    found: list[bytes] = array.view(pa.binary()).to_pylist()
    return found


def moments(values: Longs) -> tuple[list[bytes], list[bytes]]:
    """Return the first bytes of each number and its other bytes: times share the latter for some seconds."""
    zigzag = (values << 1) ^ (values >> 63)
    if len(values) and (zigzag >> _LOW_BITS <= 0).any():
        return [integer(value) for value in values.tolist()], [b""] * len(values)
    low = spread(_continued(), zigzag & ((1 << _LOW_BITS) - 1))
    return low, [_shared_high(value) for value in (zigzag >> _LOW_BITS).tolist()]


def spread(pieces: Sequence[bytes], codes: Positions | Longs) -> list[bytes]:
    """Return the piece of each row; the codes are positions in ``pieces``."""
    return list(map(pieces.__getitem__, codes.tolist()))


def _unsigned(value: int) -> bytes:
    encoded = bytearray()
    while value >= 1 << _GROUP_BITS:
        encoded.append((value & _GROUP) | _GOES_ON)
        value >>= _GROUP_BITS
    encoded.append(value)
    return bytes(encoded)


_shared_high = lru_cache(maxsize=_MAX_INTEGERS)(_unsigned)


@cache
def _continued() -> tuple[bytes, ...]:
    """Return the first two bytes of longer numbers."""
    return tuple(
        bytes(((value & _GROUP) | _GOES_ON, (value >> _GROUP_BITS) | _GOES_ON)) for value in range(1 << _LOW_BITS)
    )
