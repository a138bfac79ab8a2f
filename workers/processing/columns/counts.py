"""The column ``state_counts``: rows with the same pieces together, as one matrix of counts.

Source: docs/policy.md ("Completeness"); the tests of a value stand in `workers.processing.fingerprint`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from workers.processing.columns.reading import Coded, Codes, Longs, Positions, coded, items, numbers, present
from workers.processing.fingerprint import ORDER, FieldState, counts_state
from workers.processing.policy_rules import CompletenessPolicy

STATES: Final = tuple(FieldState)
NULL: Final = len(STATES)
EMPTY: Final = NULL + 1
"""Codes beside the positions of `STATES`: a value that is not there, and counts without any piece."""

_SENTINEL: Final = -1


@dataclass(frozen=True, slots=True)
class Pieces:
    """Rows whose counts have the same pieces: ``names`` sorted, ``counts`` of shape (rows, names)."""

    rows: Positions
    names: tuple[str, ...]
    counts: Longs


def read_counts(column: pa.MapArray) -> list[Pieces]:
    """Take a column of counts apart; rows without any are left out. Of a name that a row has twice the last counts."""
    entries = items(column)
    keys, values = entries.array.flatten()
    names, counts = coded(keys), numbers(values).values
    ends = np.cumsum(np.bincount(entries.owners, minlength=len(column)))
    starts = np.concatenate([np.zeros(1, np.intp), ends[:-1]]) if len(ends) else ends
    there = np.flatnonzero(present(column))
    return [
        _pieces(rows, starts[rows], names.codes[starts[rows[0]] : ends[rows[0]]], names, counts)
        for rows in _alike(there, starts, ends, names.codes)
    ]


def states_of_counts(pieces: Pieces, policy: CompletenessPolicy) -> Codes:
    """Return the code of the state of each row of ``pieces``."""
    if not pieces.names:
        return np.full(len(pieces.rows), EMPTY, np.int8)
    counts = pieces.counts
    facts = (
        (counts == _SENTINEL).any(axis=1)
        + 2 * (counts < _SENTINEL).any(axis=1)
        + 4 * (counts > policy.count_cap).any(axis=1)
    )
    table = np.zeros(8, np.int8)
    for fact in np.unique(facts).tolist():
        table[fact] = ORDER[_state(pieces.names, fact, policy)]
    states: Codes = table[facts]
    return states


@lru_cache(maxsize=1_024)
def _state(names: tuple[str, ...], facts: int, policy: CompletenessPolicy) -> FieldState:
    """Return the state of counts by what is known of them: one is -1, one is less, one is over the cap."""
    odd = [count for bit, count in enumerate((-1, -2, policy.count_cap + 1)) if facts >> bit & 1]
    witness: Mapping[str, int] = dict.fromkeys(names, 0) | dict(zip(names, odd, strict=False))
    return counts_state(witness, policy)


def _alike(rows: Positions, starts: Positions, ends: Positions, names: Positions) -> list[Positions]:
    """Group ``rows`` by their names, in the order in which they stand."""
    if not len(rows):
        return []
    sizes = ends[rows] - starts[rows]
    size = int(sizes[0])
    if (sizes == size).all() and len(names) == size * len(rows):
        matrix = names.reshape(len(rows), size)
        if (matrix == matrix[0]).all():
            return [rows]
    written, width = names.tobytes(), names.itemsize
    groups: dict[bytes, list[int]] = {}
    bounds = zip(rows.tolist(), (starts[rows] * width).tolist(), (ends[rows] * width).tolist(), strict=True)
    for row, start, end in bounds:
        groups.setdefault(written[start:end], []).append(row)
    return [np.array(group, np.intp) for group in groups.values()]


def _pieces(rows: Positions, starts: Positions, order: Positions, names: Coded, counts: Longs) -> Pieces:
    place = {names.values[code] or "": at for at, code in enumerate(order.tolist())}
    sorted_names = tuple(sorted(place))
    at = np.array([place[name] for name in sorted_names], np.intp)
    return Pieces(rows, sorted_names, counts[starts[:, None] + at])
