"""Producing paths as they appear: their rows on ``producer-paths``, and an alert for each that nobody has seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workers.alerting.records import alert_record
from workers.metrics import catalogue as m
from workers.metrics.labels import AlertState, PathEvent, StreamAlert
from workers.metrics.spec import Tally
from workers.processing.lineage import output_headers, source_header
from workers.processing.paths import PathInventory, PathKey
from workers.processing.time import append_time
from workers.records import Output, Partition, RawRecord
from workers.serde.records import Decoded

Encode = Callable[[Mapping[str, Any]], bytes]


@dataclass(frozen=True, slots=True)
class PathTopics:
    """Where alerts and rows go, and how they are encoded."""

    alerts: str
    producer_paths: str
    encode_alert: Encode
    encode_path: Encode


class PathWatch:
    """Watches the paths of one source partition.

    ``is_known`` tells whether another partition has seen a path already; ``policy_version`` returns that of the policy
    in force.
    """

    def __init__(
        self,
        source: Partition,
        topics: PathTopics,
        inventory: PathInventory,
        is_known: Callable[[PathKey], bool],
        policy_version: Callable[[], str],
    ) -> None:
        self._source = source
        self._topics = topics
        self._inventory = inventory
        self._is_known = is_known
        self._policy_version = policy_version
        self._newest_append = 0

    def observe(self, record: RawRecord, decoded: Decoded, complete: bool, tally: Tally) -> tuple[Output, ...]:
        """Count ``record`` for its path and return the alert, if this is the path's very first."""
        self._newest_append = max(self._newest_append, record.timestamp)
        key = self._inventory.observe(decoded.value, str(decoded.writer.ref), complete, record.timestamp, record.offset)
        return () if key is None else self._announce(record, key, tally)

    def observe_key(self, record: RawRecord, key: PathKey, complete: bool) -> tuple[tuple[Output, ...], Tally] | None:
        """Count ``record`` for the path ``key``; return alert and counts only if this is the path's very first."""
        append_ms = record.timestamp
        if append_ms > self._newest_append:
            self._newest_append = append_ms
        if self._inventory.observe_key(key, complete, append_ms, record.offset) is None:
            return None
        tally = Tally()
        return self._announce(record, key, tally), tally

    def counted_up_to(self, key: PathKey) -> int | None:
        """Return the offset up to which the turns of ``key`` are counted, None for a path that was never seen."""
        return self._inventory.counted_up_to(key)

    def observe_many(self, key: PathKey, offset: int, append_time: int, day: int, turns: int, complete: int) -> None:
        """Count turns of one day and of a path that was seen before; see `PathInventory.observe_many`."""
        self._newest_append = max(self._newest_append, append_time)
        self._inventory.observe_many(key, offset, append_time, day, turns, complete)

    def _announce(self, record: RawRecord, key: PathKey, tally: Tally) -> tuple[Output, ...]:
        if self._is_known(key):
            return ()
        tally.add(m.PATH_EVENTS, PathEvent.FIRST_SEEN)
        tally.add(m.ALERTS, StreamAlert.PATH_FIRST_SEEN, AlertState.FIRING)
        return (self._alert(record, key),)

    def rows(self) -> list[Output]:
        """Return the rows that are due now."""
        topic = self._topics.producer_paths
        rows = [
            Output(
                topic,
                key,
                self._topics.encode_path(row),
                timestamp=max(row["last_seen"], 0),
                headers=(source_header(self._source, row["source_offset"]),),
            )
            for key, row in self._inventory.due_rows(self._newest_append)
        ]
        forgotten = self._inventory.take_forgotten()
        return rows + [Output(topic, key, None, timestamp=max(self._newest_append, 0)) for key in forgotten]

    def _alert(self, record: RawRecord, key: PathKey) -> Output:
        at = append_time(record)
        alert = alert_record(
            StreamAlert.PATH_FIRST_SEEN,
            subject=key.subject(),
            state=AlertState.FIRING,
            starts_at=at,
            ends_at=at,
            tenant=key.tenant,
            service=key.service,
            release=key.release,
            policy=self._policy_version(),
        )
        return Output(
            self._topics.alerts,
            alert["verdict_id"].encode(),
            self._topics.encode_alert(alert),
            timestamp=max(record.timestamp, 0),
            headers=output_headers(self._source, record),
            source_offset=record.offset,
        )
