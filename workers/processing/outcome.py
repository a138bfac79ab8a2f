"""What becomes of a batch: one end per record, the outputs, and what to count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
    is counted if the record keeps this end; ``position`` is the record's place in its batch where columns judged it,
    which count it.
    """

    record: RawRecord
    end: End
    outputs: Sequence[Output] = ()
    rejection: Rejection | None = None
    tally: Tally | None = None
    position: int | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the record was refused for a fault of ours."""
        return self.rejection is not None and CATALOGUE[self.rejection.reason].reason_class is ReasonClass.OURS


@dataclass(slots=True)
class BatchOutcome:
    """The results of a batch in offset order, the rows of state that must follow its outputs, and the time it took.

    ``seconds`` holds wall-clock seconds by stage. ``column_tally`` counts the records, by their positions, that
    columns judged and that keep their end. ``routes`` counts records by the way they took, and why.
    """

    results: list[RecordResult]
    state_rows: list[Output] = field(default_factory=list)
    seconds: dict[Stage, float] = field(default_factory=dict)
    routes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    column_tally: Callable[[AbstractSet[int]], Tally] | None = None


def rejected(record: RawRecord, rejection: Rejection) -> RecordResult:
    """Return the result of a record that goes to the dead letters."""
    return RecordResult(record, End.DLQ, rejection=rejection)
