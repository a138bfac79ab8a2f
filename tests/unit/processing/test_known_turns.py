"""Which verdicts a tombstone nulls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.processing.erasure import KnownTurns


def test_a_tombstone_finds_the_turns_of_its_conversation_only_and_once() -> None:
    known = KnownTurns()
    for turn in (b"a|1|x", b"a|1|y"):
        known.add(b"a|1", turn)
    known.add(b"a|2", b"a|2|x")
    assert known.forget(b"a|1") == [b"a|1|x", b"a|1|y"]
    assert known.forget(b"a|1") == []
    assert known.forget(b"a|2") == [b"a|2|x"]


def test_the_oldest_turns_are_forgotten_first() -> None:
    known = KnownTurns(limit=3)
    for turn in (b"a|1|x", b"a|1|y"):
        known.add(b"a|1", turn)
    known.add(b"a|2", b"a|2|x")
    known.add(b"a|1", b"a|1|z")
    assert known.forget(b"a|1") == [b"a|1|y", b"a|1|z"]
    assert known.forget(b"a|2") == [b"a|2|x"]


@given(
    st.lists(st.tuples(st.sampled_from("+-t"), st.integers(0, 3), st.integers(0, 4)), max_size=60), st.integers(1, 6)
)
def test_tombstones_find_what_a_plain_list_would(steps: list[tuple[str, int, int]], limit: int) -> None:
    known = KnownTurns(limit)
    log: list[tuple[bytes, bytes] | None] = []
    for step, conversation, turn in steps:
        names = (b"c%d" % conversation, b"c%d|t%d" % (conversation, turn))
        if step == "+":
            known.add(*names)
            log.append(names)
            continue
        window = log[-limit:]
        if step == "-":
            expected = list(dict.fromkeys(entry[1] for entry in window if entry is not None and entry[0] == names[0]))
            assert sorted(known.forget(names[0])) == sorted(expected)
            log = [None if entry is not None and entry[0] == names[0] else entry for entry in log]
        else:
            assert known.forget_turn(*names) == [names[1]]
            log = [None if entry == names else entry for entry in log]


def test_one_turn_is_nulled_by_name_even_when_it_is_not_remembered() -> None:
    known = KnownTurns()
    known.add(b"a|1", b"a|1|x")
    assert known.forget_turn(b"a|1", b"a|1|old") == [b"a|1|old"]
    assert known.forget_turn(b"a|1", b"a|1|x") == [b"a|1|x"]
    assert known.forget(b"a|1") == []
