"""What becomes of a batch that columns cannot take."""

from __future__ import annotations

import pyruhvro
import pytest
from topology import TurnTopology, stored

from workers.agents import columns
from workers.metrics.labels import End
from workers.testing.traffic import TrafficPlan


async def test_a_batch_that_columns_fail_on_is_judged_by_the_reference(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a canary of the payload")

    records = stored(TrafficPlan(seed=2).records(40))
    expected = await TurnTopology(columns=False).run(records)
    monkeypatch.setattr(columns, "prepare", fail)
    topology = TurnTopology(columns=True)
    results = await topology.run(records)
    assert [result.outputs for result in results] == [result.outputs for result in expected]
    assert topology.routes == {("reference", "failed"): 40}
    assert "columns failed with ValueError" in caplog.text
    assert "canary" not in caplog.text


class PanicException(BaseException):
    """What a crash of the native decoder raises."""


async def test_a_crash_of_the_native_decoder_loses_nothing_and_leaves_its_schema_to_the_reference(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def crash(*_: object) -> None:
        raise PanicException

    records = stored(TrafficPlan(seed=2).records(60))
    topology = TurnTopology(columns=True)
    await topology.run(records[:20])
    with monkeypatch.context() as patch:
        patch.setattr(pyruhvro, "deserialize_array", crash)
        crashed = await topology.run(records[20:40])
    after = await topology.run(records[40:])
    assert {result.end for result in (*crashed, *after)} == {End.PROCESSED}
    assert topology.routes == {("columns", "whole"): 20, ("reference", "panic"): 20, ("reference", "schema"): 20}
    assert "crashed the column decoder" in caplog.text
