"""Turns of a batch from columns to results: what is pure is prepared by columns, the rest settled row by row, in order.

The rows that columns do not judge are judged by the reference, each in its place between the others, on one state.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from workers.keys import encode_key
from workers.metrics import catalogue as m
from workers.metrics.labels import End
from workers.metrics.spec import Tally
from workers.processing.columns.completeness import CompletenessJudge
from workers.processing.columns.judge import JudgedColumns, judge_columns
from workers.processing.columns.partitions import partitions_of
from workers.processing.columns.pieces import text_bytes
from workers.processing.columns.reading import Mask, alike
from workers.processing.columns.routes import RouteReason
from workers.processing.columns.tallies import tally
from workers.processing.columns.verdicts import encode_verdicts, event_times
from workers.processing.duplicates import Arrival
from workers.processing.lineage import output_headers, source_header
from workers.processing.outcome import RecordResult
from workers.processing.path_watch import PathWatch
from workers.processing.paths import DAY_MS, PathKey, path_key
from workers.processing.policy import Policy
from workers.processing.time import append_time
from workers.processing.turn_state import TurnOutputs, TurnState
from workers.records import Output, RawRecord
from workers.serde.admission import WriterSchema

_ESCAPED: Final = (b"%", b"|")


class Paths(NamedTuple):
    """The distinct producing paths of a batch, which of them each row has, and up to which offset each is counted."""

    keys: list[PathKey]
    of_row: list[int]
    counted_up_to: list[int | None]


@dataclass(frozen=True, slots=True)
class PreparedTurns:
    """Rows judged by columns, with all that does not depend on other records.

    ``positions`` holds the place of each row in its batch of records; ``verdicts`` is None, and ``routes`` has the
    reason, where the reference must judge. Conversation keys, turn keys and paths are those of the reference.
    """

    judged: JudgedColumns
    positions: Sequence[int]
    verdicts: Sequence[bytes | None]
    conversation_keys: Sequence[bytes]
    turn_keys: Sequence[bytes]
    partitions: Sequence[int]
    paths: Paths
    complete: Sequence[bool]
    clamped: frozenset[int]
    append_ms: Sequence[int]
    settled: list[int]
    """The rows that were settled as processed, and whose paths were seen before: they are counted together."""

    @property
    def routes(self) -> dict[int, RouteReason]:
        """Why the reference must judge a row, by row."""
        return self.judged.routes

    def tally(self, positions: AbstractSet[int]) -> Tally:
        """Return the counts of the rows whose record, at one of ``positions``, was processed."""
        counted = np.fromiter((position in positions for position in self.positions), np.bool_, len(self.positions))
        return tally(self.judged, counted, self.append_ms)


def prepare(
    records: Sequence[RawRecord],
    positions: Sequence[int],
    table: pa.RecordBatch,
    odd_manifest: Mask,
    writer: WriterSchema,
    policy: Policy,
    judge: CompletenessJudge,
    outputs: TurnOutputs,
    schema_id: int,
    paths: PathWatch,
) -> PreparedTurns:
    """Judge the decoded rows of ``table``, whose raw records stand at ``positions`` of ``records``.

    ``schema_id`` is the one that verdicts are framed with; ``paths`` tells what is counted already.
    """
    judged = judge_columns(table, odd_manifest, writer.presence, policy, judge)
    conversations, turns = _keys(table)
    append_ms = [_append_ms(records[position]) for position in positions]
    late = event_times(table)[0] - policy.skew_ms > np.array(append_ms, np.int64)
    return PreparedTurns(
        judged=judged,
        positions=positions,
        verdicts=encode_verdicts(judged, schema_id),
        conversation_keys=conversations,
        turn_keys=turns,
        partitions=partitions_of(conversations, outputs.fidelity_partitions) if conversations else [],
        paths=_paths(judged, str(writer.ref), paths),
        complete=judged.complete.tolist(),
        clamped=frozenset(np.flatnonzero(late).tolist()),
        append_ms=append_ms,
        settled=[],
    )


def settle(
    prepared: PreparedTurns, state: TurnState, row: int, position: int, record: RawRecord, payload: bytes, value: bytes
) -> RecordResult:
    """Apply one judged turn to the state of its partition, as the reference does.

    ``row`` is its row in ``prepared``, ``position`` its place in the batch, ``value`` its verdict.
    """
    turn_key, conversation_key = prepared.turn_keys[row], prepared.conversation_keys[row]
    offset = record.offset
    counts: Tally | None = None
    arrival = state.window.check(turn_key, payload, offset)
    if arrival.is_repeat:
        if arrival is Arrival.CONFLICTING:
            counts = Tally()
            counts.add(m.RECORDS_CONFLICTING, state.source.topic)
        return RecordResult(record, End.DUPLICATE, tally=counts)
    state.known.add(conversation_key, turn_key)
    group = prepared.paths.of_row[row]
    service = prepared.paths.keys[group].service
    state.conversations.add(service, conversation_key, prepared.complete[row], record.timestamp)
    headers = output_headers(state.source, record) if record.headers else (source_header(state.source, offset),)
    verdict = Output(
        state.outputs.fidelity,
        turn_key,
        value,
        max(record.timestamp, 0),
        headers,
        prepared.partitions[row],
        offset,
    )
    outputs: tuple[Output, ...] = (verdict,)
    if prepared.paths.counted_up_to[group] is None:
        first = state.paths.observe_key(record, prepared.paths.keys[group], prepared.complete[row])
        if first is not None:
            alerts, counts = first
            outputs = (verdict, *alerts)
    else:
        prepared.settled.append(row)
    if record.key != conversation_key or row in prepared.clamped:
        counts = counts or Tally()
        if record.key != conversation_key:
            counts.add(m.KEY_MISMATCH, state.source.topic)
        if row in prepared.clamped:
            counts.add(m.CLAMPED, state.source.topic)
    return RecordResult(record, End.PROCESSED, outputs, None, counts, position)


def count_paths(prepared: PreparedTurns, records: Sequence[RawRecord], paths: PathWatch) -> None:
    """Count the settled rows for paths that were seen before this batch, each path and day in one go."""
    rows = np.array(prepared.settled, np.intp)
    prepared.settled.clear()
    if not len(rows):
        return
    found = np.array(prepared.paths.of_row, np.intp)[rows]
    settled = [records[prepared.positions[row]] for row in rows.tolist()]
    append = np.array([record.timestamp for record in settled], np.int64)
    offsets = np.array([record.offset for record in settled], np.int64)
    floors = np.array([-1 if floor is None else floor for floor in prepared.paths.counted_up_to], np.int64)
    complete = np.array(prepared.complete, np.bool_)[rows]
    fresh = offsets > floors[found]
    days = append // DAY_MS
    for group in np.unique(found).tolist():
        for day in np.unique(days[(found == group) & fresh]).tolist():
            chosen = (found == group) & fresh & (days == day)
            paths.observe_many(
                prepared.paths.keys[group],
                int(offsets[chosen].max()),
                int(append[chosen].max()),
                day,
                int(chosen.sum()),
                int(complete[chosen].sum()),
            )


def _append_ms(record: RawRecord) -> int:
    return append_time(record) if record.headers else record.timestamp


def _keys(table: pa.RecordBatch) -> tuple[list[bytes], list[bytes]]:
    """Return the keys of conversation and turn of each row."""
    columns = [table.column(name) for name in ("tenant", "conversation_id", "turn_id")]
    if any(mark in _bytes_of(column) for column in columns for mark in _ESCAPED):
        texts = list(zip(*(column.to_pylist() for column in columns), strict=True))
        return [encode_key(*ids[:2]) for ids in texts], [encode_key(*ids) for ids in texts]
    tenants, conversations, turns = map(text_bytes, columns)
    keys = list(map(b"|".join, zip(tenants, conversations, strict=True)))
    return keys, list(map(b"|".join, zip(keys, turns, strict=True)))


def _bytes_of(column: pa.StringArray) -> bytes:
    """Return the bytes of all values of ``column``, and perhaps of others in the same buffer."""
    data = column.buffers()[2]
    return b"" if data is None else data.to_pybytes()


def _paths(judged: JudgedColumns, schema_id: str, watch: PathWatch) -> Paths:
    """Return the producing path of each row."""
    service, _, build, _, sdk, version, path = judged.producers
    columns = (judged.tenants, service, build, sdk, version, path)
    found = alike(*columns)
    distinct = zip(*(column.at(found.first) for column in columns), strict=True)
    keys = [
        path_key("turns", tenant or "", name or "", build_id, kit, kit_version, way, schema_id)
        for tenant, name, build_id, kit, kit_version, way in distinct
    ]
    return Paths(keys, found.of_row.tolist(), [watch.counted_up_to(key) for key in keys])
