"""Arrow columns as numpy arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from workers.processing.columns.reading import (
    coded,
    coded_together,
    codes,
    fields,
    flags,
    groups,
    items,
    joint,
    numbers,
    rows_of,
    texts,
)


def test_the_child_of_a_null_record_is_null_whatever_stands_there() -> None:
    held = pa.StructArray.from_arrays([pa.array([1, 2, 3])], ["n"], mask=pa.array([False, True, False]))
    [child] = fields(held)
    assert numbers(child).present.tolist() == [True, False, True]
    assert codes(child).tolist() == [1, -1, 3]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_slice_of_a_column_is_read_from_where_it_begins(start: int) -> None:
    words = pa.array(["a", None, "", "ü", "a"])[start:]
    read = texts(words)
    found = [
        read.data[begin:end].tobytes().decode() if there else None
        for begin, end, there in zip(read.starts, read.ends, read.present, strict=True)
    ]
    assert found == words.to_pylist()
    assert read.is_empty.tolist() == [word == "" for word in words.to_pylist()]
    marks = pa.array([True, None, False, True, None])[start:]
    assert flags(marks).tolist() == [mark is True for mark in marks.to_pylist()]


def test_a_null_list_has_no_items_even_where_some_stand_in_its_place() -> None:
    lists = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 5, 5]), pa.array([1, 2, 3, 4, 5]), mask=pa.array([False, True, False, False])
    )
    held, owners = items(lists)
    assert (held.to_pylist(), owners.tolist()) == ([1, 2, 5], [0, 0, 2])
    held, owners = items(lists[1:])
    assert (held.to_pylist(), owners.tolist()) == ([5], [1])
    assert rows_of(owners, np.array([True]), 3).tolist() == [False, True, False]


def test_distinct_values_end_with_none() -> None:
    read = coded(pa.array(["b", None, "a", "b"]))
    assert [read.values[code] for code in read.codes] == ["b", None, "a", "b"]
    assert read.values[-1] is None
    first, second, size = coded_together(pa.array(["a", "b"]), pa.array(["b", "c"]))
    assert first[1] == second[0] < size
    assert len({*first.tolist(), *second.tolist()}) == 3


def test_groups_come_in_the_order_of_their_first_rows() -> None:
    of_row, first = groups(np.array([7, 3, 7, 5, 3]))
    assert (of_row.tolist(), first.tolist()) == ([0, 1, 0, 2, 1], [0, 1, 3])


def test_joint_codes_are_equal_only_where_all_codes_are_however_many_there_are() -> None:
    columns = [np.array([0, 1, 0, 2**40 - 1, 1]), np.array([0, 1, 0, 2**40 - 1, 0])]
    combined = joint([(column, 2**40) for column in (*columns, *columns)])
    assert groups(combined).of_row.tolist() == [0, 1, 0, 2, 3]
