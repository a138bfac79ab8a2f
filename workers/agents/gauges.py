"""The gauges of assigned partitions: lag, age, what is in flight, what stands still and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter
from workers.metrics.labels import HaltReason
from workers.metrics.spec import Metric
from workers.records import Partition
from workers.transport.status import PartitionStatus

_PER_PARTITION: Final[tuple[Metric, ...]] = (
    m.LAG_RECORDS,
    m.OWN_LAG_SECONDS,
    m.COMMITTED_OFFSET,
    m.BATCHES_IN_FLIGHT,
)


class Gauges:
    """Keeps the gauges of partitions up to date and takes away those of partitions that have left."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._shown: set[Partition] = set()
        self._behind_since: dict[Partition, float] = {}

    def update(
        self, statuses: Iterable[PartitionStatus], oldest_append_ms: Mapping[Partition, int], now: float
    ) -> None:
        """Show ``statuses``.

        ``oldest_append_ms`` is the append time of the oldest record that a lane has not finished, by partition;
        ``now`` is in seconds since the epoch.
        """
        shown = set()
        for status in statuses:
            shown.add(status.partition)
            self._show(status, self._age(status, oldest_append_ms.get(status.partition), now))
        for partition in self._shown - shown:
            self._forget(partition)
        self._shown = shown

    def _age(self, status: PartitionStatus, append_ms: int | None, now: float) -> float:
        """Return the age in seconds of the oldest unprocessed record, 0 when there is none."""
        if append_ms is not None:
            self._behind_since.pop(status.partition, None)
            return max(0.0, now - append_ms / 1000)
        if not status.lag:
            self._behind_since.pop(status.partition, None)
            return 0.0
        # Nothing is fetched yet, so no append time is known: count from when the lag was first seen.
        return now - self._behind_since.setdefault(status.partition, now)

    def _show(self, status: PartitionStatus, age: float) -> None:
        partition = status.partition
        labels = (partition.topic, str(partition.number))
        if status.end_offset is not None and (status.committed is not None or status.watermark is not None):
            done = status.committed if status.committed is not None else status.watermark
            self._exporter.set(m.LAG_RECORDS, max(0, status.end_offset - (done or 0)), *labels)
        if status.committed is not None:
            self._exporter.set(m.COMMITTED_OFFSET, status.committed, *labels)
        self._exporter.set(m.OWN_LAG_SECONDS, age, *labels)
        self._exporter.set(m.BATCHES_IN_FLIGHT, status.batches_in_flight, *labels)
        stopped_for = HaltReason.UNREADABLE if status.halted_at is not None else status.held_for
        for reason in HaltReason:
            self._exporter.set(m.PARTITION_HALTED, float(reason == stopped_for), *labels, reason)

    def _forget(self, partition: Partition) -> None:
        labels = (partition.topic, str(partition.number))
        self._behind_since.pop(partition, None)
        for metric in _PER_PARTITION:
            self._exporter.remove(metric, *labels)
        for reason in HaltReason:
            self._exporter.remove(m.PARTITION_HALTED, *labels, reason)
