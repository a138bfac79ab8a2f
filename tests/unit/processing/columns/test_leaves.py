"""Texts of manifests checked by the column."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from workers.processing.columns.leaves import bad_digests, bad_timestamps, bad_values
from workers.processing.columns.reading import texts
from workers.processing.fidelity import leaves
from workers.processing.fidelity.jsontext import JsonRefusedError, loads_value


def refused(check: Callable[[str], object], text: str | None) -> bool:
    try:
        check(text or "")
    except (PydanticCustomError, JsonRefusedError):
        return True
    return False


_DATES = [
    f"{year}-{month:02}-{day:02}"
    for year, month, day in product(
        ("0000", "1900", "2000", "2023", "2024", "9999"), range(14), (0, 1, 28, 29, 30, 31, 32)
    )
]
_TIMES = ["T00:00:00.000Z", "T23:59:59.999Z"]
_ODD = [
    "",
    "2024-01-01T00:00Z",
    "2024-01-01T00:00:00Z",
    "2024-01-01T24:00:00.000Z",
    "2024-01-01T00:60:00.000Z",
    "2024-01-01T00:00:60.000Z",
    "2024-01-01t00:00:00.000Z",
    "2024-01-01T00:00:00.000z",
    "2024-01-01T00:00:00,000Z",
    "2024-01-01T00:00:00.00aZ",
    "2024/01/01T00:00:00.000Z",
    "2024-01-01T00:00:00.0000Z",
    "2024-01-01T00:00:00.000Z\n",
    "٢024-01-01T00:00:00.00Z",
]


def test_timestamps_are_those_of_the_reference() -> None:
    stamps = [None, *_ODD, *(date + time for date in _DATES for time in _TIMES)]
    expected = [refused(leaves.timestamp, stamp) for stamp in stamps]
    assert bad_timestamps(texts(pa.array(stamps, pa.utf8()))).tolist() == expected
    assert set(expected) == {True, False}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.text("0fFgZ-", max_size=3) | st.text("09afAFg ", min_size=64, max_size=64), max_size=6))
def test_digests_are_those_of_the_reference_and_null_is_none(digests: list[str | None]) -> None:
    good = "0123456789abcdefABCDEF" * 3
    column = pa.array([good[:64], *digests, good[:64], "é" * 32], pa.utf8())
    expected = [text is not None and refused(leaves.digest, text) for text in column.to_pylist()]
    assert bad_digests(texts(column)).tolist() == expected
    assert bad_digests(texts(column.slice(1))).tolist() == expected[1:]


@pytest.mark.parametrize("repeat", [1, 3])
def test_values_are_those_of_the_reference(repeat: int) -> None:
    held = ["1", '"a"', "nul", "", "[1,]", "1e400", "9" * 400, "[" * 129 + "]" * 129, "[" * 128 + "]" * 128]
    held += [f'"{"x" * 5_000}"', f'"{"x" * 5_000}']
    column = pa.array([*held, None] * repeat, pa.utf8())
    found = bad_values(column)
    assert found is not None
    assert set(found.to_pylist()) == {text for text in held if refused(loads_value, text)}
    assert bad_values(pa.array(["1", None])) is None
