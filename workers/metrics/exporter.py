"""The only place that touches the metrics library: declarations in, bounded series out."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

from workers.metrics.catalogue import CATALOGUE, LABEL_OVERFLOW
from workers.metrics.spec import CAPS, MAX_SERIES, Label, Metric, Tally

OTHER: Final = "other"
MAX_EXEMPLAR_CHARACTERS: Final = 128
_ALLOWED: Final = re.compile(r"[A-Za-z0-9._:/-]{1,64}")

Child = Counter | Gauge | Histogram
Values = tuple[str, ...]


class Exporter:
    """Exports the catalogue; safe to call from any thread.

    Open label values are admitted first come up to their cap (`CAPS`), and only if they match
    ``[A-Za-z0-9._:/-]{1,64}``: a path may hold a name or an address. What is not admitted, and a closed value that is
    not declared, counts under ``other`` and in ``engram_label_overflow_total``, so that a metric never stops a stream.

    Source: docs/metrics.md, "Bounds".
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        if registry is None:
            registry = CollectorRegistry()
            ProcessCollector(registry=registry)
        self.registry: Final = registry
        self._lock = threading.Lock()
        self._parents: dict[Metric, Child] = {}
        self._children: dict[tuple[Metric, Values], Child] = {}
        self._series: dict[Metric, int] = {}
        self._known: dict[Label, set[str]] = {label: {OTHER} for label in Label}
        for metric in CATALOGUE.values():
            self._declare(metric)

    def apply(self, tally: Tally) -> None:
        """Add the counts of one batch."""
        for (metric, values), count in tally.counts.items():
            self.inc(metric, *values, n=count)

    def inc(self, metric: Metric, *values: str, n: float = 1) -> None:
        """Add ``n`` to one series of a counter."""
        child = self._child(metric, values)
        if not isinstance(child, Counter):
            raise TypeError(f"{metric.name} is a {metric.kind}, not a counter")
        child.inc(n)

    def set(self, metric: Metric, value: float, *values: str) -> None:
        """Set one series of a gauge; ``value`` is in the unit of the metric's name."""
        child = self._child(metric, values)
        if not isinstance(child, Gauge):
            raise TypeError(f"{metric.name} is a {metric.kind}, not a gauge")
        child.set(value)

    def observe(self, metric: Metric, value: float, *values: str, exemplar: Mapping[str, str] | None = None) -> None:
        """Add an observation to one series of a histogram, in the unit of the metric's name.

        ``exemplar`` (``trace_id``, ``span_id``) stems from record headers: one that is too long or holds other
        characters than a label may is left out.
        """
        child = self._child(metric, values)
        if not isinstance(child, Histogram):
            raise TypeError(f"{metric.name} is a {metric.kind}, not a histogram")
        child.observe(value, dict(exemplar) if exemplar and _is_exportable(exemplar) else None)

    def remove(self, metric: Metric, *values: str) -> None:
        """Stop exporting one series, as for a partition that left this worker; unknown ones are ignored.

        A series that is part of ``other`` stays: others are counted in it too.
        """
        with self._lock:
            if values and self._children.pop((metric, values), None) is not None:
                self._series[metric] -= 1
                self._parents[metric].remove(*values)

    def preset(self, label: Label, value: str) -> None:
        """Start at 0 every metric whose only open label is ``label``, so that a first failure shows as a rise.

        Call it for what is known at start, such as the topics the worker reads.
        """
        for metric in self._parents:
            if metric.open_labels == (label,):
                for values in _combinations(metric, value):
                    self._child(metric, values)

    def _declare(self, metric: Metric) -> None:
        names = metric.label_names
        if metric.kind == "counter":
            self._parents[metric] = Counter(metric.name, metric.help, names, registry=self.registry)
        elif metric.kind == "gauge":
            self._parents[metric] = Gauge(metric.name, metric.help, names, registry=self.registry)
        else:
            self._parents[metric] = Histogram(
                metric.name, metric.help, names, registry=self.registry, buckets=metric.buckets
            )
        self._series[metric] = 0
        if not metric.open_labels:
            for values in _combinations(metric):
                self._create(metric, values)

    def _child(self, metric: Metric, values: Values) -> Child:
        child = self._children.get((metric, values))
        if child is not None:
            return child
        if len(values) != len(metric.labels):
            raise ValueError(f"{metric.name} has the labels {metric.label_names}; {len(values)} values were given")
        with self._lock:
            admitted = self._admit(metric, values)
            child = self._children.get((metric, admitted)) or self._create(metric, admitted)
        if admitted != values and metric is not LABEL_OVERFLOW:
            self.inc(LABEL_OVERFLOW, metric.name)
        return child

    def _create(self, metric: Metric, values: Values) -> Child:
        parent = self._parents[metric]
        child = parent.labels(*values) if values else parent
        self._children[metric, values] = child
        self._series[metric] += 1
        return child

    def _admit(self, metric: Metric, values: Values) -> Values:
        full = self._series[metric] >= MAX_SERIES
        return tuple(
            self._admit_value(source, value, full) for (_, source), value in zip(metric.labels, values, strict=True)
        )

    def _admit_value(self, source: Values | Label, value: str, full: bool) -> str:
        if not isinstance(source, Label):
            return value if value in source else OTHER
        known = self._known[source]
        if full:
            return OTHER
        if value in known:
            return value
        if len(known) > CAPS[source] or _ALLOWED.fullmatch(value) is None:
            return OTHER
        known.add(value)
        return value


def _combinations(metric: Metric, open_value: str = OTHER) -> Iterable[Values]:
    """Yield the label values of every series of ``metric`` whose open labels hold ``open_value``."""
    if not metric.combinations:
        yield from itertools.product(
            *((open_value,) if isinstance(source, Label) else source for _, source in metric.labels)
        )
        return
    for combination in metric.combinations:
        closed = iter(combination)
        yield tuple(open_value if isinstance(source, Label) else next(closed) for _, source in metric.labels)


def _is_exportable(exemplar: Mapping[str, str]) -> bool:
    return sum(len(name) + len(value) for name, value in exemplar.items()) <= MAX_EXEMPLAR_CHARACTERS and all(
        _ALLOWED.fullmatch(value) for value in exemplar.values()
    )
