"""Cutting chunks to their bound in bytes."""

from __future__ import annotations

from aiokafka import ConsumerRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.transport.fetch import Chunk, record_size


def record(offset: int, size: int, headers: tuple[tuple[str, bytes | None], ...] = ()) -> ConsumerRecord:
    return ConsumerRecord("in", 0, offset, 0, 0, None, b"x" * size, None, -1, size, headers)


def test_the_size_of_a_record_counts_headers_and_nulls_nothing() -> None:
    assert record_size(record(0, 5, (("name", b"value"), ("null", None)))) == 5 + 9 + 4


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=20),
    holes=st.lists(st.integers(0, 3), min_size=20, max_size=20),
    tail=st.integers(0, 5),
    bound=st.integers(1, 100),
)
def test_a_split_chunk_keeps_every_record_and_every_offset_and_its_bound(
    sizes: list[int], holes: list[int], tail: int, bound: int
) -> None:
    offset, records = 10, []
    for size, hole in zip(sizes, holes, strict=False):
        offset += hole
        records.append(record(offset, size))
        offset += 1
    chunk = Chunk(10, offset + tail, tuple(records), sum(sizes))
    parts = list(chunk.split(bound))
    assert [r for part in parts for r in part.records] == records
    assert [part.start for part in parts] == [10, *[part.next for part in parts[:-1]]]
    assert parts[-1].next == chunk.next
    for part in parts:
        assert part.nbytes == sum(map(record_size, part.records))
        assert part.nbytes <= bound or len(part.records) == 1
        assert all(part.start <= r.offset < part.next for r in part.records)
