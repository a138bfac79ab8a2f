"""Series and alerts from which the scenarios of the rules are written, minute by minute."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from workers.alerting.catalogue import ALERTS
from workers.metrics.catalogue import CATALOGUE

MINUTES = 130
PROMETHEUS_ALERTS = {alert.name: alert for alert in ALERTS.values() if alert.origin == "prometheus"}

Values = list[float | None]
Fired = tuple[str, dict[str, str]]


def flat(value: float, minutes: int = MINUTES) -> Values:
    return [value] * minutes


def nothing(minutes: int) -> Values:
    return [None] * minutes


def once(at: int, value: float = 1) -> Values:
    """A counter that is 0 from the start and ``value`` from minute ``at`` on."""
    return flat(0, at) + flat(value)


def born(at: int, value: float = 1) -> Values:
    """A series that does not exist before minute ``at``."""
    return nothing(at) + flat(value)


def growing(*steps: tuple[int, float]) -> Values:
    """A counter from 0 that grows for so many minutes by so much per minute, step after step."""
    return [0, *accumulate(rate for minutes, rate in steps for _ in range(minutes))]


def matchers(labels: Mapping[str, str]) -> str:
    return ", ".join(f'{name}="{value}"' for name, value in labels.items())


def series(name: str, instance: str = "w1", /, **labels: str) -> str:
    assert set(labels) == set(CATALOGUE[name].label_names), f"{name} has the labels {CATALOGUE[name].label_names}"
    everything = {"job": "engram", "instance": instance, **labels}
    return f"{name}{{{matchers(everything)}}}"


def worker(
    instance: str = "w1", *, first: int = 0, last: int = MINUTES, started: float | None = None
) -> dict[str, Values]:
    """What every worker exports. Times in minutes: scraped from ``first`` to ``last``, running since ``started``."""
    begun = 60.0 * (first if started is None else started)
    seen = nothing(first)
    return {
        series("engram_build_info", instance, version="1", rules="r"): seen + flat(1, last - first),
        series("engram_up_stage", instance, stage="turns"): seen + flat(1, last - first),
        f'process_start_time_seconds{{job="engram", instance="{instance}"}}': seen + flat(begun, last - first),
    }


def ours(instance: str = "w1") -> str:
    reason = {"reason": "processing_failed", "class": "ours"}
    return series("engram_dead_letters_total", instance, topic="turns", **reason)


def theirs() -> str:
    reason = {"reason": "bad_magic", "class": "producer"}
    return series("engram_dead_letters_total", topic="turns", **reason)


def incomplete(instance: str = "w1", waived: str = "false") -> str:
    labels = {"service": "chat", "path": "batch", "field": "model_id", "state": "null", "waived": waived}
    return series("engram_fingerprint_incomplete_total", instance, **labels)


def graded(status: str, level: str) -> str:
    return series("engram_fidelity_turns_total", status=status, level=level, service="chat", path="web")


def fingerprints(complete: str) -> str:
    return series("engram_fingerprint_turns_total", service="chat", complete=complete)


def of_partition(metric: str, instance: str = "w1", /, **labels: str) -> str:
    return series(metric, instance, topic="turns", partition="3", **labels)


RECEIVED = series("engram_records_received_total", topic="turns")

OURS: Fired = ("DeadLetterOurs", {"topic": "turns", "reason": "processing_failed"})
RATIO: Fired = ("DeadLetterRatio", {"topic": "turns"})
INCOMPLETE: Fired = (
    "FingerprintIncomplete",
    {"service": "chat", "path": "batch", "field": "model_id", "state": "null"},
)
MASS: Fired = ("FingerprintIncompleteMass", {"service": "chat"})
BLIND: Fired = ("EngramBlind", {"topic": "turns"})
NO_STAGE: Fired = ("EngramBlind", {"stage": "turns"})
HALTED: Fired = ("PartitionHalted", {"topic": "turns", "partition": "3"})
REGISTRY: Fired = ("RegistryUnavailable", {"topic": "turns"})
CONSERVATION: Fired = ("ConservationBroken", {"topic": "turns"})
LOST: Fired = ("OffsetsLost", {"topic": "turns"})
KEYS: Fired = ("KeyMismatch", {"topic": "turns"})
UNREPLAYABLE: Fired = ("FidelityUnreplayable", {"service": "chat"})
INVALID: Fired = ("FidelityInvalid", {"service": "chat"})
NO_MANIFEST: Fired = ("ManifestMissing", {"service": "chat"})
OVERFLOW: Fired = ("LabelOverflow", {"metric": "engram_fidelity_turns_total"})
