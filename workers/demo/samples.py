"""What workers export on ``/metrics``, read back."""

from __future__ import annotations

import urllib.request
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from typing import Final, Self

from prometheus_client.parser import text_string_to_metric_families

from workers.metrics.spec import Metric

_TIMEOUT_S: Final = 5.0

Labels = Mapping[str, str]


class Samples:
    """The series of one or more workers, by the name of their metric."""

    def __init__(self, series: Mapping[str, Sequence[tuple[Labels, float]]]) -> None:
        self._series = series

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the samples of a page in Prometheus' text format.

        Raises:
            ValueError: it is none.
        """
        series: dict[str, list[tuple[Labels, float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                series.setdefault(sample.name, []).append((sample.labels, sample.value))
        return cls(series)

    @classmethod
    def merged(cls, parts: Iterable[Samples]) -> Self:
        """Return the series of several workers side by side."""
        series: dict[str, list[tuple[Labels, float]]] = {}
        for part in parts:
            for name, found in part._series.items():  # noqa: SLF001 - of the same class
                series.setdefault(name, []).extend(found)
        return cls(series)

    def by(self, metric: Metric, *names: str) -> Counter[tuple[str, ...]]:
        """Return the sums of the series of ``metric`` by the values of the labels ``names``; without zeros."""
        sums: Counter[tuple[str, ...]] = Counter()
        for labels, value in self._series.get(metric.name, ()):
            if value:
                sums[tuple(labels[name] for name in names)] += int(value)
        return sums

    def label_values(self, metric: Metric, *names: str) -> list[tuple[str, ...]]:
        """Return the values of the labels ``names`` in every series of ``metric``, zero or not."""
        return [tuple(labels[name] for name in names) for labels, _ in self._series.get(metric.name, ())]


def scrape(address: str) -> Samples | None:
    """Return what the worker at ``address`` (``http://HOST:PORT``) exports, None when it does not answer."""
    try:
        with urllib.request.urlopen(f"{address}/metrics", timeout=_TIMEOUT_S) as answer:  # noqa: S310 - our own worker
            return Samples.parse(answer.read().decode())
    except (OSError, HTTPException):
        return None
