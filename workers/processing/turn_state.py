"""What a partition of turns remembers: repeats, verdicts that a tombstone nulls, producing paths, conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.processing.conversations import ConversationsOfDay
from workers.processing.duplicates import DuplicateWindow
from workers.processing.erasure import KnownTurns
from workers.processing.path_watch import PathWatch
from workers.records import Partition


@dataclass(frozen=True, slots=True)
class TurnOutputs:
    """Where verdicts go: the topic, its number of partitions, and how they are encoded."""

    fidelity: str
    fidelity_partitions: int
    encode_verdict: Callable[[Mapping[str, Any]], bytes]


@dataclass(frozen=True, slots=True)
class TurnState:
    """State of one partition of turns, shared by those who judge its records in the order of their offsets."""

    source: Partition
    outputs: TurnOutputs
    paths: PathWatch
    window: DuplicateWindow
    known: KnownTurns
    conversations: ConversationsOfDay = field(default_factory=ConversationsOfDay)
