"""Numbers as workers export them: made by the workers' own exporter, read back as the demo reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, generate_latest

from workers.demo.alerts import SeenAlert
from workers.demo.picture import Gap, History, Onset, Picture, ProducerPath, take_picture
from workers.demo.samples import Samples
from workers.demo.story import Facts
from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter

NOON = 1_800_000_000.0
BATCH = ProducerPath("shop", "night-batch")
GAP = Gap("shop", "night-batch", "summary_depth", "null")


def samples(fill: Callable[[Exporter], None]) -> Samples:
    """Return what a worker exports after ``fill``."""
    exporter = Exporter(CollectorRegistry())
    fill(exporter)
    return Samples.parse(generate_latest(exporter.registry).decode())


def picture(fill: Callable[[Exporter], None], at: float = NOON) -> Picture:
    """Return the picture of one worker."""
    return take_picture(at, {"worker 1": samples(fill)})


def count_turns(
    exporter: Exporter, n: int, level: str = "partial", producer: ProducerPath = BATCH, *, complete: bool = True
) -> None:
    """Count ``n`` processed turns of ``producer``; incomplete ones lack what `GAP` says."""
    exporter.inc(m.RECORDS_RECEIVED, "turns", n=n)
    exporter.inc(m.RECORDS, "turns", "processed", n=n)
    status = "graded" if level != "none" else "no_manifest"
    exporter.inc(m.FIDELITY_TURNS, status, level, *producer, n=n)
    exporter.inc(m.FINGERPRINT_TURNS, producer.service, str(complete).lower(), n=n)
    if not complete:
        exporter.inc(m.FINGERPRINT_INCOMPLETE, *producer, GAP.field, GAP.state, "false", n=n)


def count_letters(
    exporter: Exporter, n: int, reason: str, reason_class: str = "producer", topic: str = "turns"
) -> None:
    """Count ``n`` dead letters."""
    exporter.inc(m.RECORDS_RECEIVED, topic, n=n)
    exporter.inc(m.RECORDS, topic, "dlq", n=n)
    exporter.inc(m.DEAD_LETTERS, topic, reason, reason_class, n=n)


def facts(of: Picture, onset: Onset | None = None, alerts: Sequence[SeenAlert] = ()) -> Facts:
    """Return what a story of ``of`` is made from."""
    history = History()
    history.add(of)
    onsets = {**history.onsets, **({GAP: onset} if onset else {})}
    return Facts(of, onsets, alerts, 60.0, True, True, "127.0.0.1:1", ["http://127.0.0.1:2"], "engram-stream")
