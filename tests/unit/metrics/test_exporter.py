from __future__ import annotations

import threading
import time

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics import exposition

from workers.metrics import catalogue as c
from workers.metrics.exporter import Exporter
from workers.metrics.spec import CAPS, Label, Metric, Tally
from workers.reasons import CATALOGUE as REASONS


@pytest.fixture
def exporter() -> Exporter:
    return Exporter(CollectorRegistry())


def value(exporter: Exporter, metric: Metric, *values: str) -> float | None:
    return exporter.registry.get_sample_value(metric.name, dict(zip(metric.label_names, values, strict=True)))


def openmetrics(exporter: Exporter) -> str:
    return bytes(exposition.generate_latest(exporter.registry)).decode()  # type: ignore[no-untyped-call]


def total(exporter: Exporter, metric: Metric) -> float:
    samples = (sample for family in exporter.registry.collect() for sample in family.samples)
    return sum(sample.value for sample in samples if sample.name == metric.name)


def series(exporter: Exporter, name: str) -> list[dict[str, str]]:
    return [s.labels for family in exporter.registry.collect() for s in family.samples if s.name == name]


def test_a_series_without_open_labels_is_exported_at_zero_from_the_start(exporter: Exporter) -> None:
    assert value(exporter, c.COMMITS, "failed") == 0
    assert value(exporter, c.REBALANCES) == 0
    assert value(exporter, c.LABEL_OVERFLOW, c.DEAD_LETTERS.name) == 0
    assert {s["code"] for s in series(exporter, c.FIDELITY_GAPS.name)} == set(dict(c.FIDELITY_GAPS.labels)["code"])


def test_a_topic_known_at_start_has_every_reason_at_zero_with_its_own_class_alone(exporter: Exporter) -> None:
    exporter.preset(Label.TOPIC, "turns")
    expected = {("turns", str(e.reason), str(e.reason_class)) for e in REASONS.values()}
    assert {(s["topic"], s["reason"], s["class"]) for s in series(exporter, c.DEAD_LETTERS.name)} == expected
    assert value(exporter, c.RECORDS, "turns", "dlq") == 0
    assert value(exporter, c.CONSERVATION_DIFFERENCE, "turns") == 0


def test_a_tally_adds_up_over_batches(exporter: Exporter) -> None:
    tally = Tally()
    tally.add(c.RECORDS, "turns", "processed", n=3)
    tally.add(c.RECORDS, "turns", "processed")
    exporter.apply(tally)
    exporter.apply(tally)
    assert value(exporter, c.RECORDS, "turns", "processed") == 8


def test_services_beyond_the_cap_fold_into_other_without_losing_a_turn(exporter: Exporter) -> None:
    over = 7
    for number in range(CAPS[Label.SERVICE] + over):
        exporter.inc(c.FINGERPRINT_TURNS, f"service-{number}", "true", n=2)
    assert value(exporter, c.FINGERPRINT_TURNS, "service-0", "true") == 2
    assert value(exporter, c.FINGERPRINT_TURNS, "other", "true") == 2 * over
    assert value(exporter, c.LABEL_OVERFLOW, c.FINGERPRINT_TURNS.name) == over
    assert len(series(exporter, c.FINGERPRINT_TURNS.name)) == CAPS[Label.SERVICE] + 1


def test_a_service_admitted_once_is_known_to_every_metric(exporter: Exporter) -> None:
    for number in range(CAPS[Label.SERVICE] + 1):
        exporter.inc(c.FINGERPRINT_TURNS, f"service-{number}", "true")
    exporter.inc(c.TIER2_MISSING, "service-3", "path")
    exporter.inc(c.TIER2_MISSING, f"service-{CAPS[Label.SERVICE]}", "path")
    assert [s["service"] for s in series(exporter, c.TIER2_MISSING.name)] == ["service-3", "other"]


@pytest.mark.parametrize("path", ["bob@example.com", "", "x" * 65, "a b", 'x"} 1', "tür", "line\nbreak"])
def test_a_path_that_may_hold_a_name_or_an_address_is_never_a_label(exporter: Exporter, path: str) -> None:
    exporter.inc(c.FIDELITY_TURNS, "graded", "exact", "chat", path)
    assert [s["path"] for s in series(exporter, c.FIDELITY_TURNS.name)] == ["other"]
    assert value(exporter, c.LABEL_OVERFLOW, c.FIDELITY_TURNS.name) == 1
    assert path == "" or path not in openmetrics(exporter)


def test_no_metric_has_more_than_its_bound_of_series(exporter: Exporter) -> None:
    metric = c.FINGERPRINT_INCOMPLETE
    for service in range(50):
        for path in range(100):
            exporter.inc(metric, f"s{service}", f"p{path}", "definition", "null", "false")
            exporter.inc(metric, f"s{service}", f"p{path}", "model_id", "null", "false")
    assert len(series(exporter, metric.name)) == 5_000 + 2
    assert total(exporter, metric) == 10_000


def test_a_closed_value_that_is_not_declared_never_stops_the_stream(exporter: Exporter) -> None:
    exporter.inc(c.COMMITS, "exploded")
    assert value(exporter, c.COMMITS, "other") == 1
    assert value(exporter, c.LABEL_OVERFLOW, c.COMMITS.name) == 1


def test_a_partition_that_left_is_no_longer_exported_and_may_come_back(exporter: Exporter) -> None:
    exporter.set(c.LAG_RECORDS, 12, "turns", "3")
    exporter.remove(c.LAG_RECORDS, "turns", "3")
    exporter.remove(c.LAG_RECORDS, "turns", "4")
    assert series(exporter, c.LAG_RECORDS.name) == []
    exporter.set(c.LAG_RECORDS, 5, "turns", "3")
    assert value(exporter, c.LAG_RECORDS, "turns", "3") == 5


def test_an_exemplar_carries_the_trace_and_a_hostile_one_is_left_out(exporter: Exporter) -> None:
    exporter.observe(c.END_TO_END_SECONDS, 0.2, "turns", exemplar={"trace_id": "0af7651916cd43dd8448eb211c80319c"})
    exporter.observe(c.BATCH_SECONDS, 0.2, "turns", "decode", exemplar={"trace_id": "bob@example.com"})
    exporter.observe(c.BATCH_SECONDS, 0.2, "turns", "decode", exemplar={"trace_id": "a" * 64, "span_id": "b" * 64})
    text = openmetrics(exporter)
    assert '# {trace_id="0af7651916cd43dd8448eb211c80319c"} 0.2' in text
    assert "bob" not in text
    assert "bbbb" not in text


def test_counting_from_many_threads_loses_nothing(exporter: Exporter) -> None:
    def count() -> None:
        for number in range(2_000):
            exporter.inc(c.FINGERPRINT_TURNS, f"service-{number % 60}", "true")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total(exporter, c.FINGERPRINT_TURNS) == 8_000


def test_applying_the_tally_of_a_batch_takes_well_under_a_millisecond(exporter: Exporter) -> None:
    tally = Tally()
    for number in range(50):
        tally.add(c.FIDELITY_TURNS, "graded", "exact", f"service-{number % 10}", f"path-{number}", n=10)
    exporter.apply(tally)

    def timed() -> float:
        begun = time.perf_counter()
        exporter.apply(tally)
        return time.perf_counter() - begun

    assert min(timed() for _ in range(200)) < 0.001


def test_a_wrong_kind_or_a_wrong_number_of_labels_is_an_error_of_the_caller(exporter: Exporter) -> None:
    with pytest.raises(TypeError, match="engram_lag_records is a gauge"):
        exporter.inc(c.LAG_RECORDS, "turns", "0")
    with pytest.raises(ValueError, match="engram_commits_total has the labels"):
        exporter.inc(c.COMMITS)
