"""The books of a worker: what came in, what became of it, and that both agree."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter
from workers.metrics.labels import End
from workers.metrics.spec import Label, Tally
from workers.processing.outcome import BatchOutcome
from workers.reasons import CATALOGUE, Rejection
from workers.records import Partition, RawRecord
from workers.serde.admission import WriterSchema
from workers.serde.wire_format import SchemaRef
from workers.transport.batch import RecordBatch


class Accounts:
    """Counts completed batches; ``now`` is wall-clock time in seconds since the epoch."""

    def __init__(self, exporter: Exporter, now: Callable[[], float] = time.time) -> None:
        self._exporter = exporter
        self._now = now
        self._received: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._seen_schemas: set[SchemaRef] = set()
        self.restored_partitions: set[Partition] = set()

    def expect(self, topic: str) -> None:
        """Start the counters of an input at 0, so that the first failure shows as an increase."""
        self._exporter.preset(Label.TOPIC, topic)
        self._exporter.set(m.CONSERVATION_DIFFERENCE, 0, topic)

    def restored(self, partition: Partition) -> None:
        """Note that the state of ``partition`` is up to date."""
        self.restored_partitions.add(partition)

    def writers_seen(self, writers: Mapping[SchemaRef, WriterSchema | Rejection]) -> None:
        """Count, once per schema, what its writer has that we ignore."""
        for ref, writer in writers.items():
            if isinstance(writer, WriterSchema) and ref not in self._seen_schemas:
                self._seen_schemas.add(ref)
                self._exporter.inc(m.UNKNOWN_FIELDS, n=len(writer.unknown_fields))

    def completed(self, batch: RecordBatch, outcome: BatchOutcome) -> None:
        """Count ``batch``: what it held on one side, the ends of its results on the other."""
        topic = batch.partition.topic
        ends: Counter[End] = Counter()
        tally = Tally()
        positions: set[int] = set()
        for result in outcome.results:
            ends[result.end] += 1
            if result.rejection is not None:
                reason = result.rejection.reason
                self._exporter.inc(m.DEAD_LETTERS, topic, reason, CATALOGUE[reason].reason_class)
            if result.tally is not None:
                tally.counts.update(result.tally.counts)
            if result.position is not None:
                positions.add(result.position)
        if outcome.column_tally is not None:
            tally.counts.update(outcome.column_tally(positions).counts)
        self._exporter.apply(tally)
        for way, n in outcome.routes.items():
            self._exporter.inc(m.DECODE_ROWS, *way, n=n)
        self._exporter.inc(m.RECORDS_RECEIVED, topic, n=len(batch.records))
        for end, n in ends.items():
            self._exporter.inc(m.RECORDS, topic, end, n=n)
        self._received[topic] += len(batch.records)
        self._ended[topic] += ends.total()
        self._exporter.set(m.CONSERVATION_DIFFERENCE, self._received[topic] - self._ended[topic], topic)
        for stage, seconds in outcome.seconds.items():
            self._exporter.observe(m.BATCH_SECONDS, seconds, topic, stage)
        oldest = batch.records[0]
        age = max(0.0, self._now() - oldest.timestamp / 1000)
        self._exporter.observe(m.END_TO_END_SECONDS, age, topic, exemplar=_trace(oldest))


def _trace(record: RawRecord) -> dict[str, str] | None:
    """Return the W3C trace context of ``record`` as an exemplar, None where it has none."""
    for name, content in record.headers:
        if name == "traceparent" and content is not None:
            parts = content.decode("ascii", "replace").split("-")
            if len(parts) == 4:
                return {"trace_id": parts[1], "span_id": parts[2]}
    return None
