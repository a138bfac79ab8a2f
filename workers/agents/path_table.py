"""The path inventory of all workers: the compacted topic ``producer-paths``, as it is now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from workers.processing.paths import Kind, PathInventory, PathKey, key_of_row
from workers.reasons import Rejection
from workers.records import Partition, StoredRecord
from workers.serde.records import Decoded, RecordDecoder
from workers.state.compacted_topic import CompactedTopic

log = logging.getLogger(__name__)


class PathTable:
    """Follows ``producer-paths`` and opens the inventory of a source partition from its rows."""

    def __init__(self, topic: str, client_options: Callable[[], Mapping[str, Any]], decoder: RecordDecoder) -> None:
        self._topic = topic
        self._decoder = decoder
        self._log = CompactedTopic(topic, client_options, self._apply)
        self._unread: dict[bytes, bytes] = {}
        self._rows: dict[bytes, dict[str, Any]] = {}
        self._keys: set[PathKey] = set()

    async def start(self) -> None:
        """Begin to follow the topic; see `CompactedTopic.start` for what it raises."""
        await self._log.start()

    async def stop(self) -> None:
        """Stop following."""
        await self._log.stop()

    async def open(self, source: Partition, kind: Kind) -> PathInventory:
        """Return the inventory of ``source`` as its rows on the topic tell, read to their end.

        Raises:
            UnreachableError: the schema of a row cannot be looked up now.
        """
        await self._log.caught_up()
        await self._read_new_rows()
        inventory = PathInventory(source, kind)
        for row in self._rows.values():
            if (row["source_topic"], row["source_partition"]) == source and row["kind"] == kind:
                inventory.restore(row)
        return inventory

    def is_known(self, key: PathKey) -> bool:
        """Whether a row of any partition names this path; from now on it does."""
        if key in self._keys:
            return True
        self._keys.add(key)
        return False

    def _apply(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._unread.pop(key, None)
            self._rows.pop(key, None)
        else:
            self._unread[key] = value

    async def _read_new_rows(self) -> None:
        unread, self._unread = self._unread, {}
        records = [StoredRecord(0, 0, key, value) for key, value in unread.items()]
        frames = self._decoder.frames(records)
        writers = await self._decoder.writers(frames)
        for record, frame in zip(records, frames, strict=True):
            row = self._decoder.decode(frame, writers)
            if isinstance(row, Decoded):
                self._rows[record.key or b""] = row.value
                self._keys.add(key_of_row(row.value))
            elif isinstance(row, Rejection):
                log.warning("a row of %s cannot be read (%s) and is left out", self._topic, row.reason)
