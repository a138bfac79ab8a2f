"""Judgement of a batch of turns by columns: the same answers as the reference, or the row goes to it.

Source: docs/concepts/replay-fidelity.md, docs/policy.md. The rules stand in `workers.processing.fidelity` and
`workers.processing.fingerprint`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from workers.processing.columns.completeness import (
    Completenesses,
    CompletenessJudge,
    Fingerprints,
    read_fingerprints,
)
from workers.processing.columns.findings import DigestChecks, another_model, check_digests, contradictory
from workers.processing.columns.grade import MODEL_MISMATCH, NO_MANIFEST, Grade, grade_of
from workers.processing.columns.manifests import read_manifests
from workers.processing.columns.named import Named, named_grade, read_named
from workers.processing.columns.producers import Producers, read_producers
from workers.processing.columns.reading import Coded, Mask, Positions, coded, groups
from workers.processing.columns.routes import RouteReason
from workers.processing.columns.shape import Shapes, shape
from workers.processing.columns.valid import valid
from workers.processing.fingerprint import FieldState
from workers.processing.policy import Policy
from workers.serde.columns.layout import layout


class Grades(NamedTuple):
    """The grade of each row: ``of_row`` is a position in ``distinct``; ``tails`` are of rows that have their own."""

    of_row: Positions
    distinct: list[Grade]
    tails: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class JudgedColumns:
    """What is judged of each row of ``table``.

    ``routes`` holds the rows that the reference must judge, and why; of all others ``shapes`` holds the code
    and ``grades`` the grade. ``policy`` is the one that they were judged by.
    """

    table: pa.RecordBatch
    policy: Policy
    routes: dict[int, RouteReason]
    shapes: Shapes
    grades: Grades
    completeness: Completenesses
    tenants: Coded
    producers: Producers
    fingerprints: Fingerprints
    digests: DigestChecks

    @property
    def kept(self) -> Mask:
        """The rows that are judged here."""
        kept = np.ones(self.table.num_rows, np.bool_)
        kept[list(self.routes)] = False
        return kept

    @property
    def complete(self) -> Mask:
        """The rows whose fingerprint is complete."""
        return self.completeness.where(lambda found: found.complete)


def judge_columns(
    table: pa.RecordBatch, odd_manifest: Mask, presence: frozenset[str], policy: Policy, judge: CompletenessJudge
) -> JudgedColumns:
    """Judge the turns of ``table``, all written with one schema, of which ``presence`` tells what it supplies.

    ``odd_manifest`` holds where a manifest has a value in a field that is not ours. Never raises on any values.

    Raises:
        ValueError: the table has another schema than `layout`.
    """
    if not table.schema.equals(layout()):
        raise ValueError("the table is not laid out as workers.serde.columns.layout says; decode it with that")
    fingerprints = read_fingerprints(table.column("fingerprint"))
    tenants = coded(table.column("tenant"))
    producers = read_producers(table.column("producer"))
    completeness = judge.judge(table, fingerprints, tenants, presence, policy)
    manifests = read_manifests(table.column("manifest"))
    sound = valid(manifests) & ~odd_manifest
    digests = check_digests(manifests, sound)
    shapes = np.where(sound, shape(manifests), NO_MANIFEST)
    known = completeness.where(lambda found: found.states["model_id"] is FieldState.PRESENT)
    mismatch = another_model(manifests, fingerprints.model_ids, sound & known)
    shapes[mismatch] |= MODEL_MISMATCH
    findings = sound & contradictory(manifests, digests)
    routes: dict[int, RouteReason] = {}
    for reason, chosen in (
        (RouteReason.FINDINGS, findings),
        (RouteReason.INVALID, manifests.present & ~sound),
        (RouteReason.UNKNOWN_FIELD, manifests.present & odd_manifest),
    ):
        routes.update(dict.fromkeys(np.flatnonzero(chosen).tolist(), reason))
    named = _grade_named(read_named(manifests, sound & ~findings), shapes)
    routes.update((row, RouteReason.DYNAMIC) for row, judged in named.items() if judged is None)
    shapes[list(routes)] = NO_MANIFEST
    grades = _grades(shapes, {row: judged for row, judged in named.items() if judged is not None})
    return JudgedColumns(table, policy, routes, shapes, grades, completeness, tenants, producers, fingerprints, digests)


def _grade_named(rows: list[Named], shapes: Shapes) -> dict[int, tuple[Grade, bytes] | None]:
    """Return the grade and the tail of each row with gaps that bear names; None where the reference must judge it."""
    found: dict[int, tuple[Grade, bytes] | None] = {}
    for row, pattern, names in rows:
        judged = named_grade(int(shapes[row]), pattern)
        tail = None if judged is None else judged.tail(names)
        found[row] = None if judged is None or tail is None else (judged.grade, tail)
    return found


def _grades(shapes: Shapes, named: dict[int, tuple[Grade, bytes]]) -> Grades:
    of_row, first = groups(shapes)
    distinct = [grade_of(code) for code in shapes[first].tolist()]
    places = {id(grade): place for place, grade in enumerate(distinct)}
    for row, (grade, _) in named.items():
        of_row[row] = places.setdefault(id(grade), len(distinct))
        if of_row[row] == len(distinct):
            distinct.append(grade)
    return Grades(of_row, distinct, {row: tail for row, (_, tail) in named.items()})
