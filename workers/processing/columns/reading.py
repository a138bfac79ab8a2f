"""Arrow columns as numpy arrays, without copies: what is there, codes, numbers, texts, and which row an item is of.

A child of a null struct counts as null, whatever stands in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Codes = NDArray[np.int8]
Longs = NDArray[np.int64]
Positions = NDArray[np.intp]
Kind = TypeVar("Kind", bound=np.generic)

_MAX_JOINT: Final = 2**62


class Numbers(NamedTuple):
    """A column of integers; where none is present, the value means nothing."""

    values: Longs
    present: Mask


class Texts(NamedTuple):
    """A column of strings: the bytes of row ``i`` are ``data[starts[i]:ends[i]]``, in UTF-8."""

    present: Mask
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    data: NDArray[np.uint8]

    @property
    def is_empty(self) -> Mask:
        """Where there is a text without any character."""
        empty: Mask = self.present & (self.starts == self.ends)
        return empty


class Coded(NamedTuple):
    """A column of strings as positions in its distinct values, of which the last is always None."""

    codes: Positions
    values: list[str | None]

    def at(self, rows: Positions) -> list[str | None]:
        """Return the values of ``rows``."""
        return list(map(self.values.__getitem__, self.codes[rows].tolist()))


class CodedPair(NamedTuple):
    """Two columns of strings by common codes below ``size``."""

    first: Positions
    second: Positions
    size: int


class Items(NamedTuple):
    """The items of a column of lists, end to end; ``owners`` holds the row of each."""

    array: pa.Array
    owners: Positions


def fields(struct: pa.StructArray) -> list[pa.Array]:
    """Return the fields of a column of records, in the order of the schema."""
    found: list[pa.Array] = struct.flatten()
    return found


def present(array: pa.Array) -> Mask:
    """Return where ``array`` has a value."""
    if array.null_count == 0:
        return everywhere(len(array))
    return bits(array.buffers()[0], array)


def flags(array: pa.BooleanArray) -> Mask:
    """Return where ``array`` is true."""
    return bits(array.buffers()[1], array) & present(array) if len(array) else everywhere(0)


def codes(array: pa.Int64Array) -> Codes:
    """Return the codes of an enum, -1 where there is none as where the symbol is unknown."""
    found = _values(array, np.int64).astype(np.int8)
    return found if array.null_count == 0 else np.where(present(array), found, np.int8(-1))


def numbers(array: pa.Int64Array) -> Numbers:
    """Return a column of integers."""
    return Numbers(_values(array, np.int64), present(array))


def texts(array: pa.StringArray) -> Texts:
    """Return a column of strings."""
    if not len(array):
        nothing = np.zeros(0, np.int32)
        return Texts(everywhere(0), nothing, nothing, np.zeros(0, np.uint8))
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Texts(present(array), bounds[:-1], bounds[1:], held)


def coded(array: pa.StringArray) -> Coded:
    """Return a column of strings by its distinct values."""
    encoded = array.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    indices = encoded.indices
    found = _values(indices, np.int32)
    if indices.null_count:
        found = np.where(present(indices), found, np.int32(len(values)))
    return Coded(found.astype(np.intp), [*values, None])


def coded_alike(columns: Sequence[pa.StringArray]) -> list[Coded]:
    """Return columns of one length by the distinct values of all of them: cheaper than by their own."""
    found, values = coded(pa.concat_arrays(columns))
    return [Coded(of_column, values) for of_column in found.reshape(len(columns), -1)]


def coded_together(first: pa.StringArray, second: pa.StringArray) -> CodedPair:
    """Return two columns of strings by the distinct values of both; equal codes mean equal values."""
    codes_of_both, values = coded(pa.concat_arrays([first, second]))
    return CodedPair(codes_of_both[: len(first)], codes_of_both[len(first) :], len(values))


def items(array: pa.ListArray) -> Items:
    """Return the items of a column of lists or maps; a null list has none.

    Of a map, ``array`` are its entries: structs of key and value.
    """
    bounds = array.offsets.to_numpy()
    begin, end = (int(bounds[0]), int(bounds[-1])) if len(bounds) else (0, 0)
    held = array.values.slice(begin, end - begin)
    if begin == end:
        return Items(held, np.zeros(0, np.intp))
    owners = np.repeat(np.arange(len(array)), np.diff(bounds))
    if array.null_count and len(owners):
        kept = present(array)[owners]
        if not kept.all():
            return Items(held.filter(pa.array(kept)), owners[kept])
    return Items(held, owners)


def rows_of(owners: Positions, chosen: Mask, rows: int) -> Mask:
    """Return which of ``rows`` own a chosen item."""
    found = np.zeros(rows, np.bool_)
    found[owners[chosen]] = True
    return found


def joint(columns: Sequence[tuple[Positions, int]]) -> Positions:
    """Return one code per row for the combination of its codes; each column comes with how many codes it has."""
    combined, size = np.zeros(len(columns[0][0]), np.intp), 1
    for column, count in columns:
        if size * count > _MAX_JOINT:
            combined, first = groups(combined)
            size = len(first)
        combined = combined * count + column
        size *= count
    return combined


class Groups(NamedTuple):
    """Rows grouped by a key: the group of each row, and the first row of each group, in the order of these."""

    of_row: Positions
    first: Positions


def groups(keys: NDArray[np.integer]) -> Groups:
    """Group rows by key."""
    encoded = pa.array(keys).dictionary_encode()
    of_row = _values(encoded.indices, np.int32).astype(np.intp)
    first = np.empty(len(encoded.dictionary), np.intp)
    first[of_row[::-1]] = np.arange(len(of_row))[::-1]
    return Groups(of_row, first)


def alike(*columns: Coded, beside: tuple[Positions, int] | None = None) -> Groups:
    """Group rows that have the same values in ``columns``, and the same code ``beside`` them, given with its size."""
    codes = [(column.codes, len(column.values)) for column in columns]
    return groups(joint([*codes, beside] if beside else codes))


@lru_cache(maxsize=64)
def everywhere(rows: int) -> Mask:
    """Return a mask that is true in every row; it is shared and cannot be written to."""
    mask = np.ones(rows, np.bool_)
    mask.flags.writeable = False
    return mask


def bits(buffer: pa.Buffer, array: pa.Array) -> Mask:
    """Return the bits of a bitmap that belong to ``array``."""
    unpacked = np.unpackbits(np.frombuffer(buffer, np.uint8), count=array.offset + len(array), bitorder="little")
    return unpacked[array.offset :].view(np.bool_)


def _values(array: pa.Array, kind: type[Kind]) -> NDArray[Kind]:
    if not len(array):
        return np.zeros(0, kind)
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]
