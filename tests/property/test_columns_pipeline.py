"""Columns and reference give the same ends, bytes and counts for every record, however a log is cut into batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from topology import TurnTopology, stored

from workers.processing.outcome import RecordResult
from workers.processing.policy import Policy
from workers.records import StoredRecord
from workers.testing.traffic import TURN_KINDS, TrafficPlan

POLICIES = {
    "defaults": Policy(),
    "overrides": Policy.model_validate(
        {
            "required_pieces": ["history"],
            "patterns": {"moderation_version": "mod-[0-9]+"},
            "overrides": [{"tenant": "a*", "sentinels": ["x"]}, {"definition": "*bot*", "caps": {"count": 3}}],
        }
    ),
}


def told(result: RecordResult) -> dict[str, Any]:
    """Return all that is visible of a result."""
    return {
        "end": result.end,
        "rejection": result.rejection,
        "outputs": list(result.outputs),
        "counts": {} if result.tally is None else dict(result.tally.counts),
    }


async def run(topology: TurnTopology, records: list[StoredRecord], cuts: Sequence[int]) -> list[dict[str, Any]]:
    bounds = sorted({0, len(records), *cuts})
    return [told(result) for begin, end in pairwise(bounds) for result in await topology.run(records[begin:end])]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_columns_tell_of_every_record_what_the_reference_tells(policy: Policy) -> None:
    records = stored(TrafficPlan(seed=5, bad_share=0.05, bad_kinds=TURN_KINDS).records(1_200))
    expected = await run(TurnTopology(policy, columns=False), records, [])
    rng = Random(7)
    routes: Counter[tuple[str, str]] = Counter()
    for cuts in ([], range(0, 1_200, 50), sorted(rng.sample(range(1_200), 30))):
        topology = TurnTopology(policy, columns=True)
        found = await run(topology, records, cuts)
        for offset, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert one == other, f"record {offset}, cut at {cuts}"
        routes.update(topology.routes)
    assert routes["columns", "whole"] > sum(routes.values()) / 2
    assert {reason for route, reason in routes if route == "reference"} >= {"decode", "isolation"}
