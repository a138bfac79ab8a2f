"""What the alert rules are tried with: samples by the minute, and the alerts that must fire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rule_series import (
    BLIND,
    CONSERVATION,
    HALTED,
    INCOMPLETE,
    INVALID,
    KEYS,
    LOST,
    MASS,
    MINUTES,
    NO_MANIFEST,
    NO_STAGE,
    OURS,
    OVERFLOW,
    PROMETHEUS_ALERTS,
    RATIO,
    RECEIVED,
    REGISTRY,
    UNREPLAYABLE,
    Fired,
    Values,
    born,
    fingerprints,
    flat,
    graded,
    growing,
    incomplete,
    matchers,
    nothing,
    of_partition,
    once,
    ours,
    series,
    theirs,
    worker,
)


@dataclass(frozen=True)
class Scenario:
    """Samples by the minute, and every alert that fires at some minutes; all others must be silent then."""

    says: str
    data: Mapping[str, Values]
    firing: Mapping[int, tuple[Fired, ...]]
    workers: Mapping[str, Values] = field(default_factory=worker)

    def document(self, rules: Path) -> dict[str, object]:
        data = {**self.workers, **self.data}
        return {
            "rule_files": [str(rules)],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [{"series": name, "values": notation(values)} for name, values in data.items()],
                    "promql_expr_test": [
                        {
                            "expr": 'ALERTS{alertstate="firing"}',
                            "eval_time": f"{minute}m",
                            "exp_samples": samples(fired),
                        }
                        for minute, fired in self.firing.items()
                    ],
                }
            ],
        }


def notation(values: Values) -> str:
    return " ".join("_" if value is None else f"{value:g}" for value in values[:MINUTES])


def samples(fired: Iterable[Fired]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for name, labels in fired:
        alert = PROMETHEUS_ALERTS[name]
        assert set(labels) <= {*alert.subject, *alert.labels}
        everything = {
            "alertname": name,
            "alertstate": "firing",
            "severity": alert.severity,
            "team": alert.team,
            "component": alert.component,
            **labels,
        }
        found.append({"labels": f"ALERTS{{{matchers(everything)}}}", "value": 1})
    return found


SCENARIOS = [
    Scenario(
        "a healthy hour is silent",
        {
            RECEIVED: growing((MINUTES, 600)),
            ours(): flat(0),
            theirs(): growing((MINUTES, 1)),
            graded("graded", "controlled"): growing((MINUTES, 590)),
            graded("graded", "unreplayable"): growing((MINUTES, 5)),
            graded("manifest_invalid", "none"): growing((MINUTES, 3)),
            graded("no_manifest", "none"): growing((MINUTES, 2)),
            fingerprints("true"): growing((MINUTES, 600)),
            of_partition("engram_lag_records"): flat(40),
            of_partition("engram_own_lag_seconds"): flat(0.4),
            of_partition("engram_committed_offset"): growing((MINUTES, 600)),
            of_partition("engram_partition_halted", reason="registry"): flat(0),
            series("engram_conservation_difference", topic="turns"): flat(0),
            series("engram_key_mismatch_total", topic="turns"): flat(0),
            series("engram_offsets_lost_total", topic="turns"): flat(0),
        },
        {1: (), 5: (), 15: (), 16: (), 17: (), 30: (), 60: (), 120: ()},
    ),
    Scenario(
        "exactly one failure of ours after the start pages, and resolves",
        {ours(): once(10)},
        {9: (), 10: (OURS,), 24: (OURS,), 50: (OURS,), 60: ()},
    ),
    Scenario(
        "a failure of ours before the first scrape pages",
        {ours(): flat(1)},
        {0: (OURS,), 10: (OURS,), 50: ()},
    ),
    Scenario(
        "a failure of ours of a long-lived worker pages, once per new failure",
        {ours(): flat(3, 40) + flat(4)},
        {39: (), 40: (OURS,), 90: ()},
        worker(started=-1_000),
    ),
    Scenario(
        "a restart that resets counters is silent, and the first failure after it pages",
        {ours(): flat(5, 30) + flat(0, 35) + flat(1), incomplete(): flat(9, 30) + nothing(3)},
        {29: (), 30: (), 45: (), 64: (), 65: (OURS,), 120: ()},
        worker(started=-1_000),
    ),
    Scenario(
        "a worker that takes over from another is silent until it meets a failure of its own",
        {
            ours("w1"): flat(5, 30),
            ours("w2"): nothing(31) + flat(0),
            incomplete("w1"): flat(9, 30),
            incomplete("w2"): born(60),
        },
        {29: (), 31: (), 45: (), 59: (), 60: (INCOMPLETE,), 120: ()},
        worker("w1", last=30, started=-1_000) | worker("w2", first=31, last=MINUTES),
    ),
    Scenario(
        "a gap in scraping does not make old counters new",
        {ours(): flat(5, 10) + nothing(30) + flat(5), incomplete(): flat(9, 10) + nothing(30) + flat(9)},
        {9: (), 30: (NO_STAGE,), 40: (), 45: (), 60: ()},
        {name: values[:10] + nothing(30) + values[40:] for name, values in worker(started=-1_000).items()},
    ),
    Scenario(
        "a Prometheus that meets workers for the first time does not report their past",
        {ours(): flat(5), incomplete(): flat(9)},
        {0: (), 5: (), 16: (), 40: ()},
        worker(started=-1_000),
    ),
    Scenario(
        "the very first incomplete turn of a path raises a ticket at once, and resolves",
        {incomplete(): born(60)},
        {59: (), 60: (INCOMPLETE,), 74: (INCOMPLETE,), 110: ()},
    ),
    Scenario(
        "one more incomplete turn of a known path raises a ticket",
        {incomplete(): flat(7, 60) + flat(8)},
        {59: (), 60: (INCOMPLETE,), 110: ()},
        worker(started=-1_000),
    ),
    Scenario(
        "waived gaps raise no ticket but count towards the mass that pages",
        {
            incomplete(waived="true"): growing((40, 10), (MINUTES, 0)),
            fingerprints("false"): growing((40, 10), (MINUTES, 0)),
            fingerprints("true"): growing((MINUTES, 90)),
        },
        {5: (), 11: (MASS,), 40: (MASS,), 90: (), 129: ()},
    ),
    Scenario(
        "a small share, or few turns, are no mass",
        {
            fingerprints("false"): growing((MINUTES, 4)),
            fingerprints("true"): growing((MINUTES, 96)),
            series("engram_fingerprint_turns_total", service="rare", complete="false"): growing((MINUTES, 1)),
        },
        {30: (), 60: (), 120: ()},
    ),
    Scenario(
        "being behind pages after a minute and ends with its cause",
        {of_partition("engram_own_lag_seconds"): flat(1, 20) + flat(301, 10) + flat(1)},
        {20: (), 21: (BLIND,), 29: (BLIND,), 30: ()},
    ),
    Scenario(
        "a moment behind pages nobody",
        {of_partition("engram_own_lag_seconds"): flat(1, 20) + flat(900, 1) + flat(300)},
        {20: (), 21: (), 40: ()},
    ),
    Scenario(
        "no worker at all pages",
        {"up": flat(1)},
        {0: (), 1: (NO_STAGE,), 60: (NO_STAGE,)},
        {},
    ),
    Scenario(
        "workers that all drain page, one of two does not",
        {
            series("engram_up_stage", "w1", stage="turns"): flat(1, 20) + flat(0),
            series("engram_up_stage", "w2", stage="turns"): flat(1, 40) + flat(0, 10) + flat(1),
        },
        {30: (), 41: (NO_STAGE,), 49: (NO_STAGE,), 50: ()},
        worker("w1") | worker("w2"),
    ),
    Scenario(
        "a partition with unread records that commits nothing pages",
        {
            of_partition("engram_lag_records"): flat(0, 20) + flat(100, 30) + flat(0),
            of_partition("engram_committed_offset"): flat(50, 50) + flat(150),
        },
        {22: (), 25: (HALTED,), 49: (HALTED,), 90: ()},
    ),
    Scenario(
        "a partition that never committed anything pages",
        {of_partition("engram_lag_records"): flat(100, 20) + flat(0)},
        {4: (), 6: (HALTED,), 60: ()},
    ),
    Scenario(
        "a partition that is far behind but moves pages nobody, also across a change of its owner",
        {
            of_partition("engram_lag_records"): flat(100_000, 40),
            of_partition("engram_committed_offset"): growing((39, 100)),
            of_partition("engram_lag_records", "w2"): nothing(41) + flat(90_000),
            of_partition("engram_committed_offset", "w2"): nothing(42) + growing((MINUTES, 100)),
        },
        {10: (), 39: (), 45: (), 60: ()},
        worker("w1") | worker("w2"),
    ),
    Scenario(
        "a partition halted because its dead letters cannot be written pages, whatever its lag says",
        {of_partition("engram_partition_halted", reason="dead_letter"): flat(0, 20) + flat(1, 20) + flat(0)},
        {24: (), 25: (HALTED,), 80: ()},
    ),
    Scenario(
        "partitions that wait for the registry raise a ticket instead of a page",
        {
            of_partition("engram_partition_halted", reason="registry"): flat(0, 20) + flat(1, 20) + flat(0),
            of_partition("engram_lag_records"): flat(0, 20) + flat(100, 20) + flat(0),
            of_partition("engram_committed_offset"): flat(50, 40) + flat(150),
        },
        {24: (), 25: (REGISTRY,), 39: (REGISTRY,), 80: ()},
    ),
    Scenario(
        "records with two ends page, though another worker has none",
        {
            series("engram_conservation_difference", "w1", topic="turns"): flat(0),
            series("engram_conservation_difference", "w2", topic="turns"): flat(0, 20) + flat(-1, 20) + flat(0),
        },
        {24: (), 25: (CONSERVATION,), 80: ()},
        worker("w1") | worker("w2"),
    ),
    Scenario(
        "records without an end page, though another worker has as many with two",
        {
            series("engram_conservation_difference", "w1", topic="turns"): flat(0, 20) + flat(1, 20) + flat(0),
            series("engram_conservation_difference", "w2", topic="turns"): flat(0, 20) + flat(-1, 20) + flat(0),
        },
        {24: (), 25: (CONSERVATION,), 80: ()},
        worker("w1") | worker("w2"),
    ),
    Scenario(
        "a difference seen in one scrape pages nobody",
        {series("engram_conservation_difference", topic="turns"): flat(0, 20) + flat(500, 1) + flat(0)},
        {20: (), 25: (), 40: ()},
    ),
    Scenario(
        "offsets lost once page",
        {series("engram_offsets_lost_total", topic="turns"): once(30, 5_000)},
        {29: (), 30: (LOST,), 90: ()},
    ),
    Scenario(
        "two in a hundred records refused for their producers' fault raise a ticket",
        {RECEIVED: growing((MINUTES, 100)), theirs(): growing((40, 2), (MINUTES, 0))},
        {5: (), 8: (RATIO,), 40: (RATIO,), 110: ()},
    ),
    Scenario(
        "a burst of refused records whose series was just born raises a ticket",
        {RECEIVED: growing((MINUTES, 100)), theirs(): born(30, 200)},
        {30: (), 35: (RATIO,), 110: ()},
    ),
    Scenario(
        "few refused records, or few records, raise none",
        {
            RECEIVED: growing((MINUTES, 1_000)),
            theirs(): growing((MINUTES, 5)),
            series("engram_records_received_total", topic="state-writes"): growing((MINUTES, 1)),
            theirs().replace("turns", "state-writes"): growing((MINUTES, 1)),
        },
        {30: (), 60: (), 120: ()},
    ),
    Scenario(
        "a single record under another key raises a ticket",
        {series("engram_key_mismatch_total", topic="turns"): once(30)},
        {29: (), 30: (KEYS,), 90: ()},
    ),
    Scenario(
        "too many unreplayable turns of those graded raise a ticket",
        {
            graded("graded", "exact"): growing((MINUTES, 90)),
            graded("graded", "unreplayable"): growing((60, 10), (MINUTES, 0)),
        },
        {10: (), 17: (UNREPLAYABLE,), 60: (UNREPLAYABLE,), 110: ()},
    ),
    Scenario(
        "too many invalid manifests raise a ticket",
        {
            graded("graded", "exact"): growing((MINUTES, 97)),
            graded("manifest_invalid", "none"): growing((60, 3), (MINUTES, 0)),
        },
        {10: (), 17: (INVALID,), 60: (INVALID,), 120: ()},
    ),
    Scenario(
        "too many turns without a manifest raise a ticket",
        {
            graded("graded", "exact"): growing((MINUTES, 90)),
            graded("no_manifest", "none"): growing((60, 10), (MINUTES, 0)),
        },
        {10: (), 17: (NO_MANIFEST,), 60: (NO_MANIFEST,), 110: ()},
    ),
    Scenario(
        "a bad minute of manifests raises no ticket",
        {
            graded("graded", "exact"): growing((MINUTES, 100)),
            graded("graded", "unreplayable"): once(30, 60),
        },
        {31: (), 44: (), 60: ()},
    ),
    Scenario(
        "an overflowing label is told",
        {series("engram_label_overflow_total", metric="engram_fidelity_turns_total"): once(30)},
        {29: (), 30: (OVERFLOW,), 90: ()},
    ),
]
