"""Gaps that bear a name of the producer's, of a tool or a call: graded by their pattern, with the names put in.

The reference judges one witness of each shape and pattern, under placeholders, and its answer serves all rows that
share both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from workers.processing.columns import specimens
from workers.processing.columns.grade import Grade, judge_witness, swept
from workers.processing.columns.manifests import Manifests
from workers.processing.columns.pieces import encode_piece, repeated_integer, text, text_bytes
from workers.processing.columns.reading import Mask
from workers.processing.columns.witness import Bearer, Kind, placeholder
from workers.processing.fidelity.verdict import MAX_FIELD_CHARACTERS

MAX_BEARERS: Final = 64
"""More of them are seldom, and seldom in the same pattern twice."""

_MAX_PATTERNS: Final = 1_024
_FORMS: Final = (len(Kind), len(specimens.CAPTURES), len(specimens.PROVENANCES))


class Named(NamedTuple):
    """A row with gaps that bear names.

    ``pattern`` has one byte for each artifact that has such a gap, in the order of the sweep: kind, capture and
    provenance. ``names`` are the names that their gaps bear.
    """

    row: int
    pattern: bytes
    names: list[bytes]


class _Place(NamedTuple):
    """Where a name goes: what stands before the field, and around the name in it."""

    before: bytes
    start: bytes
    end: bytes


@dataclass(frozen=True, slots=True)
class NamedGrade:
    """What is judged of all rows of one code and pattern; the tail of each row has its own names."""

    grade: Grade
    places: tuple[_Place, ...]

    def tail(self, names: Sequence[bytes]) -> bytes | None:
        """Return the tail of a row with these ``names``; None where the reference would cut a field."""
        pieces: list[bytes] = []
        for (before, start, end), name in zip(self.places, names, strict=True):
            size = len(start) + len(name) + len(end)
            if size > MAX_FIELD_CHARACTERS and len((start + name + end).decode()) > MAX_FIELD_CHARACTERS:
                return None
            pieces += (before, repeated_integer(size), start, name, end)
        return b"".join((*pieces, self.grade.tail))


def read_named(manifests: Manifests, chosen: Mask) -> list[Named]:
    """Return the ``chosen`` rows, all of them valid, that have gaps which bear names."""
    stack, tools = manifests.artifacts, manifests.tools
    named = slice(stack.definitions.start, stack.outputs.stop)
    captures, provenances, owners = stack.captures[named], stack.provenances[named], stack.owners[named]
    # Of an unknown code nothing is asked: the last entry of the table is what -1 takes.
    at = np.flatnonzero(swept()[captures, provenances] & chosen[owners])
    if not len(at):
        return []
    # One after the other in the stack: all definitions, all inputs, all outputs.
    starts = np.array([place.start for place in (stack.definitions, stack.inputs, stack.outputs)]) - named.start
    kinds = np.searchsorted(starts, at, side="right") - 1
    items = at - starts[kinds]
    # Sorting is stable: an input stays before the output of the same call.
    visited = np.where(kinds == Kind.DEFINITION, items, items + starts[Kind.INPUT])
    order = np.lexsort((visited, owners[at]))
    rows = owners[at][order]
    forms = np.ravel_multi_index((kinds, captures[at], provenances[at]), _FORMS).astype(np.uint8)[order].tobytes()
    defined = int(np.searchsorted(at, starts[Kind.INPUT]))
    names = [
        *text_bytes(tools.definition_names.take(items[:defined])),
        *text_bytes(tools.call_ids.take(items[defined:])),
    ]
    ordered = [names[place] for place in order.tolist()]
    bounds = [0, *(np.flatnonzero(np.diff(rows)) + 1).tolist(), len(rows)]
    return [
        Named(row, forms[begin:end], ordered[begin:end])
        for row, begin, end in zip(rows[bounds[:-1]].tolist(), bounds, bounds[1:], strict=False)
    ]


def named_grade(code: int, pattern: bytes) -> NamedGrade | None:
    """Return the grade of a shape and a pattern; None where the reference must judge each row.

    Raises:
        ValueError: the reference does not find each artifact of the pattern once, in its order.
    """
    return _named_grade(code, pattern) if len(pattern) <= MAX_BEARERS else None


@lru_cache(maxsize=_MAX_PATTERNS)
def _named_grade(code: int, pattern: bytes) -> NamedGrade | None:
    forms = zip(*np.unravel_index(np.frombuffer(pattern, np.uint8).astype(np.intp), _FORMS), strict=True)
    judgement = judge_witness(code, [Bearer(Kind(kind), capture, provenance) for kind, capture, provenance in forms])
    fields = [gap["field"] for gap in judgement.fields["missing_evidence"]]
    places: list[_Place] = []
    rest = encode_piece(judgement.fields, "missing_evidence", "finding_total")
    for place in range(len(pattern)):
        [field] = [field for field in fields if placeholder(place) in field]
        before, rest = rest.split(text(field), 1)
        start, end = field.encode().split(placeholder(place).encode())
        places.append(_Place(before, start, end))
    head = encode_piece(judgement.fields, "status", "deterministic")
    return NamedGrade(Grade(replace(judgement, fields={}), head, rest), tuple(places))
