"""Which ways of producing records exist: an inventory for each source partition, bounded.

Source: docs/concepts/path-inventory.md; rows are records of the topic ``producer-paths``. All times are append times in
milliseconds since the epoch, so that reading the log again gives the same inventory.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from workers.records import Partition

UNSET: Final = "unset"
"""Path of a producer that names none."""
OTHER: Final = "other"
"""Service and path of the one row that takes in what finds no room; its tenant is empty, which no tenant can be."""
MAX_PATHS: Final = 10_000
"""Most keys of one source partition."""
REPUBLISH_MS: Final = 60_000
"""A row that is already published is published again no sooner than this."""

_DAYS: Final = 7
DAY_MS: Final = 86_400_000
_SCAN_MS: Final = 1_000
_LONGEST: Final = 256

Kind = Literal["turns", "state_writes"]
_PRODUCER_FIELD: Final[Mapping[Kind, str]] = {"turns": "producer", "state_writes": "writer"}


class PathKey(NamedTuple):
    """What tells one way of producing from another. Texts over 256 characters are cut to 255 and ``…``."""

    kind: Kind
    tenant: str
    service: str
    release: str | None
    sdk: str | None
    sdk_version: str | None
    path: str
    schema_id: str

    def subject(self) -> dict[str, str | None]:
        """Return the subject of the alert PathFirstSeen, whose tenant stands apart."""
        return {name: getattr(self, name) for name in ("service", "release", "sdk", "sdk_version", "path", "schema_id")}


def path_key(
    kind: Kind,
    tenant: str,
    service: str,
    release: str | None,
    sdk: str | None,
    sdk_version: str | None,
    path: str | None,
    schema_id: str,
) -> PathKey:
    """Return the key of a producer that says this of itself."""
    return PathKey(
        kind,
        tenant,
        _cut(service),
        _cut_or_none(release),
        _cut_or_none(sdk),
        _cut_or_none(sdk_version),
        _cut(path or UNSET),
        schema_id,
    )


class _Row:
    """Counts of one key; ``days`` holds [day, turns, complete] of the last seven days with traffic, oldest first."""

    __slots__ = ("complete", "days", "first_seen", "last_seen", "published_at", "source_offset", "turns")

    def __init__(self, seen: int) -> None:
        self.first_seen = self.last_seen = seen
        self.turns = self.complete = 0
        self.days: list[list[int]] = []
        self.source_offset = -1
        self.published_at: int | None = None

    def count(self, offset: int, append_time: int, complete: bool) -> None:
        self.count_many(offset, append_time, append_time // DAY_MS, 1, int(complete))

    def count_many(self, offset: int, append_time: int, day: int, turns: int, complete: int) -> None:
        """Count turns of one day; ``offset`` and ``append_time`` are the highest among them."""
        # A broker's clock may step back; days stay in order.
        if not self.days or day > self.days[-1][0]:
            self.days.append([day, 0, 0])
            del self.days[:-_DAYS]
        self.days[-1][1] += turns
        self.days[-1][2] += complete
        self.turns += turns
        self.complete += complete
        self.last_seen = max(self.last_seen, append_time)
        self.source_offset = offset


class PathInventory:
    """The paths seen in one source partition: drop it when the partition is revoked, restore it from its rows.

    Each row tells up to which offset it counts, so records that are read again count once. What was counted after a
    row's last publication is lost with the worker: counts are lower bounds, keys are published at once. At most
    ``limit`` keys are kept: those quiet for seven days make room, and what finds none is counted in one row, `OTHER`.
    """

    __slots__ = ("_dirty", "_forgotten", "_kind", "_limit", "_other", "_rows", "_scan_at", "_source", "folded")

    def __init__(self, source: Partition, kind: Kind = "turns", limit: int = MAX_PATHS) -> None:
        self._source = source
        self._kind = kind
        self._limit = limit
        # By last observation, the longest quiet first.
        self._rows: OrderedDict[PathKey, _Row] = OrderedDict()
        self._dirty: dict[PathKey, None] = {}
        self._forgotten: list[bytes] = []
        self._scan_at = 0
        self._other = PathKey(kind, "", OTHER, None, None, None, OTHER, "")
        self.folded = 0
        """Observations that found no room and went to the row `OTHER`."""

    def __len__(self) -> int:
        """Return the number of keys held, the row `OTHER` included."""
        return len(self._rows)

    def observe(
        self, record: Mapping[str, Any], schema_id: str, complete: bool, append_time: int, offset: int
    ) -> PathKey | None:
        """Count one record; return its key if this is the first time it is seen here.

        ``record`` is a turn or state write projected onto our schema, ``schema_id`` its writer's; ``complete`` tells
        whether its fingerprint is (False for state writes, which have none).
        """
        return self.observe_key(self._key_of(record, schema_id), complete, append_time, offset)

    def observe_key(self, key: PathKey, complete: bool, append_time: int, offset: int) -> PathKey | None:
        """Count one record of ``key``; otherwise like `observe`."""
        row = self._rows.get(key)
        first = row is None and self._make_room(append_time)
        if row is None:
            if not first:
                key = self._other
                self.folded += 1
            row = self._rows.setdefault(key, _Row(append_time))
        if offset <= row.source_offset:
            return None
        row.count(offset, append_time, complete)
        self._rows.move_to_end(key)
        self._dirty[key] = None
        if row.published_at is None:
            self._scan_at = 0
        return key if first else None

    def counted_up_to(self, key: PathKey) -> int | None:
        """Return the offset up to which the row of ``key`` counts, None where there is no such row."""
        row = self._rows.get(key)
        return None if row is None else row.source_offset

    def observe_many(self, key: PathKey, offset: int, append_time: int, day: int, turns: int, complete: int) -> None:
        """Count turns of a path that has a row, all of one ``day`` and not counted before.

        ``offset`` and ``append_time`` are the highest among them. Where the row had to make room since, nobody counts
        them: their path has been told of.
        """
        row = self._rows.get(key)
        if row is not None:
            row.count_many(max(offset, row.source_offset), append_time, day, turns, complete)
            self._rows.move_to_end(key)
            self._dirty[key] = None

    def due_rows(self, append_time: int) -> list[tuple[bytes, dict[str, Any]]]:
        """Return (key, row) for what to publish now, and take it as published.

        ``append_time`` is that of the newest record read. New rows are due at once, others a minute after their last
        publication. If they cannot be published, drop the inventory and restore it.
        """
        if append_time < self._scan_at:
            return []
        self._scan_at = append_time + _SCAN_MS
        due = [key for key in self._dirty if self._is_due(self._rows[key], append_time)]
        for key in due:
            del self._dirty[key]
            self._rows[key].published_at = append_time
        return [(self._row_key(key), self._row_of(key)) for key in due]

    def take_forgotten(self) -> list[bytes]:
        """Return the keys of rows that made room since the last call; publish a null for each."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def restore(self, row: Mapping[str, Any]) -> None:
        """Take in a row of this source partition, as `due_rows` gave it; a later one replaces an earlier.

        Raises:
            ValueError: the row belongs to another source partition.
        """
        if (row["source_topic"], row["source_partition"]) != self._source:
            raise ValueError(f"a row of {row['source_topic']}:{row['source_partition']} was given to {self._source}")
        restored = _Row(row["first_seen"])
        restored.last_seen = restored.published_at = row["last_seen"]
        restored.turns, restored.complete = row["turns"], row["complete"]
        restored.days = [[day["day"], day["turns"], day["complete"]] for day in row["days"]]
        restored.source_offset = row["source_offset"]
        key = key_of_row(row)
        self._rows[key] = restored
        self._rows.move_to_end(key)

    def _key_of(self, record: Mapping[str, Any], schema_id: str) -> PathKey:
        producer = record[_PRODUCER_FIELD[self._kind]]
        return path_key(
            self._kind,
            record["tenant"],
            producer["service"],
            producer["build_id"],
            producer.get("sdk"),
            producer.get("sdk_version"),
            producer["path"],
            schema_id,
        )

    def _make_room(self, append_time: int) -> bool:
        """Return whether another key may be kept, after forgetting the longest quiet one if there must be room."""
        if len(self._rows) - (self._other in self._rows) < self._limit:
            return True
        oldest = next(key for key in self._rows if key != self._other)
        if append_time - self._rows[oldest].last_seen <= _DAYS * DAY_MS:
            return False
        del self._rows[oldest]
        self._dirty.pop(oldest, None)
        self._forgotten.append(self._row_key(oldest))
        return True

    @staticmethod
    def _is_due(row: _Row, append_time: int) -> bool:
        return row.published_at is None or append_time - row.published_at >= REPUBLISH_MS

    def _row_key(self, key: PathKey) -> bytes:
        parts = json.dumps([*key, *self._source], ensure_ascii=False, separators=(",", ":"))
        return sha256(parts.encode()).hexdigest().encode()

    def _row_of(self, key: PathKey) -> dict[str, Any]:
        row = self._rows[key]
        return {
            **dict(zip(_KEY_COLUMNS, key, strict=True)),
            "source_topic": self._source.topic,
            "source_partition": self._source.number,
            "source_offset": row.source_offset,
            "first_seen": row.first_seen,
            "last_seen": row.last_seen,
            "turns": row.turns,
            "complete": row.complete,
            "days": [{"day": day, "turns": turns, "complete": complete} for day, turns, complete in row.days],
        }


_KEY_COLUMNS: Final = ("kind", "tenant", "service", "release", "sdk", "sdk_version", "path", "writer_schema_id")


def key_of_row(row: Mapping[str, Any]) -> PathKey:
    """Return the inventory key of a row of ``producer-paths``, the same in every source partition."""
    return PathKey(*(row[column] for column in _KEY_COLUMNS))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _cut_or_none(text: str | None) -> str | None:
    return None if text is None else _cut(text)
