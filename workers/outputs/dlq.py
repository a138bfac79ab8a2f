"""Dead letters: the original record, byte for byte, with headers that say why it was refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from workers.processing.time import FIRST_APPEND_HEADER
from workers.reasons import CATALOGUE, Rejection
from workers.records import Headers, Output, Partition, RawRecord

PREFIX: Final = "engram.dlq."
ATTEMPT_HEADER: Final = "engram.attempt"

RECORD_OVERHEAD: Final = 128
"""Bytes kept free for the framing of a batch that holds one letter."""


@dataclass(frozen=True, slots=True)
class LetterWriter:
    """Makes dead letters of one input topic.

    ``topic`` is the letters' topic, ``max_bytes`` its ``max.message.bytes``, ``worker`` the name of this process and
    ``config_version`` the version of the policy in force.
    """

    topic: str
    max_bytes: int
    worker: str
    config_version: str

    def letter(self, source: Partition, record: RawRecord, rejection: Rejection, *, truncate: bool = False) -> Output:
        """Return the letter for ``record``, in the partition of the same number, stamped with its append time.

        A letter that is too big for its topic, or that ``truncate`` asks for, carries no value, but its size in bytes
        and SHA-256.
        """
        value = record.value
        added = self._headers(source, record, rejection)
        size = _size(record.key, value, record.headers) + _size(None, None, added) + RECORD_OVERHEAD
        if value is not None and (truncate or size > self.max_bytes):
            added += (
                (PREFIX + "truncated", b"1"),
                (PREFIX + "size", str(len(value)).encode()),
                (PREFIX + "sha256", hashlib.sha256(value).hexdigest().encode()),
            )
            value = None
        return Output(
            topic=self.topic,
            key=record.key,
            value=value,
            timestamp=max(record.timestamp, 0),
            headers=(*((name, content) for name, content in record.headers), *added),
            partition=source.number,
            source_offset=record.offset,
        )

    def _headers(self, source: Partition, record: RawRecord, rejection: Rejection) -> Headers:
        found = dict(record.headers)
        first_seen = found.get(FIRST_APPEND_HEADER) or str(record.timestamp).encode()
        facts = {
            "id": f"{source.topic}:{source.number}:{record.offset}",
            "reason": rejection.reason,
            "stage": rejection.stage,
            "class": CATALOGUE[rejection.reason].reason_class,
            "topic": source.topic,
            "partition": str(source.number),
            "offset": str(record.offset),
            "timestamp": str(record.timestamp),
            "schema_id": rejection.schema_id,
            "detail": rejection.field,
            "worker": self.worker,
            "config_version": self.config_version,
        }
        return (
            *((PREFIX + name, fact.encode()) for name, fact in facts.items() if fact is not None),
            (PREFIX + "first_seen", first_seen),
            (PREFIX + "attempt", found.get(ATTEMPT_HEADER) or b"1"),
        )


def _size(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return the bytes that key, value and headers take in a record, a little too many rather than too few."""
    total = len(key or b"") + len(value or b"")
    for name, content in headers:
        total += len(name.encode()) + len(content or b"") + 6
    return total
