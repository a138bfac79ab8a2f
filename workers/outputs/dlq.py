"""Dead letters: the original record, byte for byte, with headers that say why it was refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from workers.processing.time import FIRST_APPEND_HEADER
from workers.reasons import CATALOGUE, Rejection
from workers.records import Headers, Output, Partition, RawRecord

PREFIX: Final = "engram.dlq."
ATTEMPT_HEADER: Final = "engram.attempt"

RECORD_OVERHEAD: Final = 128
"""Bytes kept free for the framing of a batch that holds one letter."""

MAX_DETAIL: Final = 256
"""Characters of the field's name that are kept: a writer's schema may nest names of any length."""

_TRUNCATED: Final = (PREFIX + "truncated", b"1")
_TRUNCATION_BYTES: Final = 256
"""More than what the headers about a value left out take."""
_MAX_DIGITS: Final = 15
_FIRST_ADDED: Final = PREFIX + "id"


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
        and SHA-256. Compressed, a record of any size gets past the limit of its topic: where headers and key alone are
        too big they are left out too, the headers first, so that no record can stop its partition.
        """
        key, value = record.key, record.value
        headers = tuple((name, content) for name, content in record.headers)
        added = self._headers(source, record, rejection)
        room = self.max_bytes - RECORD_OVERHEAD - _size(None, None, added)
        if value is not None and (truncate or _size(key, value, headers) > room):
            added += (
                _TRUNCATED,
                (PREFIX + "size", str(len(value)).encode()),
                (PREFIX + "sha256", hashlib.sha256(value).hexdigest().encode()),
            )
            value = None
        room -= _TRUNCATION_BYTES
        if _size(key, None, headers) > room and value is None:
            headers = ()
            key = key if _size(key, None, headers) <= room else None
            added = added if _TRUNCATED in added else (*added, _TRUNCATED)
        return Output(
            topic=self.topic,
            key=key,
            value=value,
            timestamp=max(record.timestamp, 0),
            headers=(*headers, *added),
            partition=source.number,
            source_offset=record.offset,
        )

    def _headers(self, source: Partition, record: RawRecord, rejection: Rejection) -> Headers:
        found = dict(record.headers)
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
            "detail": None if rejection.field is None else rejection.field[:MAX_DETAIL],
            "worker": self.worker,
            "config_version": self.config_version,
        }
        return (
            *((PREFIX + name, fact.encode()) for name, fact in facts.items() if fact is not None),
            (PREFIX + "first_seen", _number(found.get(FIRST_APPEND_HEADER)) or str(record.timestamp).encode()),
            (PREFIX + "attempt", _number(found.get(ATTEMPT_HEADER)) or b"1"),
        )


def added_to(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the index in a letter's ``headers`` from which on they are ours; those before are the record's own.

    A producer may send headers with our prefix too, so the prefix alone proves nothing.
    """
    ours = [index for index, (name, _) in enumerate(headers) if name == _FIRST_ADDED]
    return ours[-1] if ours else len(headers)


def _number(content: bytes | None) -> bytes | None:
    """Return a header that holds a number, None for anything else: any producer may set it."""
    return content if content is not None and content.isdigit() and len(content) <= _MAX_DIGITS else None


def _size(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return the bytes that key, value and headers take in a record, a little too many rather than too few."""
    total = len(key or b"") + len(value or b"")
    for name, content in headers:
        total += len(name.encode()) + len(content or b"") + 6
    return total
