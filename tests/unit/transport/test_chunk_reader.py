"""Reading chunks out of what the client has fetched: bounds, positions, records that cannot be unpacked."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_UNCOMMITTED, FetchError, FetchResult, PartitionRecords
from aiokafka.consumer.subscription_state import Assignment
from aiokafka.errors import (
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka.record.memory_records import MemoryRecords
from record_sets import BASE, build, plain, with_bad_header_key

from workers.transport.fetch import ChunkReader, Limits, Trouble
from workers.transport.observer import HaltCause

TP = TopicPartition("in", 0)
WIDE = Limits(max_records=100, max_bytes=1 << 20, budget=1 << 30)


class Fetched:
    """The client's buffer of one partition, filled by hand where a broker's answer would fill it."""

    def __init__(self) -> None:
        self.assignment = Assignment([TP])
        self.state = self.assignment.state_value(TP)
        self.state.seek(BASE)
        self.sought: list[int] = []
        self.fetcher = SimpleNamespace(
            _records={}, _wait_consume_future=None, _notify=lambda _: None, seek_to=lambda _, to: self.sought.append(to)
        )
        self.reader = ChunkReader(self.fetcher)

    def answer(self, data: bytes) -> None:
        records = PartitionRecords(
            TP, MemoryRecords(data), None, self.state.position, None, None, True, READ_UNCOMMITTED
        )
        result = FetchResult(TP, assignment=self.assignment, partition_records=records, backoff=0)
        self.fetcher._records[TP] = result

    def fail(self, error: Exception) -> None:
        self.fetcher._records[TP] = FetchError(error=error, backoff=0)

    def read(self, limits: Limits = WIDE) -> Any:
        return self.reader.read(TP, self.state, limits)


@pytest.fixture
async def fetched() -> Fetched:
    await asyncio.sleep(0)  # the client's futures want a running loop
    return Fetched()


async def test_nothing_fetched_is_nothing_read(fetched: Fetched) -> None:
    assert fetched.read() == (None, None)


async def test_a_chunk_stops_at_its_bound_and_the_next_one_begins_there(fetched: Fetched) -> None:
    fetched.answer(build(plain(5)))
    first, _ = fetched.read(Limits(max_records=3, max_bytes=1 << 20, budget=1 << 30))
    assert (first.start, first.next, len(first.records)) == (1000, 1003, 3)
    second, _ = fetched.read()
    assert (second.start, second.next, len(second.records)) == (1003, 1005, 2)
    assert fetched.fetcher._records == {}, "the client may fetch on"


async def test_records_before_an_unreadable_one_are_read_at_once(fetched: Fetched) -> None:
    fetched.answer(with_bad_header_key(5))
    chunk, problem = fetched.read()
    assert (chunk.next, problem) == (1002, None)
    assert fetched.state.position == 1002


async def test_only_a_record_that_fails_twice_is_a_problem(fetched: Fetched) -> None:
    fetched.answer(with_bad_header_key(5))
    fetched.read()
    fetched.answer(with_bad_header_key(5))
    chunk, problem = fetched.read()
    assert chunk is None
    assert (problem.trouble, problem.offset) == (Trouble.UNREADABLE, 1002)


async def test_a_checksum_broken_on_the_wire_is_forgotten_when_the_next_fetch_is_sound(fetched: Fetched) -> None:
    sound = build(plain(5))
    for _ in range(2):
        fetched.answer(sound[:-1] + b"?")
        assert fetched.read() == (None, None)
        fetched.answer(sound)
        chunk, problem = fetched.read()
        assert (chunk.next, problem) == (1005, None)
        fetched.state.seek(BASE)


async def test_a_fetch_for_another_position_is_dropped(fetched: Fetched) -> None:
    fetched.answer(build(plain(5)))
    fetched.state.seek(2000)
    assert fetched.read() == (None, None)
    assert fetched.fetcher._records == {}


async def test_an_oversized_batch_the_client_has_stepped_over_is_sought_back(fetched: Fetched) -> None:
    fetched.state.seek(BASE + 1)
    fetched.fail(RecordTooLargeError())
    _, problem = fetched.read()
    assert fetched.sought == [BASE]
    assert problem.unreadable.cause is HaltCause.TOO_LARGE_TO_FETCH
    assert (problem.unreadable.offset, problem.unreadable.skip_to) == (BASE, BASE + 1)


async def test_each_error_of_the_client_becomes_its_trouble(fetched: Fetched) -> None:
    fetched.fail(OffsetOutOfRangeError({TP: BASE}))
    assert fetched.read()[1].trouble is Trouble.OUT_OF_RANGE
    fetched.fail(OffsetOutOfRangeError({TP: 3}))
    assert fetched.read()[1] is None, "an answer to a position that has moved on"
    fetched.fail(TopicAuthorizationFailedError("in"))
    assert fetched.read()[1].trouble is Trouble.REFUSED
    fetched.state.await_reset(-2)
    fetched.fail(NoOffsetForPartitionError(TP))
    assert fetched.read()[1].trouble is Trouble.NO_OFFSET
