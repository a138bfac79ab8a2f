"""The closed values of labels that no other module declares."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class End(StrEnum):
    """The four ends of an accepted record; their sum equals what was received."""

    PROCESSED = "processed"
    TOMBSTONE = "tombstone"
    DUPLICATE = "duplicate"
    DLQ = "dlq"


class Stage(StrEnum):
    """The steps of one batch, in order."""

    RESOLVE = "resolve"
    DECODE = "decode"
    PROCESS = "process"
    PUBLISH = "publish"


class Pipeline(StrEnum):
    """The parts of the product that must run somewhere for its verdicts to be current."""

    TURNS = "turns"


class HaltReason(StrEnum):
    """Why a partition is deliberately not read on."""

    REGISTRY = "registry"
    DEAD_LETTER = "dead_letter"
    UNREADABLE = "unreadable"
    OUTPUT = "output"
    OURS_IN_A_ROW = "ours_in_a_row"


class CommitOutcome(StrEnum):
    """Outcome of one commit request: refused means replay after a rebalance, failed means it is tried again."""

    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"


class ProducerError(StrEnum):
    """Why the broker did not acknowledge an output."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    AUTHORIZATION = "authorization"
    TOO_LARGE = "too_large"
    OTHER = "other"


class RegistryOutcome(StrEnum):
    """Outcome of one request to the schema registry."""

    FOUND = "found"
    NOT_FOUND = "not_found"
    UNREACHABLE = "unreachable"


class SchemaState(StrEnum):
    """What a worker holds of a schema id."""

    ADMITTED = "admitted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class ReloadOutcome(StrEnum):
    """Outcome of reading an edited policy file; refused leaves the former policy in force."""

    APPLIED = "applied"
    REFUSED = "refused"


class DigestOutcome(StrEnum):
    """Outcome of checking a manifest artifact's digest against its value."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNVERIFIABLE = "unverifiable"


class GradingStatus(StrEnum):
    """What became of a turn's manifest."""

    GRADED = "graded"
    NO_MANIFEST = "no_manifest"
    MANIFEST_INVALID = "manifest_invalid"


class LevelLabel(StrEnum):
    """Fidelity level of a turn; ``none`` without a graded manifest."""

    EXACT = "exact"
    CONTROLLED = "controlled"
    PARTIAL = "partial"
    UNREPLAYABLE = "unreplayable"
    NONE = "none"


class WaiverState(StrEnum):
    """Waivers of the policy file: an expired one no longer mutes."""

    ACTIVE = "active"
    EXPIRED = "expired"


class PathEvent(StrEnum):
    """What happened to a producer path."""

    FIRST_SEEN = "path_first_seen"


class StreamAlert(StrEnum):
    """Alerts that are decided in the stream and published on the topic ``alerts``."""

    PATH_FIRST_SEEN = "PathFirstSeen"


class AlertState(StrEnum):
    """State of an alert on the topic ``alerts``."""

    FIRING = "firing"
    RESOLVED = "resolved"


FINGERPRINT_FIELDS: Final = (
    "definition",
    "state_shape_version",
    "summary_depth",
    "state_counts",
    "model_id",
    "moderation_version",
)
INCOMPLETE_STATES: Final = ("absent_in_writer_schema", "null", "sentinel", "alias", "malformed", "implausible")
TIER2_FIELDS: Final = (
    "assembled_at",
    "instance_id",
    "build_id",
    "region",
    "path",
    "turn_index",
    "state_position",
)
BOOLEANS: Final = ("true", "false")

GAP_CODES: Final = (
    "model_provider_missing",
    "model_name_missing",
    "input_hash_only",
    "input_not_captured",
    "parameters_hash_only",
    "parameters_unavailable",
    "instructions_unknown",
    "trace_id_missing",
    "source_provenance_unknown",
    "source_not_observed",
    "capture_not_native",
    "source_hash_missing",
    "artifact_provenance_unknown",
    "artifact_not_observed",
    "code_version_missing",
    "runtime_missing",
    "dependency_lock_missing",
    "configuration_hash_missing",
    "image_digest_missing",
    "tool_mode_unknown",
    "tool_definitions_incomplete",
    "tool_definition_unmatched",
    "tool_calls_incomplete",
    "tool_inputs_incomplete",
    "tool_outputs_incomplete",
    "tool_outputs_unknown",
    "tool_determinism_unproven",
    "retrieval_mode_unknown",
    "retrieval_configuration_missing",
    "corpus_identity_missing",
    "retrieval_output_incomplete",
    "retrieval_output_unknown",
    "retrieval_determinism_unproven",
    "side_effects_live",
    "side_effects_unknown",
    "model_determinism_unknown",
    "model_determinism_best_effort",
    "model_determinism_not_guaranteed",
    "seed_not_reconstructable",
)
ISSUE_CODES: Final = (
    "missing",
    "unknown_field",
    "wrong_type",
    "empty_text",
    "bad_enum",
    "bad_literal",
    "bad_timestamp",
    "bad_digest",
    "bad_number",
    "bad_json",
    "too_deep",
)
FINDING_CODES: Final = (
    "digest_mismatch",
    "call_error_hash_only",
    "call_error_unavailable",
    "call_error_unproven",
    "model_mismatch",
    "duplicate_call_id",
    "duplicate_tool_name",
)
