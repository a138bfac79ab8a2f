"""The bench runs against Apache Kafka and measures what it says."""

from __future__ import annotations

import pytest

from bench.measure import Plan, run
from bench.plot import draw
from bench.process import ContenderName
from bench.summary import as_document, summarise
from bench.workload import Workload

TURNS = 1_000

pytestmark = pytest.mark.kafka


def test_a_short_run_measures_floor_and_worker(kafka: str) -> None:
    workload = Workload(seed=1, bodies=TURNS)
    said: list[str] = []
    found = summarise(run(kafka, Plan(workload, TURNS, 1, (ContenderName.FLOOR, ContenderName.WORKER)), said.append))
    floor, worker = found[ContenderName.FLOOR], found[ContenderName.WORKER]
    assert len(said) == 2
    assert 0 < floor.cpu_us.median < worker.cpu_us.median
    assert floor.first_verdict_s is None
    assert worker.first_verdict_s is not None
    assert worker.first_verdict_s.median > 0
    assert 20 < floor.peak_mb.median < worker.peak_mb.median < 1_000
    assert sum(worker.routes.values()) == pytest.approx(1.0)
    document = as_document(found, {}, TURNS, 1, workload.mean_bytes)
    assert document["worker_over_floor"] > 1
    assert "engram-stream worker" in draw(document)
