"""The vocabulary shared by every stage: raw records, outputs and partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

Headers = tuple[tuple[str, bytes | None], ...]
"""Kafka record headers, in order, duplicates included."""


class Partition(NamedTuple):
    """A topic and a partition number."""

    topic: str
    number: int


class RawRecord(Protocol):
    """One record as the Kafka client delivers it (``aiokafka.ConsumerRecord`` satisfies this)."""

    @property
    def offset(self) -> int:
        """Offset in its partition."""

    @property
    def timestamp(self) -> int:
        """Broker's append time, milliseconds since the epoch (inputs use LogAppendTime)."""

    @property
    def key(self) -> bytes | None:
        """Raw key."""

    @property
    def value(self) -> bytes | None:
        """Raw value; None is a tombstone."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Raw headers."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A raw record built by hand: the CLI, tests and redrive read these from files."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Output(NamedTuple):
    """One record to publish; a tuple, since one is made for every record.

    ``partition`` is None where the partitioner decides from the key. ``timestamp`` is in milliseconds since the epoch
    and never comes from a producer's clock. ``source_offset`` names the input record it stems from, None for outputs
    of a whole batch.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    partition: int | None = None
    source_offset: int | None = None
