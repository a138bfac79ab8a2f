from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics import exposition, parser

from workers.metrics import catalogue
from workers.metrics.catalogue import CATALOGUE
from workers.metrics.exporter import Exporter
from workers.metrics.labels import LevelLabel
from workers.metrics.spec import Metric
from workers.processing.fidelity.levels import Level

METRICS = sorted(CATALOGUE.values(), key=lambda metric: metric.name)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_says_whose_metric_it_is_and_in_which_unit(metric: Metric) -> None:
    assert re.fullmatch(r"engram_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert (metric.kind == "histogram") == bool(metric.buckets)
    assert metric.buckets == tuple(sorted(set(metric.buckets)))
    assert metric.help.endswith(".")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_no_label_can_hold_a_conversation_a_turn_or_a_user(metric: Metric) -> None:
    assert not set(metric.label_names) & {"tenant", "conversation", "conversation_id", "turn_id", "user", "user_key"}


def test_the_whole_catalogue_is_valid_openmetrics() -> None:
    exporter = Exporter(CollectorRegistry())
    for metric in METRICS:
        values = tuple(source[0] if isinstance(source, tuple) else "x" for _, source in metric.labels)
        if metric.kind == "counter":
            exporter.inc(metric, *values)
        elif metric.kind == "gauge":
            exporter.set(metric, 1, *values)
        else:
            exporter.observe(metric, 0.1, *values)
    text = bytes(exposition.generate_latest(exporter.registry)).decode()  # type: ignore[no-untyped-call]
    names = {family.name for family in parser.text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    assert names == {metric.name.removesuffix("_total") for metric in METRICS}


def test_a_level_of_the_label_is_a_level_of_the_grading_or_none() -> None:
    assert {*LevelLabel} == {*Level, "none"}


def test_every_declared_metric_is_fed_somewhere() -> None:
    package = Path(catalogue.__file__).parents[1]
    code = "\n".join(file.read_text(encoding="utf-8") for file in package.rglob("*.py") if "alerting" not in file.parts)
    names = {name for name, value in vars(catalogue).items() if isinstance(value, Metric)} - {"LABEL_OVERFLOW"}
    assert {name for name in names if not re.search(rf"\bm\.{name}\b", code)} == set()
