"""How a metric is declared, and how pure code counts without touching a metrics library."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

MetricKind = Literal["counter", "gauge", "histogram"]


class Label(StrEnum):
    """Label whose values are open and therefore capped; excess folds into ``other``."""

    SERVICE = "service"
    PATH = "path"
    REGION = "region"
    TOPIC = "topic"
    PARTITION = "partition"
    VERSION = "version"


CAPS: Final = {
    Label.SERVICE: 50,
    Label.PATH: 100,
    Label.REGION: 20,
    Label.TOPIC: 100,
    Label.PARTITION: 1_024,
    Label.VERSION: 50,
}
"""Most values of an open label in one process, first come; further ones fold into ``other``."""

MAX_SERIES: Final = 5_000
"""Most series of one metric in one process; beyond it every open label of a new series folds into ``other``."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric, declared once and compared by identity, which keeps counting cheap.

    ``labels`` maps a label name to its closed values, or to a `Label` whose values are open and capped.
    ``name`` is the full exported name, with unit suffix; counters end in ``_total``.
    ``combinations`` lists which closed values occur together, in the order of the closed labels; empty means all.
    ``buckets`` are the upper bounds of a histogram, in the unit of its name.
    """

    name: str
    help: str
    kind: MetricKind
    labels: tuple[tuple[str, tuple[str, ...] | Label], ...] = ()
    buckets: tuple[float, ...] = ()
    combinations: tuple[tuple[str, ...], ...] = ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels, in declaration order."""
        return tuple(name for name, _ in self.labels)

    @property
    def open_labels(self) -> tuple[Label, ...]:
        """The labels whose values are not closed, in declaration order."""
        return tuple(values for _, values in self.labels if isinstance(values, Label))


class Tally:
    """Counter increments of one batch, by metric and label values; applied when the batch completes."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: Counter[tuple[Metric, tuple[str, ...]]] = Counter()

    def add(self, metric: Metric, *values: str, n: int = 1) -> None:
        """Add ``n`` to the series of ``metric`` whose label values are ``values``, in declaration order."""
        self.counts[metric, values] += n
