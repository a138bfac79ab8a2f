"""Pieces of encoded verdicts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.processing.columns.pieces import (
    encode_piece,
    integer,
    moments,
    optional_integer,
    repeated_integer,
    text,
)
from workers.resources import resource_folder
from workers.serde.encoder import Encoder
from workers.serde.schemas import load

LONG = Encoder({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}, 0)
OPTIONAL = Encoder({"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "long"]}]}, 0)
TEXT = Encoder({"type": "record", "name": "R", "fields": [{"name": "t", "type": "string"}]}, 0)
EDGES = [sign * (2**power + delta) for power in range(63) for delta in (-1, 0, 1) for sign in (1, -1)]
longs = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([*EDGES, 2**63 - 1, -(2**63)])


@settings(max_examples=200, deadline=None)
@given(st.lists(longs, max_size=8))
def test_integers_are_written_as_the_encoder_writes_them(values: list[int]) -> None:
    expected = [LONG.payload({"n": value}) for value in values]
    assert [integer(value) for value in values] == [repeated_integer(value) for value in values] == expected
    for chosen in (values, [value for value in values if not -(2**13) <= value < 2**13]):
        low, high = moments(np.array(chosen, np.int64))
        assert list(map(bytes.__add__, low, high)) == [LONG.payload({"n": value}) for value in chosen]
    for value in (None, *values):
        assert optional_integer(value) == OPTIONAL.payload({"n": value})


@pytest.mark.parametrize("held", ["", "ü", "x" * 63, "x" * 64, "x" * 9_000, "\U0001f600"])
def test_texts_are_written_as_the_encoder_writes_them(held: str) -> None:
    assert text(held) == TEXT.payload({"t": held})


def test_a_verdict_is_its_pieces_side_by_side() -> None:
    golden = json.loads((resource_folder("schemas") / "fidelity/golden/v1/graded.json").read_text(encoding="utf-8"))
    ends = [("rules", "tenant"), ("conversation_id", "path"), ("status", "finding_total"), ("complete", "fingerprint")]
    assert b"".join(encode_piece(golden, *pair) for pair in ends) == Encoder(load("fidelity"), 0).payload(golden)
