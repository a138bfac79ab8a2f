"""Keys of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.keys import decode_key, encode_key, partition_of


def test_the_separator_and_the_escape_are_written_as_escapes() -> None:
    assert encode_key("acme", "c|1%") == b"acme|c%7C1%25"


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_a_key_gives_back_its_parts(parts: list[str]) -> None:
    assert decode_key(encode_key(*parts), len(parts)) == tuple(parts)


@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_two_different_pairs_never_share_a_key(a: str, b: str, c: str, d: str) -> None:
    if all(part.isprintable() for part in (a, b, c, d)) and (a, b) != (c, d):
        assert encode_key(a, b) != encode_key(c, d)


@pytest.mark.parametrize("key", [b"acme", b"a|b|c", b"a|%7c", b"a|100%", b"\xff|b"])
def test_what_is_no_key_of_two_parts_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_key(key, 2)


@pytest.mark.parametrize(
    ("key", "hash_"), [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)]
)
def test_partitions_are_those_of_kafkas_own_partitioner(key: bytes, hash_: int) -> None:
    """Hashes as Kafka's UtilsTest states them for murmur2."""
    assert partition_of(key, 12) == (hash_ & 0x7FFFFFFF) % 12
