"""Which verdicts exist of a conversation, so that its tombstone can null them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

KNOWN_TURNS: Final = 16_384
"""Turns of one partition whose verdict keys are remembered; older ones are found by ``engram-stream erase``."""


class KnownTurns:
    """Verdict keys of the last turns of one partition, by conversation key."""

    __slots__ = ("_by_conversation", "_count", "_limit")

    def __init__(self, limit: int = KNOWN_TURNS) -> None:
        self._limit = limit
        self._count = 0
        self._by_conversation: OrderedDict[bytes, dict[bytes, None]] = OrderedDict()

    def add(self, conversation_key: bytes, turn_key: bytes) -> None:
        """Remember the verdict ``turn_key``; conversations without a turn for longest are forgotten first."""
        turns = self._by_conversation.setdefault(conversation_key, {})
        self._by_conversation.move_to_end(conversation_key)
        if turn_key not in turns:
            turns[turn_key] = None
            self._count += 1
        while self._count > self._limit:
            self._forget_oldest()

    def forget(self, conversation_key: bytes) -> list[bytes]:
        """Forget the conversation and return the keys of its verdicts, oldest first."""
        turns = self._by_conversation.pop(conversation_key, {})
        self._count -= len(turns)
        return list(turns)

    def forget_turn(self, conversation_key: bytes, turn_key: bytes) -> list[bytes]:
        """Forget one turn and return its key, known or not: its tombstone names it."""
        turns = self._by_conversation.get(conversation_key, {})
        if turn_key in turns:
            del turns[turn_key]
            self._count -= 1
        return [turn_key]

    def _forget_oldest(self) -> None:
        conversation_key, turns = next(iter(self._by_conversation.items()))
        del turns[next(iter(turns))]
        self._count -= 1
        if not turns:
            del self._by_conversation[conversation_key]
