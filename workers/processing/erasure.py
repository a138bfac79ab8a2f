"""Which verdicts exist of a conversation, so that its tombstone can null them."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

KNOWN_TURNS: Final = 16_384
"""Turns of one partition whose verdict keys are remembered; older ones are found by ``engram-stream erase``."""


class KnownTurns:
    """Verdict keys of the last turns of one partition.

    Turns come by the thousand and tombstones are rare: turns are only logged, and sorted by conversation, each once,
    when a tombstone asks.
    """

    __slots__ = ("_added", "_by_conversation", "_held", "_limit", "_log", "_sorted")

    def __init__(self, limit: int = KNOWN_TURNS) -> None:
        self._limit = limit
        self._log: deque[tuple[bytes, bytes]] = deque(maxlen=limit)
        self._added = self._sorted = self._held = 0
        # By conversation, the number under which each of its turns was added last.
        self._by_conversation: dict[bytes, dict[bytes, int]] = {}

    def add(self, conversation_key: bytes, turn_key: bytes) -> None:
        """Remember the verdict ``turn_key``; the oldest turn is forgotten for it."""
        self._log.append((conversation_key, turn_key))
        self._added += 1

    def forget(self, conversation_key: bytes) -> list[bytes]:
        """Forget the conversation and return the keys of its verdicts, oldest first."""
        self._sort()
        turns = self._by_conversation.pop(conversation_key, {})
        self._held -= len(turns)
        oldest = self._added - len(self._log)
        return [turn for turn, number in turns.items() if number >= oldest]

    def forget_turn(self, conversation_key: bytes, turn_key: bytes) -> list[bytes]:
        """Forget one turn and return its key, known or not: its tombstone names it."""
        self._sort()
        turns = self._by_conversation.get(conversation_key, {})
        if turns.pop(turn_key, None) is not None:
            self._held -= 1
        return [turn_key]

    def _sort(self) -> None:
        """Sort what was logged since the last time; drop what the log no longer holds once it is the larger part."""
        oldest = self._added - len(self._log)
        first = max(self._sorted, oldest)
        for number, (conversation, turn) in enumerate(islice(self._log, first - oldest, None), first):
            turns = self._by_conversation.setdefault(conversation, {})
            self._held += turn not in turns
            turns[turn] = number
        self._sorted = self._added
        if self._held > 2 * self._limit:
            self._drop(oldest)

    def _drop(self, oldest: int) -> None:
        kept = {
            conversation: {turn: number for turn, number in turns.items() if number >= oldest}
            for conversation, turns in self._by_conversation.items()
        }
        self._by_conversation = {conversation: turns for conversation, turns in kept.items() if turns}
        self._held = sum(map(len, self._by_conversation.values()))
