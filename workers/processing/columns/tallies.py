"""What is counted about the rows of a batch: the sum of what the reference counts turn by turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress, repeat

from workers.metrics import catalogue as m
from workers.metrics.labels import LevelLabel
from workers.metrics.spec import Tally
from workers.processing.columns.grade import grade_of
from workers.processing.columns.judge import JudgedColumns
from workers.processing.columns.reading import Mask, fields
from workers.processing.policy import Policy

_UNSET = "unset"


def tally(judged: JudgedColumns, counted: Mask, append_ms: Sequence[int]) -> Tally:
    """Return the counts of the ``counted`` rows, of which those that the reference must judge are left out.

    ``append_ms`` holds when the broker appended each row, in milliseconds. Series stand in the order in which the
    reference would have come to them.
    """
    chosen = (counted & judged.kept).tolist()
    producer = fields(judged.table.column("producer"))
    services = list(compress(producer[0].to_pylist(), chosen))
    paths = [path or _UNSET for path in compress(producer[7].to_pylist(), chosen)]
    shapes = list(compress(judged.shapes.tolist(), chosen))
    codes = list(compress(judged.completeness.of_row.tolist(), chosen))
    counts = Tally()
    _count_grades(counts, services, paths, shapes)
    for row, outcome in zip(*judged.digests, strict=True):
        if counted[row] and row not in judged.routes:
            counts.add(m.FIDELITY_DIGEST_CHECKS, outcome)
    times = compress(append_ms, chosen) if judged.policy.waivers else repeat(0, len(codes))
    _count_completeness(counts, judged, zip(services, paths, codes, times, strict=True))
    return counts


def _count_grades(counts: Tally, services: list[str], paths: list[str], shapes: list[int]) -> None:
    judgements = {code: grade_of(code).judgement for code in set(shapes)}
    outcomes = {code: (found.status, found.level or LevelLabel.NONE) for code, found in judgements.items()}
    outcomes_of_rows = map(outcomes.__getitem__, shapes)
    for (outcome, service, path), n in Counter(zip(outcomes_of_rows, services, paths, strict=True)).items():
        counts.add(m.FIDELITY_TURNS, *outcome, service, path, n=n)
    for code, n in Counter(shapes).items():
        for gap in judgements[code].gap_codes:
            counts.add(m.FIDELITY_GAPS, gap, n=n)
    for (code, service), n in Counter(zip(shapes, services, strict=True)).items():
        for finding in judgements[code].finding_codes:
            counts.add(m.FIDELITY_FINDINGS, finding, service, n=n)


def _count_completeness(counts: Tally, judged: JudgedColumns, rows: Iterable[tuple[str, str, int, int]]) -> None:
    """Count ``rows`` of (service, path, code of completeness, append time)."""
    policy: Policy = judged.policy
    for (service, path, code, at), n in Counter(rows).items():
        found = judged.completeness.distinct[code].result
        counts.add(m.FINGERPRINT_TURNS, service, str(found.complete).lower(), n=n)
        for field, gap in found.gaps:
            waived = policy.waiver_book.waived(service, path, field, gap, at)
            counts.add(m.FINGERPRINT_INCOMPLETE, service, path, field, gap, str(waived).lower(), n=n)
        for field in found.missing_tier2:
            counts.add(m.TIER2_MISSING, service, field, n=n)
        if found.unknown_attestations:
            counts.add(m.UNKNOWN_ATTESTATIONS, service, n=found.unknown_attestations * n)
