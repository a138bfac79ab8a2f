"""The end of a state write: it is checked and counted. Pure but for the state of its partition."""

from __future__ import annotations

from typing import Final

from workers.keys import decode_key
from workers.metrics import catalogue as m
from workers.metrics.labels import End
from workers.metrics.spec import Tally
from workers.processing.outcome import RecordResult, rejected
from workers.processing.path_watch import PathWatch
from workers.processing.state_write_kinds import scope_key
from workers.reasons import Reason, Rejection
from workers.records import Output, Partition, RawRecord
from workers.serde.records import Ending
from workers.serde.validation import validate_state_write
from workers.serde.wire_format import Tombstone

EFFECTS_FORMAT: Final = 1
"""Which kinds of writes have an effect, as a number: it is committed beside the offsets of ``state-writes``, so that a
worker in which more kinds have an effect can tell that the log must be read again from its start."""


class StateWriteJudge:
    """Judges the state writes of one partition, in the order of their offsets."""

    def __init__(self, source: Partition, paths: PathWatch) -> None:
        self._source = source
        self._paths = paths

    def judge(self, record: RawRecord, ending: Ending) -> RecordResult:
        """Return the end of ``record`` with its counts; an accepted write has no output but the alert of a new path."""
        if isinstance(ending, Rejection):
            return rejected(record, ending)
        if isinstance(ending, Tombstone):
            return _erase(record)
        write = ending.value
        refusal = validate_state_write(write)
        if refusal is not None:
            return rejected(record, refusal._replace(schema_id=str(ending.writer.ref)))
        tally = Tally()
        if record.key != scope_key(write):
            tally.add(m.KEY_MISMATCH, self._source.topic)
        alerts = self._paths.observe(record, ending, complete=False, tally=tally)
        return RecordResult(record, End.PROCESSED, alerts, tally=tally)

    def state_rows(self) -> list[Output]:
        """Return the rows of the path inventory that are due."""
        return self._paths.rows()


def _erase(record: RawRecord) -> RecordResult:
    """Accept a tombstone whose key names a conversation: what is kept of it is dropped."""
    if record.key is None:
        return rejected(record, Rejection(Reason.MISSING_KEY, "frame"))
    try:
        decode_key(record.key, 2)
    except ValueError:
        return rejected(record, Rejection(Reason.BAD_KEY, "frame"))
    return RecordResult(record, End.TOMBSTONE)
