from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from workers.serde.encoder import Encoder
from workers.serde.schemas import load
from workers.testing.golden import golden_payloads

VERDICT = next(golden.record for golden in golden_payloads() if golden.name == "graded")
ENCODER = Encoder(load("fidelity"), 3)


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    record = copy.deepcopy(VERDICT)
    change(record)
    return record


def test_a_record_is_framed_with_its_schema_id() -> None:
    assert ENCODER.encode(VERDICT)[:5] == b"\x00\x00\x00\x00\x03"
    ENCODER.check(VERDICT)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(extra=1),
        lambda record: record.pop("region"),
        lambda record: record["findings"][0].update(note="n"),
        lambda record: record["findings"][0].pop("code"),
        lambda record: record["fingerprint"].update(summary_deph=0),
        lambda record: record["fingerprint"].pop("model_id"),
        lambda record: record.update(status="weird"),
        lambda record: record.update(level="weird"),
        lambda record: record.update(rules=None),
        lambda record: record.update(service=b"chat"),
        lambda record: record.update(service="\ud800"),
        lambda record: record.update(event_at=2**63),
    ],
)
def test_a_misspelt_missing_or_foreign_value_fails(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        ENCODER.encode(changed(change))


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(missing_total=1.5),
        lambda record: record.update(missing_total=True),
        lambda record: record.update(missing_total=2**40),
        lambda record: record.update(complete=1),
        lambda record: record.update(event_at=1.5),
        lambda record: record.update(extra=1),
        lambda record: record["fingerprint"].pop("model_id"),
    ],
)
def test_the_check_for_tests_also_finds_what_encoding_would_narrow(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        ENCODER.check(changed(change))
