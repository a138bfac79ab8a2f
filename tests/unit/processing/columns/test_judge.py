"""Which turns columns judge themselves, and what they leave to the reference."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from random import Random
from typing import Any

import numpy as np
import pytest
from column_tables import table_of, turn
from columns_reference import APPEND_MS, Paths, writer
from fidelity_manifests import DIGEST, artifact, call, edited, exact, parsed

from workers.metrics import catalogue as m
from workers.processing.columns.completeness import CompletenessJudge
from workers.processing.columns.judge import judge_columns
from workers.processing.columns.routes import RouteReason
from workers.processing.columns.tallies import tally
from workers.processing.fidelity import to_avro
from workers.processing.policy import Policy
from workers.serde.columns.layout import layout
from workers.testing.traffic.conversations import Conversations, stepping_clock


def turn_with(changes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return turn(manifest=to_avro(parsed(edited(exact(), changes))), **fields)


def fingerprint(**values: Any) -> dict[str, Any]:
    held = layout().field("fingerprint").type
    return dict.fromkeys(field.name for field in held) | values


def route_of(record: dict[str, Any]) -> RouteReason | None:
    """Judge ``record`` between two plain turns; where columns judge it, they must agree with the reference."""
    paths = Paths()
    batch = paths.columns([turn_with({}), record, turn()])
    reason = batch.judged.routes.get(1)
    if reason is None:
        assert batch.verdicts[1] == paths.reference(record).verdict
    assert set(batch.judged.routes) <= {1}
    return reason


def test_realistic_traffic_is_judged_by_columns() -> None:
    clock = stepping_clock()
    steps = Conversations(Random(5), clock, incident_after=100, state_write_share=0.5).steps()
    turns = [next(steps).turn.record for _ in range(1_000)]
    paths = Paths()
    routes: Counter[RouteReason] = Counter()
    shapes: set[int] = set()
    for start in range(0, len(turns), 250):
        batch = paths.columns(turns[start : start + 250])
        for record, verdict in zip(turns[start:], batch.verdicts, strict=False):
            assert verdict in (None, paths.reference(record).verdict)
        routes.update(batch.judged.routes.values())
        shapes.update(batch.judged.shapes.tolist())
    assert not routes
    assert len(shapes) > 16


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tools.definitions.0.definition": artifact("value", "mapped")}, None),
        ({"tools.calls.0.input": artifact("hash", "declared")}, None),
        ({"tools.calls.0.output": artifact("absent", "unknown")}, None),
        ({"tools.calls.0.output": artifact("absent", "declared")}, None),
        ({"tools.calls.0.output": artifact("unavailable", "unknown")}, None),
        ({"tools.calls.0.output": artifact("hash")}, None),
        ({"tools.definitions.0.definition": artifact("absent")}, None),
        ({"tools.calls.0.error": artifact("hash")}, RouteReason.FINDINGS),
        ({"tools.calls.0.error": artifact("unavailable")}, RouteReason.FINDINGS),
        ({"tools.calls.0.error": artifact("value", "mapped")}, RouteReason.FINDINGS),
        ({"tools.calls.0.error": artifact("absent", "declared")}, None),
        ({"tools.calls": [call("c"), call("c")]}, RouteReason.FINDINGS),
        ({"tools.calls": [call("c"), call("d")]}, None),
        ({"tools.definitions": [{"name": "t", "definition": artifact("value")}] * 2}, RouteReason.FINDINGS),
        ({"model.seed": {**artifact("value"), "sha256": DIGEST}}, RouteReason.FINDINGS),
        ({"model.seed": {**artifact("value"), "sha256": sha256(b"1").hexdigest()}}, None),
    ],
)
def test_what_contradicts_itself_is_left_to_the_reference(changes: dict[str, Any], reason: RouteReason | None) -> None:
    assert route_of(turn_with(changes)) is reason


@pytest.mark.parametrize(
    "id_held", ["i" * 255, "i" * 256, "i" * 257, "ü" * 256, "\U0001f600" * 256, "\U0001f600" * 999]
)
def test_a_long_id_of_a_manifest_is_cut_by_characters(id_held: str) -> None:
    assert route_of(turn_with({"id": id_held})) is None


def test_another_model_is_found_without_the_reference() -> None:
    records = [
        turn_with({}, fingerprint=fingerprint(model_id=model))
        for model in ("n", "p/n", "q/n", "unknown", "", None, "m")
    ]
    paths = Paths()
    batch = paths.columns(records)
    assert batch.verdicts == [paths.reference(record).verdict for record in records]
    counts = tally(batch.judged, batch.judged.kept, [APPEND_MS] * len(records)).counts
    assert counts[m.FIDELITY_FINDINGS, ("model_mismatch", "chat")] == 2


def test_digests_that_match_are_counted_and_routed_ones_are_not() -> None:
    seeds = (sha256(b"1").hexdigest(), sha256(b"1").hexdigest().upper(), DIGEST)
    records = [turn_with({"model.seed": {**artifact("value"), "sha256": seed}}) for seed in seeds]
    judged = Paths().columns(records).judged
    counts = tally(judged, np.ones(3, np.bool_), [APPEND_MS] * 3).counts
    checks = {labels: n for (metric, labels), n in counts.items() if metric is m.FIDELITY_DIGEST_CHECKS}
    assert checks == {("match",): 2}


@pytest.mark.parametrize("name", ["definition_id", "model_id", "state_shape_version"])
@pytest.mark.parametrize("length", [200, 201, 300_000])
def test_long_texts_of_a_fingerprint_are_left_out_as_the_reference_does(name: str, length: int) -> None:
    assert route_of(turn(fingerprint=fingerprint(**{name: "ü" * length}))) is None


@pytest.mark.parametrize(
    "counts",
    [{}, {"b": 1, "a": 2}, {"Bad": 1}, {f"p{n}": 0 for n in range(64)}, {f"p{n}": 0 for n in range(65)}, {"a": -1}],
)
def test_counts_are_shown_sorted_or_not_at_all(counts: dict[str, int]) -> None:
    assert route_of(turn(fingerprint=fingerprint(state_counts=counts, not_applicable=["state_counts"]))) is None


def test_a_table_of_another_layout_is_refused() -> None:
    table = table_of([turn()])
    with pytest.raises(ValueError, match="laid out"):
        judge_columns(table.select(["tenant"]), np.zeros(1, np.bool_), writer().presence, Policy(), CompletenessJudge())


def test_an_empty_batch_has_no_verdicts() -> None:
    batch = Paths().columns([])
    assert batch.verdicts == []
    assert not tally(batch.judged, batch.judged.kept, []).counts


def test_a_batch_all_of_whose_texts_are_distinct_is_judged_as_well() -> None:
    records = [
        turn_with({"model.name": f"n{n}"}, conversation_id=f"c{n}", fingerprint=fingerprint(model_id=f"n{n}"))
        for n in range(300)
    ]
    paths = Paths()
    assert paths.columns(records).verdicts == [paths.reference(record).verdict for record in records]
