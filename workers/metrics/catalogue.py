"""Every metric the product exports, declared once; docs/metrics.md and the alert rules are checked against it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from workers import reasons
from workers.metrics import labels
from workers.metrics.spec import Label, Metric, MetricKind
from workers.policy_file import Reload
from workers.processing.columns.routes import RouteReason
from workers.processing.fidelity.catalogue import Kind, codes_of
from workers.processing.fidelity.findings import DigestOutcome
from workers.processing.fidelity.verdict import Status
from workers.processing.fingerprint import COMPLETE_STATES, PARTS, SECOND_TIER, FieldState

_GAP_STATES: Final = tuple(str(state) for state in FieldState if state not in COMPLETE_STATES)

LabelSource = type[StrEnum] | tuple[str, ...] | Label


def _closed(source: LabelSource) -> tuple[str, ...] | Label:
    return source if isinstance(source, Label | tuple) else tuple(str(member) for member in source)


def _metric(kind: MetricKind, name: str, text: str, sources: dict[str, LabelSource]) -> Metric:
    return Metric(name, text, kind, tuple((label, _closed(source)) for label, source in sources.items()))


def _counter(name: str, text: str, **sources: LabelSource) -> Metric:
    return _metric("counter", name, text, sources)


def _gauge(name: str, text: str, **sources: LabelSource) -> Metric:
    return _metric("gauge", name, text, sources)


def _histogram(name: str, text: str, buckets: tuple[float, ...], **sources: LabelSource) -> Metric:
    plain = _metric("histogram", name, text, sources)
    return Metric(plain.name, plain.help, plain.kind, plain.labels, buckets)


# The way of a record.
RECORDS_RECEIVED: Final = _counter(
    "engram_records_received_total",
    "Records received, counted when their batch completes.",
    topic=Label.TOPIC,
)
RECORDS: Final = _counter(
    "engram_records_total",
    "Records by the end they came to; the sum over the ends equals the records received.",
    topic=Label.TOPIC,
    end=labels.End,
)
RECORDS_ABANDONED: Final = _counter(
    "engram_records_abandoned_total",
    "Records of batches given up at a rebalance; their next owner receives them again.",
    topic=Label.TOPIC,
)
CONSERVATION_DIFFERENCE: Final = _gauge(
    "engram_conservation_difference",
    "Records received minus the sum of their ends since the start of the process; anything but 0 is our error.",
    topic=Label.TOPIC,
)
RECORDS_CONFLICTING: Final = _counter(
    "engram_records_conflicting_total",
    "Duplicates whose body differs from the first record of that turn.",
    topic=Label.TOPIC,
)
KEY_MISMATCH: Final = _counter(
    "engram_key_mismatch_total",
    "Records whose key is not the one derived from their ids; processed by their ids.",
    topic=Label.TOPIC,
)
CLAMPED: Final = _counter(
    "engram_clamped_total",
    "Records whose event time was too far past the broker's append time and was clamped to it.",
    topic=Label.TOPIC,
)
DEAD_LETTERS: Final = Metric(
    "engram_dead_letters_total",
    "Dead letters written, by the input they stem from.",
    "counter",
    (
        ("topic", Label.TOPIC),
        ("reason", _closed(reasons.Reason)),
        ("class", _closed(reasons.ReasonClass)),
    ),
    combinations=tuple((str(e.reason), str(e.reason_class)) for e in reasons.CATALOGUE.values()),
)
DECODE_ROWS: Final = _counter(
    "engram_decode_rows_total",
    "Records by the way they were decoded and judged, and why that way.",
    route=("columns", "reference"),
    reason=("whole", "no_columns", "schema", "few_rows", "failed", *RouteReason),
)
UNKNOWN_FIELDS: Final = _counter(
    "engram_unknown_fields_total",
    "Fields of writers' schemas that ours does not have and that are ignored, counted once per schema id.",
)

# Partitions, offsets and the group.
LAG_RECORDS: Final = _gauge(
    "engram_lag_records",
    "Records between the committed offset and the end of the partition.",
    topic=Label.TOPIC,
    partition=Label.PARTITION,
)
OWN_LAG_SECONDS: Final = _gauge(
    "engram_own_lag_seconds",
    "Now minus the append time of the oldest unprocessed record; 0 without one.",
    topic=Label.TOPIC,
    partition=Label.PARTITION,
)
COMMITTED_OFFSET: Final = _gauge(
    "engram_committed_offset",
    "Offset last committed: the next one to read after a restart.",
    topic=Label.TOPIC,
    partition=Label.PARTITION,
)
BATCHES_IN_FLIGHT: Final = _gauge(
    "engram_batches_in_flight",
    "Batches begun and not completed.",
    topic=Label.TOPIC,
    partition=Label.PARTITION,
)
PARTITION_HALTED: Final = _gauge(
    "engram_partition_halted",
    "1 while a partition is deliberately not read on.",
    topic=Label.TOPIC,
    partition=Label.PARTITION,
    reason=labels.HaltReason,
)
OFFSETS_LOST: Final = _counter(
    "engram_offsets_lost_total",
    "Offsets the broker deleted before they were read.",
    topic=Label.TOPIC,
)
TRANSPORT_GAPS: Final = _counter(
    "engram_transport_gap_total",
    "Fetches that did not start where the last one ended; they are discarded and read again.",
    topic=Label.TOPIC,
)
COMMITS: Final = _counter("engram_commits_total", "Commit requests.", outcome=labels.CommitOutcome)
REBALANCES: Final = _counter("engram_rebalances_total", "Assignments of partitions received from the group.")
DRAIN_SECONDS: Final = _histogram(
    "engram_drain_seconds",
    "Time to finish begun batches before partitions are given back.",
    (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0),
)

# Time.
BATCH_SECONDS: Final = _histogram(
    "engram_batch_seconds",
    "Time one batch spent in one stage.",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    topic=Label.TOPIC,
    stage=labels.Stage,
)
END_TO_END_SECONDS: Final = _histogram(
    "engram_end_to_end_seconds",
    "From the broker's append of a record to the acknowledgement of its output; one observation per batch, its oldest "
    "record.",
    (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
    topic=Label.TOPIC,
)

# What the worker talks to, and what it is.
PRODUCER_ERRORS: Final = _counter(
    "engram_producer_errors_total",
    "Outputs the broker did not acknowledge at the first attempt.",
    topic=Label.TOPIC,
    reason=labels.ProducerError,
)
REGISTRY_REQUESTS: Final = _counter(
    "engram_registry_requests_total", "Requests to the schema registry.", outcome=labels.RegistryOutcome
)
SCHEMA_IDS: Final = _gauge("engram_schema_ids", "Schema ids held by the worker.", state=labels.SchemaState)
ALERTS: Final = _counter(
    "engram_alerts_total",
    "Alerts published on the topic alerts.",
    alert=labels.StreamAlert,
    state=labels.AlertState,
)
POLICY_RELOADS: Final = _counter("engram_policy_reloads_total", "Edits of the policy file noticed.", outcome=Reload)
POLICY_INFO: Final = _gauge("engram_policy_info", "1 for the policy in force.", version=Label.VERSION)
BUILD_INFO: Final = _gauge(
    "engram_build_info",
    "1 for the running version and its edition of the grading rules.",
    version=Label.VERSION,
    rules=Label.VERSION,
)
UP_STAGE: Final = _gauge(
    "engram_up_stage",
    "1 while this worker runs the stage: assigned, restored and not draining.",
    stage=labels.Pipeline,
)

# Replay fidelity.
FIDELITY_TURNS: Final = _counter(
    "engram_fidelity_turns_total",
    "Turns by grading outcome.",
    status=Status,
    level=labels.LevelLabel,
    service=Label.SERVICE,
    path=Label.PATH,
)
FIDELITY_GAPS: Final = _counter(
    "engram_fidelity_gaps_total", "Pieces of evidence missing from graded manifests.", code=codes_of(Kind.GAP)
)
FIDELITY_FINDINGS: Final = _counter(
    "engram_fidelity_findings_total",
    "Contradictions inside manifests; they do not change a level.",
    code=codes_of(Kind.FINDING),
    service=Label.SERVICE,
)
FIDELITY_ISSUES: Final = _counter(
    "engram_fidelity_issues_total",
    "Breaches of the manifest's contract in invalid manifests.",
    code=codes_of(Kind.ISSUE),
)
FIDELITY_DIGEST_CHECKS: Final = _counter(
    "engram_fidelity_digest_checks_total", "Digests checked against their values.", outcome=DigestOutcome
)

# Fingerprint completeness.
FINGERPRINT_TURNS: Final = _counter(
    "engram_fingerprint_turns_total",
    "Turns by whether all six fingerprint parts are known.",
    service=Label.SERVICE,
    complete=labels.BOOLEANS,
)
FINGERPRINT_INCOMPLETE: Final = _counter(
    "engram_fingerprint_incomplete_total",
    "Fingerprint parts that are not known, one per turn and part; waived ones raise no ticket.",
    service=Label.SERVICE,
    path=Label.PATH,
    field=PARTS,
    state=_GAP_STATES,
    waived=labels.BOOLEANS,
)
INCOMPLETE_CONVERSATIONS: Final = _gauge(
    "engram_incomplete_conversations_ratio",
    "Share of today's conversations (UTC, of the partitions of this worker) that had an incomplete turn.",
    service=Label.SERVICE,
)
TIER2_MISSING: Final = _counter(
    "engram_tier2_missing_total",
    "Optional fields missing from turns, without which a finding cannot be narrowed down.",
    service=Label.SERVICE,
    field=SECOND_TIER,
)
UNKNOWN_ATTESTATIONS: Final = _counter(
    "engram_unknown_attestations_total",
    "Names in not_applicable that are no fingerprint part; ignored.",
    service=Label.SERVICE,
)
PATH_EVENTS: Final = _counter("engram_path_events_total", "Events of the path inventory.", event=labels.PathEvent)
WAIVERS: Final = _gauge("engram_waivers", "Waivers of the policy in force.", state=labels.WaiverState)

_LABELLED: Final = tuple(value.name for value in list(globals().values()) if isinstance(value, Metric) and value.labels)
LABEL_OVERFLOW: Final = _counter(
    "engram_label_overflow_total",
    "Updates whose label value was over a cap or not allowed, and went to `other`.",
    metric=_LABELLED,
)

CATALOGUE: Final = {value.name: value for value in list(globals().values()) if isinstance(value, Metric)}
"""Every metric by its exported name."""
