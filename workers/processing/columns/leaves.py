"""Texts of manifests checked by the column: a fast accept of what is plainly right, the reference for the rest."""

from __future__ import annotations

import binascii
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic_core import PydanticCustomError

from workers.processing.columns.reading import Mask, Texts, texts
from workers.processing.fidelity import leaves
from workers.processing.fidelity.jsontext import JsonRefusedError, loads_value

MAX_REMEMBERED: Final = 4_096
"""Longest text that is kept in a cache, in characters."""

_DIGEST_CHARACTERS: Final = 64

# Positions of the template YYYY-MM-DDTHH:MM:SS.mmmZ, and what stands between its digits.
_STAMP: Final = np.frombuffer(b"0000-00-00T00:00:00.000Z", np.uint8)
_STAMP_DIGITS: Final = np.flatnonzero(ord("0") == _STAMP)
_STAMP_MARKS: Final = np.flatnonzero(ord("0") != _STAMP)
_STAMP_PAIRS: Final = np.array([5, 8, 11, 14, 17])
"""Where month, day, hour, minute and second begin."""
_LOWEST: Final = np.array([1, 1, 0, 0, 0])
_HIGHEST: Final = np.array([12, 31, 23, 59, 59])
_DAYS: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
"""Days that a month has in every year; the reference decides on 29 February."""


def bad_digests(column: Texts) -> Mask:
    """Return where a text is no digest."""
    wrong: Mask = column.present & (column.ends - column.starts != _DIGEST_CHARACTERS)
    if not len(wrong) or _is_hexadecimal(column.data[column.starts[0] : column.ends[-1]]):
        return wrong
    for row in np.flatnonzero(column.present & ~wrong).tolist():
        wrong[row] = not _is_hexadecimal(column.data[column.starts[row] : column.ends[row]])
    return wrong


def bad_timestamps(column: Texts) -> Mask:
    """Return where there is no timestamp."""
    bad: Mask = ~column.present
    usual = column.present & (column.ends - column.starts == len(_STAMP))
    in_doubt = column.present & ~usual
    at = column.starts[usual]
    characters = column.data[at[:, None] + np.arange(len(_STAMP))] if len(at) else np.zeros((0, len(_STAMP)), np.uint8)
    in_doubt[usual] = ~_is_plain_stamp(characters)
    for row in np.flatnonzero(in_doubt).tolist():
        bad[row] = not _is_timestamp(column.data[column.starts[row] : column.ends[row]].tobytes())
    return bad


def bad_values(column: pa.StringArray) -> pa.Array | None:
    """Return the distinct texts that are no JSON text by the contract, None where all are."""
    bad = [text for text in column.unique().to_pylist() if text is not None and not is_value(text)]
    return pa.array(bad, pa.utf8()) if bad else None


def is_value(text: str) -> bool:
    """Return whether ``text`` may be the ``value`` of an artifact."""
    return _is_remembered_value(text) if len(text) <= MAX_REMEMBERED else _is_value(text)


def missing_texts(array: pa.StringArray) -> Mask:
    """Return where there is no text of at least one character."""
    column = texts(array)
    missing: Mask = ~column.present | column.is_empty
    return missing


def _is_hexadecimal(characters: NDArray[np.uint8]) -> bool:
    try:
        binascii.unhexlify(characters.data)
    except binascii.Error:
        return False
    return True


def _is_plain_stamp(characters: NDArray[np.uint8]) -> Mask:
    digits = characters - np.uint8(ord("0"))
    tens, ones = digits[:, _STAMP_PAIRS], digits[:, _STAMP_PAIRS + 1]
    pairs = tens * np.int16(10) + ones
    plain: Mask = (
        (digits[:, _STAMP_DIGITS] <= 9).all(axis=1)
        & (characters[:, _STAMP_MARKS] == _STAMP[_STAMP_MARKS]).all(axis=1)
        & ((pairs >= _LOWEST) & (pairs <= _HIGHEST)).all(axis=1)
    )
    plain &= pairs[:, 1] <= _DAYS[np.where(plain, pairs[:, 0], 0)]
    return plain


@lru_cache(maxsize=1_024)
def _is_timestamp(text: bytes) -> bool:
    try:
        leaves.timestamp(text.decode())
    except PydanticCustomError:
        return False
    return True


def _is_value(text: str) -> bool:
    try:
        loads_value(text)
    except JsonRefusedError:
        return False
    return True


_is_remembered_value = lru_cache(maxsize=1_024)(_is_value)
