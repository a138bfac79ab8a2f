"""Record sets as brokers send them, built by the client's own builder, and damaged."""

from __future__ import annotations

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

BASE = 1000
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BAD_KEY = b"\xff\xfe\xfd\xfc"

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


def build(records: list[Record], codec: int = 0, base: int = BASE) -> bytes:
    """Return one batch: key, value, headers and milliseconds after the first timestamp of each record."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for offset, (key, value, headers, delta) in enumerate(records):
        builder.append(offset, 1_700_000_000_000 + delta, key, value, headers)
    return base.to_bytes(8, "big") + bytes(builder.build())[8:]


def sealed(batch: bytes) -> bytes:
    """Return ``batch`` with the checksum that fits it."""
    crc: int = calc_crc32c(batch[21:])
    return batch[:17] + crc.to_bytes(4, "big") + batch[21:]


def patched(batch: bytes, old: bytes, new: bytes) -> bytes:
    """Return ``batch`` with ``old`` replaced, sealed again."""
    assert old in batch
    return sealed(batch.replace(old, new))


def plain(count: int, header: str = "name") -> list[Record]:
    """Return ``count`` records; ``header`` is the header key of the third."""
    return [(b"k", b"v%d" % n, [(header if n == 2 else "name", b"x")], n) for n in range(count)]


def with_bad_header_key(count: int) -> bytes:
    """Return a batch of ``count`` records whose third has a header key that is not UTF-8."""
    return patched(build(plain(count, "QQQQ")), b"QQQQ", BAD_KEY)
