"""How a metric is declared, and how pure code counts without touching a metrics library."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

MetricKind = Literal["counter", "gauge", "histogram"]


class Label(StrEnum):
    """Label whose values are open and therefore capped; excess folds into ``other``."""

    SERVICE = "service"
    PATH = "path"
    REGION = "region"
    TOPIC = "topic"
    PARTITION = "partition"
    VERSION = "version"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, declared once.

    ``labels`` maps a label name to its closed values, or to a `Label` whose values are open and capped.
    ``name`` is the full exported name, with unit suffix; counters end in ``_total``.
    """

    name: str
    help: str
    kind: MetricKind
    labels: tuple[tuple[str, tuple[str, ...] | Label], ...] = ()
    buckets: tuple[float, ...] = ()


class Tally:
    """Counter increments of one batch, by metric and label values; applied when the batch completes."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: Counter[tuple[Metric, tuple[str, ...]]] = Counter()

    def add(self, metric: Metric, *values: str, n: int = 1) -> None:
        """Add ``n`` to the series of ``metric`` whose label values are ``values``, in declaration order."""
        self.counts[metric, values] += n
