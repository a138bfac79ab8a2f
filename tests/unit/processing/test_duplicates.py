"""Repeated turns: what counts as one, what going back does, and how much memory it takes."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.processing.duplicates import Arrival, DuplicateWindow

FIRST, REDELIVERY, DUPLICATE, CONFLICTING = Arrival


class Log:
    """A naive model: the records read so far, by offset; every answer is searched for in them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.read: dict[int, tuple[bytes, bytes]] = {}
        self.high = -1

    def check(self, key: bytes, body: bytes, offset: int) -> Arrival:
        if offset < self.high - self.size or offset - self.high > self.size:
            self.read.clear()
            self.high = offset
        self.high = max(self.high, offset)
        again = offset in self.read
        self.read[offset] = key, body
        earlier = self._chain(key, offset)
        if not earlier:
            return REDELIVERY if again else FIRST
        return DUPLICATE if self.read[earlier[0]][1] == body else CONFLICTING

    def _chain(self, key: bytes, offset: int) -> list[int]:
        """Offsets of the earlier turns with this key, each at most a window before the next."""
        chain: list[int] = []
        for candidate in sorted((o for o, (k, _) in self.read.items() if k == key and o < offset), reverse=True):
            if (chain[-1] if chain else offset) - candidate > self.size:
                break
            chain.append(candidate)
        return chain[::-1]


def test_the_first_turn_wins_and_another_body_conflicts() -> None:
    window = DuplicateWindow(10)
    assert window.check(b"a|c|1", b"body", 1) is FIRST
    assert window.check(b"a|c|2", b"body", 2) is FIRST
    assert window.check(b"a|c|1", b"body", 3) is DUPLICATE
    assert window.check(b"a|c|1", b"other", 4) is CONFLICTING
    assert window.check(b"a|c|1", b"other", 5) is CONFLICTING
    assert [arrival for arrival in Arrival if arrival.is_repeat] == [DUPLICATE, CONFLICTING]


def test_the_same_offset_read_again_runs_through() -> None:
    window = DuplicateWindow(10)
    log = [(b"x", b"1"), (b"y", b"1"), (b"x", b"1"), (b"x", b"2")]
    first_pass = [window.check(key, body, offset) for offset, (key, body) in enumerate(log)]
    second_pass = [window.check(key, body, offset) for offset, (key, body) in enumerate(log)]
    assert first_pass == [FIRST, FIRST, DUPLICATE, CONFLICTING]
    assert second_pass == [REDELIVERY, REDELIVERY, DUPLICATE, CONFLICTING]


def test_going_back_before_the_start_makes_the_earlier_turn_the_first() -> None:
    window = DuplicateWindow(10)
    assert window.check(b"x", b"1", 8) is FIRST
    assert window.check(b"x", b"0", 3) is FIRST
    assert window.check(b"x", b"0", 3) is REDELIVERY
    assert window.check(b"x", b"1", 8) is CONFLICTING


def test_a_repeat_is_found_up_to_the_window_and_no_further() -> None:
    for distance, expected in ((5, DUPLICATE), (6, FIRST)):
        window = DuplicateWindow(5)
        window.check(b"x", b"1", 100)
        for offset in range(101, 100 + distance):
            window.check(b"%d" % offset, b"", offset)
        assert window.check(b"x", b"1", 100 + distance) is expected


def test_other_turns_at_offsets_already_read_take_their_place() -> None:
    window = DuplicateWindow(3)
    for key, offset in ((b"a", 1), (b"a", 2), (b"b", 2), (b"c", 5), (b"d", 6)):
        window.check(key, b"", offset)
    assert len(window) == 2


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        DuplicateWindow(0)


@settings(max_examples=250, deadline=None)
@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.sampled_from(b"abcd"), st.sampled_from(b"12")), min_size=1, max_size=60),
    st.data(),
)
def test_every_answer_is_that_of_searching_the_log_even_when_offsets_are_read_again(
    size: int, log: list[tuple[int, int]], data: st.DataObject
) -> None:
    window, model = DuplicateWindow(size), Log(size)
    position, rewinds = data.draw(st.integers(0, len(log) - 1)), 3
    while position < len(log):
        key, body = (bytes([part]) for part in log[position])
        answer = window.check(key, body, position)
        assert answer is model.check(key, body, position), position
        earlier = [entry[0] for entry in log[max(0, position - size) : position]]
        assert log[position][0] in earlier or not answer.is_repeat, "a first turn became a duplicate"
        position += 1
        if rewinds and data.draw(st.integers(0, 9)) == 0:
            rewinds -= 1
            position = data.draw(st.integers(0, position))


@settings(max_examples=250, deadline=None)
@given(st.integers(1, 6), st.lists(st.tuples(st.sampled_from(b"abc"), st.integers(0, 60)), max_size=60))
def test_any_order_of_offsets_even_of_a_topic_made_anew_stays_bounded_and_raises_nothing(
    size: int, reads: list[tuple[int, int]]
) -> None:
    window = DuplicateWindow(size)
    for key, offset in reads:
        window.check(bytes([key]), b"", offset)
        assert len(window) <= size + 1
        assert window.check(bytes([key]), b"", offset) is not FIRST


def test_a_full_window_takes_at_most_300_bytes_a_turn() -> None:
    tracemalloc.start()
    try:
        window = DuplicateWindow(20_000)
        for offset in range(60_000):
            window.check(b"acme|conversation|%d" % offset, b"%d" % offset, offset)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(window) == 20_001
    assert used / len(window) < 300
