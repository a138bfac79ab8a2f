"""What workers export on ``/metrics``, read back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Final, Self

from prometheus_client.parser import text_string_to_metric_families

from workers.metrics import catalogue as m
from workers.metrics.labels import End
from workers.metrics.spec import Metric

TURNS: Final = "turns"
_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 3

Labels = Mapping[str, str]


class Samples:
    """The series of one or more workers, by the name of their metric."""

    def __init__(self, series: Mapping[str, Sequence[tuple[Labels, float]]]) -> None:
        self.series = series

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
            for name, found in part.series.items():
                series.setdefault(name, []).extend(found)
        return cls(series)

    @property
    def is_of_one_moment(self) -> bool:
        """Whether no batch was being counted while they were read: each processed turn is in three metrics once."""
        verdicts = self.by(m.FIDELITY_TURNS).total()
        return (
            verdicts == self.by(m.FINGERPRINT_TURNS).total() == self.by(m.RECORDS, "topic", "end")[TURNS, End.PROCESSED]
        )

    def by(self, metric: Metric, *names: str) -> Counter[tuple[str, ...]]:
        """Return the sums of the series of ``metric`` by the values of the labels ``names``; without zeros."""
        sums: Counter[tuple[str, ...]] = Counter()
        for labels, value in self.series.get(metric.name, ()):
            if value:
                sums[tuple(labels[name] for name in names)] += int(value)
        return sums

    def label_values(self, metric: Metric, *names: str) -> list[tuple[str, ...]]:
        """Return the values of the labels ``names`` in every series of ``metric``, zero or not."""
        return [tuple(labels[name] for name in names) for labels, _ in self.series.get(metric.name, ())]


def scrape(address: str) -> Samples | None:
    """Return what the worker at ``address`` (``http://HOST:PORT``) exports, None when it does not answer.

    It tries to read all of it at one moment, but a busy worker may be counting each time.
    """
    samples = None
    for _ in range(_ATTEMPTS):
        status, page = get(address, "/metrics")
        if status != HTTPStatus.OK:
            return samples
        samples = Samples.parse(page)
        if samples.is_of_one_moment:
            break
    return samples


def get(address: str, path: str) -> tuple[int | None, str]:
    """Return status and body of the answer to GET ``path`` at ``address``; the status is None without an answer."""
    connection = HTTPConnection(address.removeprefix("http://"), timeout=_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, HTTPException):
        return None, ""
    finally:
        connection.close()
