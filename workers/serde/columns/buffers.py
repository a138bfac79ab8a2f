"""A decoded batch as a few long arrays: columns of one type stand one behind the other and are checked in one go.

The size of the shortest encoding of all rows is computed from them. It equals the size of the payloads exactly where
each payload is one value, whole, in the shortest form: a tail, an overlong integer or a block that tells its size takes
more. What the native decoder lets through there is thus noticed without a look at the bytes.

Source: the Avro 1.12 specification, "Binary Encoding"; the Arrow columnar format, "Buffer Listing for Each Layout".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from workers.serde.columns.wire import Kind, Wire, WireSchema

Ints: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Bools: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

_EACH: Final = {Kind.RECORD: 0, Kind.FLOAT: 4, Kind.DOUBLE: 8}
_LAST: Final = struct.Struct("=i")
_ONE_BYTE_LENGTH: Final = 64
_STEPS: Final = tuple(np.uint64(1 << bits) for bits in range(7, 64, 7))
_LONGEST: Final = _STEPS[-1]


class Group:
    """Columns of one type, in the order of their domains."""

    def __init__(self, wires: Sequence[Wire], buffer: int, dtype: type[Any], *, closing: int = 0) -> None:
        self.wires = sorted(wires, key=lambda wire: wire.domain)
        self._buffers = [wire.buffer + buffer for wire in self.wires]
        self._domains = np.array([wire.domain for wire in self.wires], np.int64)
        self._dtype = dtype
        self._closing = closing
        for column, wire in enumerate(self.wires):
            wire.column = column

    def join(self, buffers: Sequence[Any], counts: Ints) -> Joined:
        """Return the values of all columns.

        Raises:
            ValueError: a buffer is not as long as its column.
        """
        lengths = counts[self._domains]
        if self._closing:
            lengths = lengths + (lengths > 0)
        parts = [buffers[at] for at, length in zip(self._buffers, lengths.tolist(), strict=True) if length]
        values = np.frombuffer(b"".join(parts), self._dtype)
        ends = np.cumsum(lengths)
        if len(values) != (ends[-1] if len(ends) else 0):
            raise ValueError("a buffer is longer or shorter than its column")
        return Joined(self, values, lengths, ends)


class Joined:
    """The values of a group. ``lengths`` and ``ends`` are given per column; a column of an empty list has none."""

    __slots__ = ("ends", "group", "lengths", "values")

    def __init__(self, group: Group, values: Ints, lengths: Ints, ends: Ints) -> None:
        self.group, self.values, self.lengths, self.ends = group, values, lengths, ends

    def place_of(self, wire: Wire) -> tuple[int, int]:
        """Return where the values of one column begin, and how many they are."""
        length = int(self.lengths[wire.column])
        return int(self.ends[wire.column]) - length, length

    def of(self, wire: Wire) -> Ints:
        """Return the values of one column."""
        start, length = self.place_of(wire)
        return self.values[start : start + length]

    def places(self, wrong: Bools) -> Iterator[tuple[Wire, Ints]]:
        """Yield the columns that hold a wrong value, with the indexes of those values."""
        for wire in self.group.wires:
            start, length = self.place_of(wire)
            found = np.flatnonzero(wrong[start : start + length])
            if len(found):
                yield wire, found


class BufferPlan:
    """Where the buffers of one schema are."""

    def __init__(self, schema: WireSchema) -> None:
        def of_kind(*kinds: Kind) -> list[Wire]:
            return [wire for wire in schema.columns if wire.kind in kinds]

        self.lists = schema.lists
        self.lists_group = Group(of_kind(Kind.ARRAY, Kind.MAP), 1, np.int32, closing=1)
        self.strings = Group(of_kind(Kind.STRING), 1, np.int32, closing=1)
        self.ints = Group(of_kind(Kind.INT), 1, np.int64)
        self.longs = Group(of_kind(Kind.LONG), 1, np.int64)
        self.enums = Group(of_kind(Kind.ENUM), 1, np.int64)
        self.nullables = [wire for wire in schema.columns if wire.is_nullable]
        self.weights = np.array([_weight(wire) for wire in self.nullables], np.int64)
        self.domain_weights = np.array([_weight(schema.root), *(_item_weight(wire) for wire in schema.lists)], np.int64)


class Buffers:
    """The buffers of one decoded batch.

    The batch has passed ``validate(full=True)``, so offsets are in order and inside their data. A null value has the
    length or the number 0.
    """

    def __init__(self, plan: BufferPlan, batch: pa.RecordBatch) -> None:
        self._plan = plan
        self.raw: list[Any] = batch.to_struct_array().buffers()
        counts = [batch.num_rows]
        for wire in plan.lists:
            count = counts[wire.domain]
            counts.append(_LAST.unpack_from(self.raw[wire.buffer + 1], 4 * count)[0] if count else 0)
        self.counts: Ints = np.array(counts, np.int64)
        """Per domain, the values one of its columns has."""
        self.lists = plan.lists_group.join(self.raw, self.counts)
        self.strings = plan.strings.join(self.raw, self.counts)
        self.ints = plan.ints.join(self.raw, self.counts)
        self.longs = plan.longs.join(self.raw, self.counts)
        self.enums = plan.enums.join(self.raw, self.counts)

        self._rows: list[Ints | None] = [None] * len(counts)

    def offsets(self, domain: int) -> Ints:
        """Return the offsets of the list whose items ``domain`` counts."""
        return self.lists.of(self._plan.lists[domain - 1])

    def rows(self, domain: int) -> Ints:
        """Return the row that each value of ``domain`` belongs to."""
        known = self._rows[domain]
        if known is None:
            if domain:
                wire = self._plan.lists[domain - 1]
                known = np.repeat(self.rows(wire.domain), np.diff(self.offsets(domain)))
            else:
                known = np.arange(self.counts[0])
            self._rows[domain] = known
        return known

    @cached_property
    def text_lengths(self) -> Ints:
        """Bytes of each text in the order of ``strings``, and a 0 at the end of each column."""
        return _lengths(self.strings)

    @cached_property
    def item_counts(self) -> Ints:
        """Items of each array and map in the order of ``lists``, and a 0 at the end of each column."""
        return _lengths(self.lists)

    @cached_property
    def _present(self) -> Ints:
        """Per nullable column, how many of its values are not null."""
        counts = self.counts[[wire.domain for wire in self._plan.nullables]]
        with_nulls = [at for at, wire in enumerate(self._plan.nullables) if counts[at] and self.raw[wire.buffer]]
        if with_nulls:
            sizes = (counts[with_nulls] + 7) // 8
            bits = np.frombuffer(b"".join(self.raw[self._plan.nullables[at].buffer] for at in with_nulls), np.uint8)
            ends = np.cumsum(sizes)
            if len(bits) != ends[-1]:
                raise ValueError("a bitmap is longer or shorter than its column")
            bits = bits.copy()
            bits[ends - 1] &= (0xFF >> (-counts[with_nulls] % 8)).astype(np.uint8)
            counts[with_nulls] = np.add.reduceat(np.bitwise_count(bits), ends - sizes, dtype=np.int64)
        return counts

    def bits(self, wire: Wire) -> Ints | None:
        """Return `valid` as a bitmap, eight values to a byte, the first one lowest."""
        bitmap = self.raw[wire.buffer]
        return None if bitmap is None else np.frombuffer(bitmap, np.uint8)

    def valid(self, wire: Wire) -> Bools | None:
        """Return which values of ``wire`` are not null, None where all are.

        A column that cannot be null is valid inside a null record as well.
        """
        bitmap, count = self.bits(wire), int(self.counts[wire.domain])
        if bitmap is None or not count:
            return None
        return np.unpackbits(bitmap, count=count, bitorder="little").view(np.bool_)

    def shortest_size(self) -> int | None:
        """Return how many bytes all rows take in the shortest encoding.

        None where the size does not tell: an integer of ten bytes has bits to spare, and the native decoder drops them.
        """
        numbers = [joined.values for joined in (self.longs, self.ints) if len(joined.values)]
        longs = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
        zigzag = ((longs << 1) ^ (longs >> 63)).view(np.uint64)
        if len(zigzag) and zigzag.max() >= _LONGEST:
            return None
        size = int(self.counts @ self._plan.domain_weights) + int(self._present @ self._plan.weights)
        ends = self.strings.ends[self.strings.lengths > 0]
        size += int(self.strings.values[ends - 1].sum(dtype=np.int64)) + _longer(self.text_lengths)
        size += int(np.count_nonzero(self.item_counts)) + _longer(self.item_counts)
        size += sum(int(np.count_nonzero(zigzag >= step)) for step in _STEPS[:-1])
        return size + _longer(self.enums.values)


def _lengths(offsets: Joined) -> Ints:
    lengths = np.zeros(len(offsets.values), np.int32)
    np.subtract(offsets.values[1:], offsets.values[:-1], out=lengths[:-1])
    lengths[(offsets.ends - 1)[offsets.lengths > 0]] = 0
    return lengths


def _longer(values: Ints) -> int:
    """Return how many bytes after their first the integers ``values``, not negative and below 2**31, take."""
    long = values[values >= _ONE_BYTE_LENGTH]
    return sum(int(np.count_nonzero(long >= _ONE_BYTE_LENGTH << bits)) for bits in range(0, 28, 7)) if len(long) else 0


def _weight(wire: Wire) -> int:
    """Return the bytes that one value takes at least: with the indexes of its unions, without what is null."""
    own = _EACH.get(wire.kind, 1)
    return own + sum(1 if child.is_nullable else _weight(child) for child in wire.fields)


def _item_weight(wire: Wire) -> int:
    item = wire.item
    if item is None:
        return 0
    return (1 if wire.key else 0) + (1 if item.is_nullable else _weight(item))
