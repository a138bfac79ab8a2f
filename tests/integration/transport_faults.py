"""Making records nobody should be able to make: bytes of a batch changed after it was built."""

from __future__ import annotations

from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import DefaultRecordBase
from aiokafka.record.util import calc_crc32c

PLACEHOLDER = "QQQQ"
NOT_UTF8 = b"\xff\xfe\xfd\xfc"


def with_bad_header_key(batch: bytes) -> bytes:
    """Return ``batch`` with the header key `PLACEHOLDER` made invalid UTF-8, and its checksum made right again."""
    changed = bytearray(batch)
    at = changed.index(PLACEHOLDER.encode())
    changed[at : at + len(NOT_UTF8)] = NOT_UTF8
    crc = calc_crc32c(bytes(changed[DefaultRecordBase.ATTRIBUTES_OFFSET :]))
    changed[DefaultRecordBase.CRC_OFFSET : DefaultRecordBase.ATTRIBUTES_OFFSET] = crc.to_bytes(4, "big")
    return bytes(changed)


def break_checksum(segment: Path, index: int) -> None:
    """Change one byte in the batch number ``index`` of a log segment, as a failing disk would."""
    content = bytearray(segment.read_bytes())
    begin = 0
    for _ in range(index):
        begin += DefaultRecordBase.AFTER_LEN_OFFSET + int.from_bytes(content[begin + 8 : begin + 12], "big")
    with segment.open("r+b") as file:
        file.seek(begin + DefaultRecordBase.HEADER_STRUCT.size + 10)
        file.write(bytes([content[begin + DefaultRecordBase.HEADER_STRUCT.size + 10] ^ 0xFF]))


async def produce_one_batch(
    bootstrap_servers: str, topic: str, partition: int, count: int, bad: int | None = None
) -> None:
    """Append one batch of ``count`` records; the header key of the one at index ``bad`` is not UTF-8."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")
    await producer.start()
    try:
        builder = producer.create_batch()
        for index in range(count):
            name = PLACEHOLDER if index == bad else "good"
            builder.append(key=b"%d" % index, value=b"value", timestamp=None, headers=[(name, b"x")])
        builder.close()
        if bad is not None:
            builder._buffer = bytearray(with_bad_header_key(bytes(builder._build())))
        await (await producer.send_batch(builder, topic, partition=partition))
    finally:
        await producer.stop()
