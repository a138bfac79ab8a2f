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


BOOLEANS: Final = ("true", "false")
