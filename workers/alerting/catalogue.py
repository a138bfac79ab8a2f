"""Every alert, declared once; docs/alerts.md and the Prometheus rules are generated from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from workers.alerting.spec import Alert, Expression, Recording
from workers.metrics import catalogue as m
from workers.metrics.labels import HaltReason, LevelLabel, Pipeline, StreamAlert
from workers.metrics.spec import Metric
from workers.processing.fidelity.verdict import Status
from workers.processing.policy import FidelityBounds, Policy
from workers.reasons import ReasonClass

WINDOW: Final = "15m"
WINDOW_SECONDS: Final = 900
STARTED_WITHIN_SECONDS: Final = WINDOW_SECONDS + 60
"""A process counts as young for one scrape longer than the window, or its first sample would leave a gap."""
STALL_WINDOW: Final = "2m"
MAX_DEAD_LETTER_SHARE: Final = 0.01
MAX_INCOMPLETE_SHARE: Final = 0.05

HISTORY_KNOWN: Final = Recording(
    "engram:history_known:15m",
    ("job", "instance"),
    f"""max by (job, instance) ({m.BUILD_INFO.name} offset {WINDOW})
or
max by (job, instance) (
  (process_start_time_seconds > time() - {STARTED_WITHIN_SECONDS}) and on (job, instance) {m.BUILD_INFO.name}
)""",
)
"""Workers whose missing samples of a window ago prove that a series is new: scraped then, or started since.

Without it a gap in scraping would make every old counter look new.
"""


def _grown(metric: Metric, *by: str) -> Recording:
    """Return the recording of what ``metric`` grew by in the window.

    A series born in the window counts in full, which ``increase`` would not see: it misses the first value.
    """
    name = metric.name
    return Recording(
        f"{name.replace('engram_', 'engram:', 1).removesuffix('_total')}:grown15m",
        by,
        f"""sum by ({", ".join(by)}) (
  (({name} unless {name} offset {WINDOW}) and on (job, instance) {HISTORY_KNOWN.name})
  or
  increase({name}[{WINDOW}])
)""",
    )


RECEIVED_GROWN: Final = _grown(m.RECORDS_RECEIVED, "topic")
DEAD_LETTERS_GROWN: Final = _grown(m.DEAD_LETTERS, "topic", "reason", "class")
OFFSETS_LOST_GROWN: Final = _grown(m.OFFSETS_LOST, "topic")
KEY_MISMATCH_GROWN: Final = _grown(m.KEY_MISMATCH, "topic")
FIDELITY_GROWN: Final = _grown(m.FIDELITY_TURNS, "service", "status", "level")
FINGERPRINTS_GROWN: Final = _grown(m.FINGERPRINT_TURNS, "service", "complete")
INCOMPLETE_GROWN: Final = _grown(m.FINGERPRINT_INCOMPLETE, "service", "path", "field", "state", "waived")
OVERFLOW_GROWN: Final = _grown(m.LABEL_OVERFLOW, "metric")

RECORDINGS: Final = (
    HISTORY_KNOWN,
    RECEIVED_GROWN,
    DEAD_LETTERS_GROWN,
    OFFSETS_LOST_GROWN,
    KEY_MISMATCH_GROWN,
    FIDELITY_GROWN,
    FINGERPRINTS_GROWN,
    INCOMPLETE_GROWN,
    OVERFLOW_GROWN,
)
"""In the order of evaluation: what a recording reads is recorded before it."""


def _share(by: str, part: str, whole: str, bound: float, policy: Policy) -> str:
    """Return an expression for ``part`` of ``whole`` above ``bound``, where the whole is at least ``n_min``."""
    return f"""sum by ({by}) ({part}) / sum by ({by}) ({whole}) > {bound:g}
and
sum by ({by}) ({whole}) >= {policy.n_min}"""


def _share_of_turns(part: str, whole: str, bound_of: Callable[[FidelityBounds], float | None]) -> Expression:
    """Return the expression of a share of turns per service: one bound for all, and those of single services.

    ``part`` and ``whole`` are matchers on the graded turns; a bound of None switches the alert off.
    """

    def turns(matcher: str, services: str) -> str:
        matchers = ", ".join(filter(None, (matcher, services)))
        return f"{FIDELITY_GROWN.name}{{{matchers}}}" if matchers else FIDELITY_GROWN.name

    def expression(policy: Policy) -> str | None:
        general = bound_of(policy.fidelity_bounds)
        own = {name: bound_of(policy.fidelity_bounds_of(name)) for name in sorted(policy.fidelity_bounds_by_service)}
        own = {name: bound for name, bound in own.items() if bound != general}
        names = "|".join(name.replace(".", "[.]") for name in own)
        bounds = [(f'service!~"{names}"' if names else "", general)]
        bounds += [(f'service="{name}"', bound) for name, bound in own.items()]
        return (
            "\nor\n".join(
                _share("service", turns(part, services), turns(whole, services), bound, policy)
                for services, bound in bounds
                if bound is not None
            )
            or None
        )

    return expression


def _blind(policy: Policy) -> str:
    stages = "\nor\n".join(f'absent({m.UP_STAGE.name}{{stage="{stage}"}})' for stage in Pipeline)
    return f"""max by (topic) ({m.OWN_LAG_SECONDS.name}) > {policy.own_lag_max.total_seconds():g}
or
max by (stage) ({m.UP_STAGE.name}) < 1
or
{stages}"""


_HALTED: Final = f"""(
  max by (topic, partition) ({m.PARTITION_HALTED.name}{{reason!="{HaltReason.REGISTRY}"}}) > 0
  or
  (
    max by (topic, partition) ({m.LAG_RECORDS.name}) > 0
    unless
    sum by (topic, partition) (changes({m.COMMITTED_OFFSET.name}[{STALL_WINDOW}])) > 0
  )
)
unless
max by (topic, partition) ({m.PARTITION_HALTED.name}{{reason="{HaltReason.REGISTRY}"}}) > 0"""

_PER_SERVICE: Final = "{{ $value | humanizePercentage }} of the turns of {{ $labels.service }} in the last 15 minutes "

_ALERTS: Final = (
    Alert(
        name="EngramBlind",
        origin="prometheus",
        severity="page",
        team="engram",
        component="worker",
        summary="The workers are too far behind, or do not run: verdicts and other alerts are out of date.",
        subject=("topic", "stage"),
        expression=_blind,
        hold=60,
        keeps_firing=False,
        description="{{ if $labels.topic }}The oldest unprocessed record of {{ $labels.topic }} has waited for "
        "{{ $value | humanizeDuration }}.{{ else }}No worker runs the stage {{ $labels.stage }}.{{ end }}",
    ),
    Alert(
        name="PartitionHalted",
        origin="prometheus",
        severity="page",
        team="engram",
        component="worker",
        summary="A partition with unread records commits nothing.",
        subject=("topic", "partition"),
        expression=lambda _: _HALTED,
        hold=300,
        description="Partition {{ $labels.partition }} of {{ $labels.topic }} has unread records and commits nothing.",
    ),
    Alert(
        name="ConservationBroken",
        origin="prometheus",
        severity="page",
        team="engram",
        component="worker",
        summary="Records were received that came to no end, or to more than one.",
        subject=("topic",),
        expression=lambda _: f"max by (topic) (abs({m.CONSERVATION_DIFFERENCE.name})) > 0",
        hold=300,
        description="Received and ended records of {{ $labels.topic }} differ by {{ $value }} in one worker.",
    ),
    Alert(
        name="OffsetsLost",
        origin="prometheus",
        severity="page",
        team="engram",
        component="worker",
        summary="Kafka deleted records before they were read.",
        subject=("topic",),
        expression=lambda _: f"{OFFSETS_LOST_GROWN.name} > 0",
        description='{{ $value | printf "%.0f" }} offsets of {{ $labels.topic }} were deleted before they were read.',
    ),
    Alert(
        name="RegistryUnavailable",
        origin="prometheus",
        severity="ticket",
        team="engram",
        component="registry",
        summary="Partitions wait for a schema that the registry cannot be asked for.",
        subject=("topic",),
        expression=lambda _: (
            "count by (topic) (\n  max by (topic, partition) "
            f'({m.PARTITION_HALTED.name}{{reason="{HaltReason.REGISTRY}"}}) > 0\n)'
        ),
        hold=300,
        description="{{ $value }} partitions of {{ $labels.topic }} wait for the schema registry.",
    ),
    Alert(
        name="DeadLetterRatio",
        origin="prometheus",
        severity="ticket",
        team="producers",
        component="producer",
        summary="Producers send records that cannot be accepted.",
        subject=("topic",),
        expression=lambda policy: _share(
            "topic",
            f'{DEAD_LETTERS_GROWN.name}{{class="{ReasonClass.PRODUCER}"}}',
            RECEIVED_GROWN.name,
            MAX_DEAD_LETTER_SHARE,
            policy,
        ),
        hold=300,
        description="{{ $value | humanizePercentage }} of the records of {{ $labels.topic }} in the last 15 minutes "
        "became dead letters by their producers' fault.",
    ),
    Alert(
        name="DeadLetterOurs",
        origin="prometheus",
        severity="page",
        team="engram",
        component="worker",
        summary="Records became dead letters by our own fault.",
        subject=("topic", "reason"),
        expression=lambda _: f'sum by (topic, reason) ({DEAD_LETTERS_GROWN.name}{{class="{ReasonClass.OURS}"}}) > 0',
        description='{{ $value | printf "%.0f" }} records of {{ $labels.topic }} became dead letters in the last 15 '
        "minutes for {{ $labels.reason }}.",
    ),
    Alert(
        name="KeyMismatch",
        origin="prometheus",
        severity="ticket",
        team="producers",
        component="producer",
        summary="A producer sends records under another key than the one their ids give.",
        subject=("topic",),
        expression=lambda _: f"{KEY_MISMATCH_GROWN.name} > 0",
        description='{{ $value | printf "%.0f" }} records of {{ $labels.topic }} in the last 15 minutes.',
    ),
    Alert(
        name="FidelityUnreplayable",
        origin="prometheus",
        severity="ticket",
        team="producers",
        component="producer",
        summary="Too many graded turns of a service cannot be replayed at all.",
        subject=("service",),
        expression=_share_of_turns(
            f'level="{LevelLabel.UNREPLAYABLE}"', f'status="{Status.GRADED}"', lambda bounds: bounds.unreplayable
        ),
        hold=900,
        description=_PER_SERVICE + "that have a valid manifest cannot be replayed.",
    ),
    Alert(
        name="FidelityInvalid",
        origin="prometheus",
        severity="ticket",
        team="producers",
        component="producer",
        summary="Too many manifests of a service break their contract.",
        subject=("service",),
        expression=_share_of_turns(
            f'status="{Status.MANIFEST_INVALID}"', f'status!="{Status.NO_MANIFEST}"', lambda bounds: bounds.invalid
        ),
        hold=900,
        description=_PER_SERVICE + "that have a manifest have an invalid one.",
    ),
    Alert(
        name="ManifestMissing",
        origin="prometheus",
        severity="ticket",
        team="producers",
        component="producer",
        summary="Too many turns of a service come without a manifest.",
        subject=("service",),
        expression=_share_of_turns(f'status="{Status.NO_MANIFEST}"', "", lambda bounds: bounds.missing),
        hold=900,
        description=_PER_SERVICE + "have no manifest.",
    ),
    Alert(
        name="FingerprintIncomplete",
        origin="prometheus",
        severity="ticket",
        team="producers",
        component="producer",
        summary="Turns arrive whose state fingerprint lacks a part, so they cannot be attributed.",
        subject=("service",),
        labels=("path", "field", "state"),
        expression=lambda _: f'sum by (service, path, field, state) ({INCOMPLETE_GROWN.name}{{waived="false"}}) > 0',
        description='{{ $value | printf "%.0f" }} turns of {{ $labels.service }} by path {{ $labels.path }} in the '
        "last 15 minutes: {{ $labels.field }} is {{ $labels.state }}.",
    ),
    Alert(
        name="FingerprintIncompleteMass",
        origin="prometheus",
        severity="page",
        team="producers",
        component="producer",
        summary="A large share of a service's turns cannot be attributed; waivers do not count here.",
        subject=("service",),
        expression=lambda policy: _share(
            "service",
            f'{FINGERPRINTS_GROWN.name}{{complete="false"}}',
            FINGERPRINTS_GROWN.name,
            MAX_INCOMPLETE_SHARE,
            policy,
        ),
        hold=600,
        description=_PER_SERVICE + "have an incomplete fingerprint.",
    ),
    Alert(
        name="LabelOverflow",
        origin="prometheus",
        severity="info",
        team="engram",
        component="worker",
        summary="A metric has more label values than its cap, or values a label may not hold; they count as other.",
        labels=("metric",),
        expression=lambda _: f"{OVERFLOW_GROWN.name} > 0",
        description='{{ $value | printf "%.0f" }} updates of {{ $labels.metric }} went to `other` in the last 15 '
        "minutes.",
    ),
    Alert(
        name=StreamAlert.PATH_FIRST_SEEN,
        origin="stream",
        severity="info",
        team="producers",
        component="producer",
        summary="A way of producing turns was seen that nobody knew of.",
        subject=("service", "release", "sdk", "sdk_version", "path", "schema_id"),
    ),
)

ALERTS: Final = {alert.name: alert for alert in _ALERTS}
"""Every alert by name."""
