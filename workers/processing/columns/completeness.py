"""Completeness by columns: what it depends on in one code per row, and the reference's answer once per code.

Source: docs/policy.md ("Completeness"); the table of states stands in `workers.processing.fingerprint`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from workers.processing.columns.counts import NULL, Pieces, read_counts, states_of_counts
from workers.processing.columns.pieces import encode_piece
from workers.processing.columns.reading import (
    Coded,
    Longs,
    Mask,
    Numbers,
    Positions,
    coded,
    fields,
    flags,
    groups,
    items,
    numbers,
    present,
)
from workers.processing.fingerprint import (
    ORDER,
    PARTS,
    TEXT_FIELDS,
    Completeness,
    completeness,
    depth_state,
    text_state,
)
from workers.processing.policy import Policy
from workers.processing.policy_rules import CompletenessPolicy

_STATE_BITS: Final = 4
_MAX_REMEMBERED: Final = 4_096


class Fingerprints(NamedTuple):
    """The column of fingerprints taken apart; ``texts`` are in the order of `TEXT_FIELDS`."""

    column: pa.StructArray
    present: Mask
    texts: tuple[Coded, ...]
    fallback: Mask
    fallback_there: Mask
    depth: Numbers
    counts: list[Pieces]
    attested: pa.ListArray
    position: Numbers

    @property
    def model_ids(self) -> Coded:
        """The models that answered."""
        return self.texts[TEXT_FIELDS.index("model_id")]


class CompletenessOf(NamedTuple):
    """The completeness of one code, and its bytes in a verdict."""

    result: Completeness
    piece: bytes


@dataclass(frozen=True, slots=True)
class Completenesses:
    """The completeness of each row: ``of_row`` is a position in ``distinct``."""

    of_row: Positions
    distinct: list[CompletenessOf]

    def where(self, test: Callable[[Completeness], bool]) -> Mask:
        """Return the rows whose completeness passes ``test``."""
        return np.array([test(found.result) for found in self.distinct], np.bool_)[self.of_row]


def read_fingerprints(column: pa.StructArray) -> Fingerprints:
    """Take the column ``fingerprint`` of the projected table apart."""
    definition, version, fallback, shape, depth, counts, model, moderation, attested, position, _ = fields(column)
    return Fingerprints(
        column=column,
        present=present(column),
        texts=tuple(coded(text) for text in (definition, version, shape, model, moderation)),
        fallback=flags(fallback),
        fallback_there=present(fallback),
        depth=numbers(depth),
        counts=read_counts(counts),
        attested=attested,
        position=numbers(position),
    )


class CompletenessJudge:
    """Judges batches; remembers the answers of the reference by code, writer's schema and policy."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, frozenset[str], CompletenessPolicy], CompletenessOf] = {}

    def judge(
        self,
        table: pa.RecordBatch,
        fingerprints: Fingerprints,
        tenants: Coded,
        presence: frozenset[str],
        policy: Policy,
    ) -> Completenesses:
        """Return the completeness of every row; ``presence`` is that of the writer's schema of all of them."""
        rules = _rules(fingerprints, tenants, policy)
        facts = _facts(table, fingerprints, rules)
        of_row, first = groups(facts)
        if len(rules.policies) > 1:
            of_row, first = groups(of_row * len(rules.policies) + rules.of_row)
        distinct = [
            self._of(int(facts[row]), presence, rules.policies[rules.of_row[row]], table, row) for row in first.tolist()
        ]
        return Completenesses(of_row, distinct)

    def _of(
        self, facts: int, presence: frozenset[str], policy: CompletenessPolicy, table: pa.RecordBatch, row: int
    ) -> CompletenessOf:
        """Return the completeness of ``row``, which is that of all rows with its facts."""
        known = self._known.get((facts, presence, policy))
        if known is None:
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            known = self._known[facts, presence, policy] = _ask_reference(table, row, presence, policy)
        return known


class _Rules(NamedTuple):
    """The rules that a batch is judged by, and which of them holds for each row."""

    policies: list[CompletenessPolicy]
    of_row: Positions

    def codes(self, column: Positions, size: int, states: Callable[[int, CompletenessPolicy], int]) -> Longs:
        """Return ``states(code, policy)`` of each row, asked once for each of ``size`` codes under each policy."""
        if len(self.policies) == 1:
            return np.array([states(code, self.policies[0]) for code in range(size)], np.int64)[column]
        # Many policies and many values seldom meet all of each other.
        of_row, first = groups(column * len(self.policies) + self.of_row)
        found = [states(int(column[row]), self.policies[self.of_row[row]]) for row in first.tolist()]
        return np.array(found, np.int64)[of_row]


def _rules(fingerprints: Fingerprints, tenants: Coded, policy: Policy) -> _Rules:
    definitions = fingerprints.texts[0]
    if not policy.overrides:
        return _Rules([policy.completeness_for("", None)], np.zeros(len(tenants.codes), np.intp))
    of_row, first = groups(tenants.codes * len(definitions.values) + definitions.codes)
    found: dict[CompletenessPolicy, int] = {}
    places = [
        found.setdefault(
            policy.completeness_for(
                tenants.values[tenants.codes[row]] or "", definitions.values[definitions.codes[row]]
            ),
            len(found),
        )
        for row in first.tolist()
    ]
    return _Rules(list(found), np.array(places, np.intp)[of_row])


def _facts(table: pa.RecordBatch, fingerprints: Fingerprints, rules: _Rules) -> Longs:
    """Return the facts that completeness depends on, in 63 bits, whatever they mean together."""
    states = [
        *(_text_states(text, name, rules) for text, name in zip(fingerprints.texts, TEXT_FIELDS, strict=True)),
        _depth_states(fingerprints.depth, rules),
        _counts_states(fingerprints.counts, rules),
    ]
    marks = (fingerprints.fallback, *_tier2(table, fingerprints))
    code, shift = np.zeros(table.num_rows, np.int64), 0
    for columns, bits in ((states, _STATE_BITS), (marks, 1), (_attestations(fingerprints.attested), len(PARTS))):
        for column in columns:
            code |= column.astype(np.int64) << shift
            shift += bits
    return code


def _text_states(column: Coded, name: str, rules: _Rules) -> Longs:
    def state(code: int, policy: CompletenessPolicy) -> int:
        value = column.values[code]
        return NULL if value is None else ORDER[text_state(value, name, policy)]

    return rules.codes(column.codes, len(column.values), state)


def _depth_states(depth: Numbers, rules: _Rules) -> Longs:
    codes, first = groups(depth.values)
    distinct = depth.values[first].tolist()
    states = rules.codes(codes, len(distinct), lambda code, policy: ORDER[depth_state(distinct[code], policy)])
    return np.where(depth.present, states, NULL)


def _counts_states(counts: list[Pieces], rules: _Rules) -> Longs:
    states = np.full(len(rules.of_row), NULL, np.int64)
    for pieces in counts:
        if len(rules.policies) == 1:
            states[pieces.rows] = states_of_counts(pieces, rules.policies[0])
            continue
        for rule, policy in enumerate(rules.policies):
            chosen = rules.of_row[pieces.rows] == rule
            if chosen.any():
                states[pieces.rows[chosen]] = states_of_counts(pieces, policy)[chosen]
    return states


def _tier2(table: pa.RecordBatch, fingerprints: Fingerprints) -> list[Mask]:
    _, region, build, instance, _, _, _, path = fields(table.column("producer"))
    columns = (table.column("assembled_at"), instance, build, region, path, table.column("turn_index"))
    return [*(present(column) for column in columns), fingerprints.position.present]


def _attestations(attested: pa.ListArray) -> tuple[Longs, Longs]:
    """Return which parts a turn says do not apply, one bit for each, and how many other names it gives."""
    parts, unknown = np.zeros(len(attested), np.int64), np.zeros(len(attested), np.int64)
    names, owners = items(attested)
    if len(owners):
        codes, values = coded(names)
        bits = np.array([1 << PARTS.index(name) if name in PARTS else 0 for name in values], np.int64)[codes]
        np.bitwise_or.at(parts, owners, bits)
        np.add.at(unknown, owners[bits == 0], 1)
    return parts, unknown


def _ask_reference(
    table: pa.RecordBatch, row: int, presence: frozenset[str], policy: CompletenessPolicy
) -> CompletenessOf:
    fingerprint = table.column("fingerprint")[row].as_py()
    if fingerprint is not None and fingerprint["state_counts"] is not None:
        fingerprint["state_counts"] = dict(fingerprint["state_counts"])
    turn: dict[str, Any] = {
        name: table.column(name)[row].as_py() for name in ("assembled_at", "turn_index", "producer")
    }
    result = completeness(fingerprint, turn, presence, policy)
    record = {"complete": result.complete, "completeness": result.states, "missing_tier2": result.missing_tier2}
    return CompletenessOf(result, encode_piece(record, "complete", "missing_tier2"))
