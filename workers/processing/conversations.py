"""Today's conversations, and which of them had an incomplete turn: one long chat hides ten short ones.

Source: docs/concepts/completeness.md, "Turns and conversations".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from workers.processing.paths import DAY_MS

MAX_CONVERSATIONS: Final = 50_000
"""Conversations of one partition and day that are told apart; further ones are left out of the share."""


class ConversationsOfDay:
    """The conversations of one partition on the UTC day of the newest append time.

    Keys are kept as 64-bit keyed hashes: about 100 bytes a conversation.
    """

    __slots__ = ("_day", "_left", "_limit", "_of_service")

    def __init__(self, limit: int = MAX_CONVERSATIONS) -> None:
        self._limit = self._left = limit
        self._day = -1
        self._of_service: dict[str, _Service] = {}

    def add(self, service: str, conversation_key: bytes, complete: bool, append_ms: int) -> None:
        """Count a turn of ``conversation_key``; a turn of an earlier day than the newest counts for none."""
        day = append_ms // DAY_MS
        if day != self._day:
            if day < self._day:
                return
            self._day, self._left, self._of_service = day, self._limit, {}
        found = self._of_service.get(service)
        if found is None:
            found = self._of_service[service] = _Service()
        key = hash(conversation_key)
        known = found.complete.get(key)
        if known is None:
            if not self._left:
                return
            self._left -= 1
        if known is None or (known and not complete):
            found.complete[key] = complete
            found.incomplete += not complete

    def shares(self) -> Iterator[tuple[str, int, int]]:
        """Yield (service, conversations, incomplete ones)."""
        for service, found in self._of_service.items():
            yield service, len(found.complete), found.incomplete


class _Service:
    """Conversations of one service: whether all turns of each were complete, and of how many they were not."""

    __slots__ = ("complete", "incomplete")

    def __init__(self) -> None:
        self.complete: dict[int, bool] = {}
        self.incomplete = 0


def incomplete_ratios(partitions: Iterable[ConversationsOfDay]) -> dict[str, float]:
    """Return, by service, the share of today's conversations in ``partitions`` that had an incomplete turn."""
    seen: dict[str, int] = {}
    incomplete: dict[str, int] = {}
    for partition in partitions:
        for service, conversations, bad in partition.shares():
            seen[service] = seen.get(service, 0) + conversations
            incomplete[service] = incomplete.get(service, 0) + bad
    return {service: incomplete[service] / count for service, count in seen.items()}
