"""Partitions of many keys at once are those of each key alone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from workers.keys import partition_of
from workers.processing.columns.partitions import partitions_of


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=12), st.integers(1, 64))
def test_partitions_by_columns_are_kafkas(keys: list[bytes], partitions: int) -> None:
    assert partitions_of(keys, partitions) == [partition_of(key, partitions) for key in keys]
