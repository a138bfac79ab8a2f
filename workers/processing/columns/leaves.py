"""Texts of manifests checked by the column: a fast accept of what is plainly right, the reference for the rest."""

from __future__ import annotations

import binascii
from collections.abc import Iterable
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
_STAMP_DIGITS: Final = np.flatnonzero(_STAMP == ord("0"))
_STAMP_MARKS: Final = np.flatnonzero(_STAMP != ord("0"))
_STAMP_PAIRS: Final = np.array([5, 8, 11, 14, 17])
"""Where month, day, hour, minute and second begin."""
_LOWEST: Final = np.array([1, 1, 0, 0, 0])
_HIGHEST: Final = np.array([12, 28, 23, 59, 59])
"""What any month of any year has; the reference decides on the rest."""


def bad_digests(column: Texts) -> Mask:
    """Return where a text is no digest."""
    wrong = column.present & (column.ends - column.starts != _DIGEST_CHARACTERS)
    if not len(wrong) or _is_hexadecimal(column.data[column.starts[0] : column.ends[-1]]):
        return wrong
    for row in np.flatnonzero(column.present & ~wrong).tolist():
        wrong[row] = not _is_hexadecimal(column.data[column.starts[row] : column.ends[row]])
    return wrong


def bad_timestamps(column: Texts) -> Mask:
    """Return where there is no timestamp."""
    bad = ~column.present
    usual = column.present & (column.ends - column.starts == len(_STAMP))
    in_doubt = column.present & ~usual
    at = column.starts[usual]
    characters = column.data[at[:, None] + np.arange(len(_STAMP))] if len(at) else np.zeros((0, len(_STAMP)), np.uint8)
    in_doubt[usual] = ~_is_plain_stamp(characters)
    for row in np.flatnonzero(in_doubt).tolist():
        bad[row] = not _is_timestamp(column.data[column.starts[row] : column.ends[row]].tobytes())
    return bad


def bad_values(column: pa.ChunkedArray) -> pa.Array | None:
    """Return the distinct texts that are no JSON text by the contract, None where all are."""
    bad = [text for text in column.unique().to_pylist() if text is not None and not is_value(text)]
    return pa.array(bad, pa.utf8()) if bad else None


def is_value(text: str) -> bool:
    """Return whether ``text`` may be the ``value`` of an artifact."""
    return _is_remembered_value(text) if len(text) <= MAX_REMEMBERED else _is_value(text)


def bad_texts(columns: Iterable[Texts], rows: int) -> Mask:
    """Return the rows in which a text of any column is empty."""
    bad = np.zeros(rows, np.bool_)
    for column in columns:
        bad |= column.is_empty
    return bad


def missing_texts(array: pa.StringArray) -> Mask:
    """Return where there is no text of at least one character."""
    column = texts(array)
    return ~column.present | column.is_empty


def _is_hexadecimal(characters: NDArray[np.uint8]) -> bool:
    try:
        binascii.unhexlify(characters)
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


_is_remembered_value = lru_cache(maxsize=4_096)(_is_value)
