"""Reading around records that cannot be unpacked, against batches that the client itself builds."""

from __future__ import annotations

import pytest
from aiokafka import TopicPartition
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from record_sets import BASE, CODECS, Record, build, patched, plain, sealed, with_bad_header_key

from workers.transport.observer import HaltCause
from workers.transport.salvage import Unreadable, salvage

TP = TopicPartition("in", 3)
RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3),
        st.integers(0, 10_000),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=100, deadline=None)
@given(records=RECORDS, codec=st.sampled_from(sorted(CODECS)), skipped=st.integers(0, 7))
def test_sound_records_are_read_as_the_client_reads_them(records: list[Record], codec: str, skipped: int) -> None:
    data = build(records, CODECS[codec])
    position = BASE + min(skipped, len(records) - 1)
    found = salvage(TP, data, position)
    expected = [record for record in DefaultRecordBatch(data) if record.offset >= position]
    assert [(r.offset, r.timestamp, r.timestamp_type, r.key, r.value, list(r.headers)) for r in found.records] == [
        (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers) for r in expected
    ]
    assert (found.next, found.unreadable) == (BASE + len(records), None)
    for ours, value in zip(found.records, (r.value for r in expected), strict=True):
        assert ours.serialized_value_size == (-1 if value is None else len(value))


def test_records_before_a_bad_header_key_are_read_and_it_is_named() -> None:
    data = with_bad_header_key(5)
    found = salvage(TP, data, BASE)
    assert [record.offset for record in found.records] == [1000, 1001]
    assert found.next == 1002
    assert found.unreadable == Unreadable(1002, 1003, HaltCause.BAD_HEADER_KEY)


def test_records_behind_a_bad_header_key_are_read_once_it_is_skipped() -> None:
    data = with_bad_header_key(5)
    found = salvage(TP, data, 1003)
    assert [record.value for record in found.records] == [b"v3", b"v4"]
    assert (found.next, found.unreadable) == (1005, None)


def test_a_header_that_reaches_beyond_its_record_stops_at_that_record() -> None:
    # The length of the header's value, a zigzag varint of 1, becomes 50.
    data = patched(build(plain(5, "QQQQ")), b"QQQQ\x02x", b"QQQQ\x64x")
    found = salvage(TP, data, BASE)
    assert (len(found.records), found.unreadable) == (2, Unreadable(1002, 1003, HaltCause.UNREADABLE))


def test_a_broken_checksum_makes_the_whole_rest_of_the_batch_unreadable() -> None:
    data = bytearray(build(plain(5)))
    data[-1] ^= 1
    assert salvage(TP, bytes(data), 1002).unreadable == Unreadable(1002, 1005, HaltCause.BAD_CRC)


def test_a_batch_whose_compression_is_broken_is_unreadable_as_a_whole() -> None:
    data = build([(b"k", b"v" * 500, [], 0)], CODECS["zstd"])
    broken = sealed(data[:65] + bytes(10) + data[75:])
    assert salvage(TP, broken, BASE).unreadable == Unreadable(1000, 1001, HaltCause.UNREADABLE)


def test_the_batch_of_the_position_is_found_behind_others() -> None:
    data = build(plain(2), base=1000) + build(plain(2), base=1002) + build(plain(2), base=1004)
    assert [record.offset for record in salvage(TP, data, 1003).records] == [1003]
    with pytest.raises(LookupError, match="beyond offset 1006"):
        salvage(TP, data, 1006)
    with pytest.raises(LookupError):
        salvage(TP, data[:-1], 1004)


@settings(max_examples=300, deadline=None)
@given(at=st.integers(61, len(build(plain(6))) - 1), byte=st.integers(0, 255))
def test_whatever_byte_of_a_record_is_wrong_offsets_rise_within_the_batch(at: int, byte: int) -> None:
    sound = build(plain(6))
    found = salvage(TP, sealed(sound[:at] + bytes([byte]) + sound[at + 1 :]), BASE)
    offsets = [record.offset for record in found.records]
    assert offsets == sorted(set(offsets))
    assert all(BASE <= offset < found.next for offset in offsets)
    if found.unreadable is None:
        assert found.next == BASE + 6
    else:
        assert found.next == found.unreadable.offset < found.unreadable.skip_to <= BASE + 6
