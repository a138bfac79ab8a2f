"""Which verdicts a tombstone nulls."""

from __future__ import annotations

from workers.processing.erasure import KnownTurns


def test_a_tombstone_finds_the_turns_of_its_conversation_only_and_once() -> None:
    known = KnownTurns()
    for turn in (b"a|1|x", b"a|1|y"):
        known.add(b"a|1", turn)
    known.add(b"a|2", b"a|2|x")
    assert known.forget(b"a|1") == [b"a|1|x", b"a|1|y"]
    assert known.forget(b"a|1") == []
    assert known.forget(b"a|2") == [b"a|2|x"]


def test_the_conversation_that_was_quiet_longest_is_forgotten_first() -> None:
    known = KnownTurns(limit=3)
    for turn in (b"a|1|x", b"a|1|y"):
        known.add(b"a|1", turn)
    known.add(b"a|2", b"a|2|x")
    known.add(b"a|1", b"a|1|z")
    known.add(b"a|3", b"a|3|x")
    assert known.forget(b"a|2") == []
    assert known.forget(b"a|3") == [b"a|3|x"]


def test_one_turn_is_nulled_by_name_even_when_it_is_not_remembered() -> None:
    known = KnownTurns()
    known.add(b"a|1", b"a|1|x")
    assert known.forget_turn(b"a|1", b"a|1|old") == [b"a|1|old"]
    assert known.forget_turn(b"a|1", b"a|1|x") == [b"a|1|x"]
    assert known.forget(b"a|1") == []
