"""What is counted about the rows of a batch: the sum of what the reference counts turn by turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from workers.metrics import catalogue as m
from workers.metrics.labels import LevelLabel
from workers.metrics.spec import Tally
from workers.processing.columns.judge import JudgedColumns
from workers.processing.columns.reading import Mask, Positions, groups

_UNSET: Final = "unset"


class _Place(NamedTuple):
    """A service and one of its paths, as labels show them."""

    service: str
    path: str


class _Rows(NamedTuple):
    """The counted rows of a batch: what was judged, where they stand, and the place of each among ``places``."""

    judged: JudgedColumns
    chosen: Positions
    place_of_row: Positions
    places: list[_Place]


def tally(judged: JudgedColumns, counted: Mask, append_ms: Sequence[int]) -> Tally:
    """Return the counts of the ``counted`` rows, of which those that the reference must judge are left out.

    ``append_ms`` holds when the broker appended each row, in milliseconds.
    """
    counts = Tally()
    rows = _rows(judged, np.flatnonzero(counted & judged.kept))
    _count_grades(counts, rows)
    for row, outcome in zip(*judged.digests, strict=True):
        if counted[row] and row not in judged.routes:
            counts.add(m.FIDELITY_DIGEST_CHECKS, outcome)
    _count_completeness(counts, rows, append_ms)
    return counts


def _rows(judged: JudgedColumns, chosen: Positions) -> _Rows:
    services, paths = judged.producers.service, judged.producers.path
    found = groups((services.codes * len(paths.values) + paths.codes)[chosen])
    places = [
        _Place(service or "", path or _UNSET)
        for service, path in zip(services.at(chosen[found.first]), paths.at(chosen[found.first]), strict=True)
    ]
    return _Rows(judged, chosen, found.of_row, places)


def _count_grades(counts: Tally, rows: _Rows) -> None:
    judgements = [grade.judgement for grade in rows.judged.grades.distinct]
    of_row = rows.judged.grades.of_row[rows.chosen]
    outcomes: dict[tuple[str, str], int] = {}
    outcome_of = [
        outcomes.setdefault((judged.status, judged.level or LevelLabel.NONE), len(outcomes)) for judged in judgements
    ]
    labels = list(outcomes)
    for place, outcome, n in _pairs(rows, np.array(outcome_of, np.intp)[of_row], len(outcomes)):
        counts.add(m.FIDELITY_TURNS, *labels[outcome], *place, n=n)
    for judgement, n in zip(judgements, np.bincount(of_row, minlength=len(judgements)).tolist(), strict=True):
        for gap in judgement.gap_codes if n else ():
            counts.add(m.FIDELITY_GAPS, gap, n=n)
    if any(judgement.finding_codes for judgement in judgements):
        for place, shape, n in _pairs(rows, of_row, len(judgements)):
            for finding in judgements[shape].finding_codes:
                counts.add(m.FIDELITY_FINDINGS, finding, place.service, n=n)


def _count_completeness(counts: Tally, rows: _Rows, append_ms: Sequence[int]) -> None:
    completeness = rows.judged.completeness
    # Only a waiver depends on when a turn came.
    times = groups(np.array(append_ms, np.int64)[rows.chosen] if rows.judged.policy.waivers else 0 * rows.chosen)
    codes = completeness.of_row[rows.chosen] * len(times.first) + times.of_row
    for place, code, n in _pairs(rows, codes, len(completeness.distinct) * len(times.first)):
        found = completeness.distinct[code // len(times.first)].result
        at = append_ms[rows.chosen[times.first[code % len(times.first)]]]
        counts.add(m.FINGERPRINT_TURNS, place.service, str(found.complete).lower(), n=n)
        for field, gap in found.gaps:
            waived = rows.judged.policy.waiver_book.waived(*place, field, gap, at)
            counts.add(m.FINGERPRINT_INCOMPLETE, *place, field, gap, str(waived).lower(), n=n)
        for field in found.missing_tier2:
            counts.add(m.TIER2_MISSING, place.service, field, n=n)
        if found.unknown_attestations:
            counts.add(m.UNKNOWN_ATTESTATIONS, place.service, n=found.unknown_attestations * n)


def _pairs(rows: _Rows, codes: Positions, size: int) -> Iterator[tuple[_Place, int, int]]:
    """Yield each place with each code below ``size`` that occurs at it, and how often."""
    of_row, first = groups(rows.place_of_row * size + codes)
    numbers = np.bincount(of_row, minlength=len(first)).tolist()
    for place, code, n in zip(rows.place_of_row[first].tolist(), codes[first].tolist(), numbers, strict=True):
        yield rows.places[place], code, n
