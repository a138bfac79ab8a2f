"""What becomes of a batch: one end per record, the outputs, and what to count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from workers.metrics.labels import End as End
from workers.metrics.labels import Stage
from workers.metrics.spec import Tally
from workers.reasons import CATALOGUE, ReasonClass, Rejection
from workers.records import Output, RawRecord


@dataclass(slots=True)
class RecordResult:
    """The end of one record.

    ``outputs`` leave in order; a rejected record has none, the letter is made from ``rejection``. ``tally`` holds what
    is counted if the record keeps this end; ``row`` is the record's row where the batch was judged by columns, which
    count it.
    """

    record: RawRecord
    end: End
    outputs: Sequence[Output] = ()
    rejection: Rejection | None = None
    tally: Tally | None = None
    row: int | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the record was refused for a fault of ours."""
        return self.rejection is not None and CATALOGUE[self.rejection.reason].reason_class is ReasonClass.OURS


@dataclass(slots=True)
class BatchOutcome:
    """The results of a batch in offset order, the rows of state that must follow its outputs, and the time it took.

    ``seconds`` holds wall-clock seconds by stage. ``column_tally`` counts the rows, of those judged by columns, that
    keep their end.
    """

    results: list[RecordResult]
    state_rows: list[Output] = field(default_factory=list)
    seconds: dict[Stage, float] = field(default_factory=dict)
    column_tally: Callable[[Sequence[int]], Tally] | None = None


def rejected(record: RawRecord, rejection: Rejection) -> RecordResult:
    """Return the result of a record that goes to the dead letters."""
    return RecordResult(record, End.DLQ, rejection=rejection)
