"""Event time of a turn: when its input was assembled, as the producer's clock says; never when it arrived.

Source: docs/concepts/time.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from workers.processing.policy import Policy
from workers.records import RawRecord

FIRST_APPEND_HEADER: Final = "engram.first-append"
"""On a redriven record: when the broker first appended it, in milliseconds."""


def event_time(turn: Mapping[str, Any]) -> tuple[int, Literal["assembly", "completion"]]:
    """Return the event time of a valid ``turn`` in milliseconds as sent, and which field it is."""
    assembled = turn["assembled_at"]
    return (turn["completed_at"], "completion") if assembled is None else (assembled, "assembly")


def append_time(record: RawRecord) -> int:
    """Return when the broker first appended ``record``, in milliseconds: before its redrive, if it was redriven."""
    for name, content in record.headers:
        if name == FIRST_APPEND_HEADER and content is not None and content.isdigit() and len(content) <= 15:
            return min(int(content), record.timestamp)
    return record.timestamp


def is_clamped(turn: Mapping[str, Any], record: RawRecord, policy: Policy) -> bool:
    """Tell whether the event time lies more than the policy's ``skew`` past the append time."""
    return event_time(turn)[0] > append_time(record) + policy.skew_ms
