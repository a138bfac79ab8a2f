"""Columns give the same bytes and the same counts as the reference for every turn, or leave it to the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from column_tables import turn
from column_turns import Turns
from columns_reference import APPEND_MS, Batch, Counts, Paths, writer
from fidelity_manifests import manifests, parsed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workers.metrics import catalogue as m
from workers.processing.columns.routes import RouteReason
from workers.processing.columns.tallies import tally
from workers.processing.fidelity import to_avro
from workers.processing.fidelity.catalogue import Kind, codes_of
from workers.processing.policy import Policy

ROUTES: Final = {RouteReason.INVALID, RouteReason.UNKNOWN_FIELD, RouteReason.DYNAMIC, RouteReason.FINDINGS}
"""The reasons that judging has; the others are the decoder's."""

DAY_MS: Final = 86_400_000
TODAY: Final = datetime.fromtimestamp(APPEND_MS / 1000, UTC).date()
STRICT: Final = {
    "patterns": {"model_id": "[a-z]+", "definition_version": "v1|v2.*"},
    "required_pieces": ["facts"],
    "caps": {"count": 8_191, "depth": 3},
    "overrides": [
        {"tenant": "acme", "sentinels": ["model"], "caps": {"count": 63}},
        {"definition": "v2*", "aliases": ["v1"], "required_pieces": []},
        {"tenant": "b.*", "definition": "v1", "caps": {"depth": 1_000}},
    ],
    "waivers": [
        {
            "service": "chat",
            "field": "model_id",
            "owner": "o",
            "ticket": "t",
            "expires": TODAY + timedelta(days=days),
        }
        for days in (-1, 3)
    ],
}


def policy_of(data: dict[str, Any]) -> Policy:
    return Policy.from_data(data, "test", TODAY)


def cut(rng: Random, turns: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Shuffle turns and cut them into batches of 1 to 50."""
    left = list(turns)
    rng.shuffle(left)
    while left:
        size = rng.randint(1, 50)
        yield left[:size]
        left = left[size:]


def check(paths: Paths, turns: Sequence[dict[str, Any]], presence: frozenset[str] | None = None) -> Batch:
    """Judge a batch both ways and compare bytes and counts; turns must be distinct objects."""
    before = len(turns) // 3 if len(turns) % 2 else 0
    batch = paths.columns(turns, presence, before)
    kept = turns[before:]
    times = [APPEND_MS + row % 3 * 4 * DAY_MS for row in range(len(kept))]
    answers = [paths.reference(entry, presence, time) for entry, time in zip(kept, times, strict=True)]
    assert len(batch.verdicts) == len(kept)
    for answer, verdict in zip(answers, batch.verdicts, strict=True):
        assert verdict in (None, answer.verdict)
    assert {row for row, verdict in enumerate(batch.verdicts) if verdict is None} == set(batch.judged.routes)
    counted = np.arange(len(kept)) % 5 != 4
    expected: Counts = Counter()
    for row, answer in enumerate(answers):
        if counted[row] and row not in batch.judged.routes:
            expected.update(answer.counts)
    assert tally(batch.judged, counted, times).counts == expected
    return batch


@pytest.mark.parametrize("data", [{}, STRICT], ids=["default policy", "policy with overrides"])
def test_every_batch_of_random_turns_is_judged_as_the_reference_does(data: dict[str, Any]) -> None:
    source, paths = Turns(seed=7), Paths(policy_of(data))
    gaps: Counter[str] = Counter()
    routes: Counter[RouteReason] = Counter()
    named = 0
    for batch_of_turns in cut(source.rng, [source.draw() for _ in range(1_500)]):
        batch = check(paths, batch_of_turns)
        routes.update(batch.judged.routes.values())
        named += len(batch.judged.grades.tails)
        everything = tally(batch.judged, batch.judged.kept, [APPEND_MS] * len(batch.verdicts)).counts
        for (metric, labels), n in everything.items():
            if metric is m.FIDELITY_GAPS:
                gaps[labels[0]] += n
    assert set(routes) == ROUTES
    assert named >= 100
    assert min(gaps[code] for code in codes_of(Kind.GAP)) >= 50, gaps


def test_what_a_writers_schema_lacks_is_absent_on_both_paths() -> None:
    source, paths = Turns(seed=3), Paths()
    for lacking in (
        {"fingerprint"},
        {"fingerprint.model_id", "turn_index"},
        {"fingerprint.not_applicable", "producer.region"},
    ):
        presence = frozenset(path for path in writer().presence if not any(path.startswith(name) for name in lacking))
        turns = [_without(source.draw(), lacking) for _ in range(60)]
        check(paths, turns, presence)


def _without(record: dict[str, Any], paths: set[str]) -> dict[str, Any]:
    for path in paths:
        *parents, last = path.split(".")
        holder = record
        for parent in parents:
            holder = holder[parent] or {}
        holder[last] = None
    return record


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(st.tuples(manifests(), st.integers(0, 2**32), st.booleans()), min_size=1, max_size=6))
def test_any_manifests_with_or_without_one_mutation_are_judged_as_the_reference_does(
    drawn: list[tuple[dict[str, Any], int, bool]],
) -> None:
    turns = []
    for manifest, seed, mutated in drawn:
        record = to_avro(parsed(manifest))
        if mutated:
            Turns(seed).mutate(record)
        turns.append(turn(manifest=record))
    check(Paths(), turns)
