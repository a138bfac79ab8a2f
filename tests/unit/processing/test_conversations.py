"""The share of today's conversations that had an incomplete turn."""

from __future__ import annotations

from workers.processing.conversations import ConversationsOfDay, incomplete_ratios
from workers.processing.paths import DAY_MS

TODAY = 20_000 * DAY_MS


def test_one_long_complete_chat_does_not_hide_the_short_incomplete_ones() -> None:
    partition = ConversationsOfDay()
    for n in range(100):
        partition.add("chat", b"long", True, TODAY + n)
    partition.add("chat", b"short", False, TODAY)
    assert incomplete_ratios([partition]) == {"chat": 0.5}


def test_one_incomplete_turn_marks_its_conversation_for_the_day_and_once() -> None:
    partition = ConversationsOfDay()
    for complete in (True, False, True, False):
        partition.add("chat", b"a", complete, TODAY)
    partition.add("chat", b"b", True, TODAY)
    assert list(partition.shares()) == [("chat", 2, 1)]


def test_a_new_day_begins_anew_and_a_turn_of_yesterday_counts_for_neither() -> None:
    partition = ConversationsOfDay()
    partition.add("chat", b"a", False, TODAY)
    partition.add("chat", b"b", True, TODAY + DAY_MS)
    partition.add("chat", b"c", False, TODAY)
    assert incomplete_ratios([partition]) == {"chat": 0.0}


def test_services_and_partitions_are_counted_apart_and_together() -> None:
    first, second = ConversationsOfDay(), ConversationsOfDay()
    first.add("chat", b"a", True, TODAY)
    first.add("voice", b"b", False, TODAY)
    second.add("chat", b"c", False, TODAY)
    assert incomplete_ratios([first, second]) == {"chat": 0.5, "voice": 1.0}


def test_conversations_beyond_the_limit_are_left_out() -> None:
    partition = ConversationsOfDay(limit=2)
    for name in (b"a", b"b", b"c"):
        partition.add("chat", name, False, TODAY)
    assert list(partition.shares()) == [("chat", 2, 2)]
