"""Every published case of replay fidelity that the Avro form can hold, judged by columns as by the reference."""

from __future__ import annotations

from column_tables import turn
from columns_reference import Paths
from test_fidelity_conformance import IN_AVRO

from workers.processing.columns.routes import RouteReason


def test_every_case_has_the_verdict_of_the_reference_or_is_left_to_it() -> None:
    cases = [param.values for param in IN_AVRO]
    turns = [turn(manifest=record, turn_id=f"t{n}") for n, (record, _) in enumerate(cases)]
    paths = Paths()
    batch = paths.columns(turns)
    kept = [(record, verdict) for record, verdict in zip(turns, batch.verdicts, strict=True) if verdict is not None]
    assert all(verdict == paths.reference(record).verdict for record, verdict in kept)
    assert len(kept) > 100
    routed = [batch.judged.routes.get(row) is RouteReason.INVALID for row in range(len(turns))]
    assert routed == [not case["valid"] for _, case in cases]
