"""Reading a record batch around a record that the client cannot unpack. Pure: bytes in, records out.

aiokafka gives up on the whole batch, wherever in it the reader stands. Records are framed by their length, so the ones
around a broken one are found without understanding it (Kafka's message format, "Record").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.record.default_records import _DefaultRecordBatchPy
from aiokafka.record.util import decode_varint

from workers.transport.observer import HaltCause

_LENGTH_END = _DefaultRecordBatchPy.AFTER_LEN_OFFSET
_NEWEST_MAGIC = 2


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What cannot be read from ``offset`` on, and the offset where reading can go on."""

    offset: int
    skip_to: int
    cause: HaltCause


class _Frame(NamedTuple):
    """Where a record lies in its batch: its key begins at ``fields``; ``timestamp`` in milliseconds."""

    offset: int
    timestamp: int
    fields: int
    end: int


@dataclass(frozen=True, slots=True)
class Salvaged:
    """Records before the first unreadable one, and the position after them."""

    records: tuple[ConsumerRecord, ...]
    next: int
    unreadable: Unreadable | None


def salvage(tp: TopicPartition, data: bytes, position: int) -> Salvaged:
    """Return what can be read at ``position`` of the batch that holds it; ``data`` is the record set of a fetch.

    Raises:
        LookupError: ``data`` holds no whole batch that reaches beyond ``position``.
    """
    batch = _batch_at(data, position)
    begin = max(position, batch.base_offset)
    whole = Unreadable(begin, batch.next_offset, HaltCause.UNREADABLE)
    if batch.magic != _NEWEST_MAGIC:
        return Salvaged((), begin, whole)
    if not batch.validate_crc():
        return Salvaged((), begin, Unreadable(begin, batch.next_offset, HaltCause.BAD_CRC))
    try:
        batch._maybe_uncompress()
    except Exception:  # noqa: BLE001 - codecs raise errors of their own
        return Salvaged((), begin, whole)
    return _read(tp, batch, begin)


def _batch_at(data: bytes, position: int) -> _DefaultRecordBatchPy:
    begin = 0
    while begin + _DefaultRecordBatchPy.HEADER_STRUCT.size <= len(data):
        length = int.from_bytes(data[begin + _LENGTH_END - 4 : begin + _LENGTH_END], "big")
        end = begin + _LENGTH_END + length
        if end > len(data):
            break
        batch = _DefaultRecordBatchPy(data[begin:end])
        if batch.next_offset > position:
            return batch
        begin = end
    raise LookupError(f"no whole batch beyond offset {position}")


def _read(tp: TopicPartition, batch: _DefaultRecordBatchPy, begin: int) -> Salvaged:
    buffer = bytes(batch._buffer)
    records: list[ConsumerRecord] = []
    reached = begin
    frames = _frames(batch, buffer)
    while True:
        try:
            frame = next(frames, None)
        except (ValueError, IndexError):
            # Without its frame nothing behind a record can be found.
            return Salvaged(tuple(records), reached, Unreadable(reached, batch.next_offset, HaltCause.UNREADABLE))
        if frame is None:
            return Salvaged(tuple(records), batch.next_offset, None)
        if frame.offset < begin:
            continue
        try:
            records.append(_record(tp, batch, buffer, frame))
        except (ValueError, IndexError) as exc:
            cause = HaltCause.BAD_HEADER_KEY if isinstance(exc, UnicodeDecodeError) else HaltCause.UNREADABLE
            return Salvaged(tuple(records), frame.offset, Unreadable(frame.offset, frame.offset + 1, cause))
        reached = frame.offset + 1


def _frames(batch: _DefaultRecordBatchPy, buffer: bytes) -> Iterator[_Frame]:
    at, expected = batch._pos, batch.base_offset
    for _ in range(batch._num_records):
        length, at = decode_varint(buffer, at)
        end = at + length
        if length <= 0 or end > len(buffer):
            raise ValueError("record reaches beyond its batch")
        _, at = decode_varint(buffer, at)
        delta, at = decode_varint(buffer, at)
        offset_delta, at = decode_varint(buffer, at)
        offset = batch.base_offset + offset_delta
        if not expected <= offset < batch.next_offset:
            raise ValueError("offset out of order")
        expected = offset + 1
        appended = batch.timestamp_type == batch.LOG_APPEND_TIME
        timestamp = batch.max_timestamp if appended else batch.first_timestamp + delta
        yield _Frame(offset, timestamp, at, end)
        at = end


def _record(tp: TopicPartition, batch: _DefaultRecordBatchPy, buffer: bytes, frame: _Frame) -> ConsumerRecord:
    end = frame.end
    key, at = _bytes(buffer, frame.fields, end)
    value, at = _bytes(buffer, at, end)
    count, at = decode_varint(buffer, at)
    if count < 0:
        raise ValueError("negative number of headers")
    headers = []
    for _ in range(count):
        name, at = _bytes(buffer, at, end)
        content, at = _bytes(buffer, at, end)
        if name is None:
            raise ValueError("header without a key")
        headers.append((name.decode("utf-8"), content))
    if at != end:
        raise ValueError("record is longer than its fields")
    return ConsumerRecord(
        tp.topic,
        tp.partition,
        frame.offset,
        frame.timestamp,
        batch.timestamp_type,
        key,
        value,
        None,
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        tuple(headers),
    )


def _bytes(buffer: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(buffer, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise ValueError("field reaches beyond its record")
    return buffer[at : at + length], at + length
