"""The turns of the bench: what the table of results says about them must be so."""

from __future__ import annotations

import io
from typing import Any, cast

import fastavro
import pytest
from topology import TurnTopology

from bench.contenders.job import RecordJob
from bench.workload import SHAPES, TurnRecord, Workload
from workers.keys import encode_key
from workers.processing.fidelity import RuntimeManifest
from workers.processing.fidelity.avro_form import parse_avro
from workers.processing.fidelity.verdict import judge_manifest
from workers.processing.outcome import End
from workers.records import StoredRecord
from workers.serde.avro_schema import plain
from workers.serde.schemas import Schema, load

BODIES = 1_500


@pytest.fixture(scope="module")
def workload() -> Workload:
    return Workload(seed=3, bodies=BODIES)


def _decoded(turns: list[TurnRecord]) -> list[dict[str, Any]]:
    schema = fastavro.parse_schema(cast("Schema", plain(load("turns"))))
    return [
        cast("dict[str, Any]", fastavro.schemaless_reader(io.BytesIO(turn.value[5:]), schema, None)) for turn in turns
    ]


def _is_dynamic(turn: dict[str, Any]) -> bool:
    return any(call["output"]["provenance"] != "observed" for call in turn["manifest"]["tools"]["calls"])


def test_turns_are_about_2_kb_with_a_valid_manifest_under_the_key_of_their_conversation(workload: Workload) -> None:
    turns = list(workload.turns(300))
    assert 1_800 < workload.mean_bytes < 2_300
    for turn, record in zip(_decoded(turns), turns, strict=True):
        assert record.key == encode_key(turn["tenant"], turn["conversation_id"])
        assert isinstance(parse_avro(turn["manifest"]), RuntimeManifest)


def test_no_turn_comes_twice_although_bodies_are_repeated(workload: Workload) -> None:
    turns = _decoded(list(workload.turns(2 * BODIES + 10)))
    ids = {(turn["tenant"], turn["conversation_id"], turn["turn_id"]) for turn in turns}
    assert len(ids) == len(turns)
    assert turns[0]["manifest"] == turns[BODIES]["manifest"]


def test_sixteen_shapes_of_evidence_and_about_one_dynamic_turn_in_fifty(workload: Workload) -> None:
    turns = _decoded(list(workload.turns(BODIES)))
    shares = [_is_dynamic(turn) for turn in turns]
    assert 0.01 < sum(shares) / BODIES < 0.035
    reports = set()
    for turn in turns:
        if not _is_dynamic(turn):
            fields = judge_manifest(turn["manifest"], None).fields
            reports.add((fields["level"], *(gap["code"] for gap in fields["missing_evidence"])))
    assert 8 <= len(reports) <= SHAPES


@pytest.mark.parametrize("size", [2_000, 16_000, 64_000])
def test_a_size_that_is_asked_for_is_that_of_every_payload(size: int) -> None:
    turns = list(Workload(seed=1, size=size, bodies=60).turns(60))
    ids = 5 + 2  # the frame, and the lap that makes a repeated conversation another one
    assert all(abs(len(turn.value) - ids - size) <= 4 for turn in turns)


@pytest.mark.parametrize(("size", "most"), [(500, 620), (1_000, 1_100)])
def test_a_small_turn_keeps_its_manifest_and_comes_near_its_size(size: int, most: int) -> None:
    workload = Workload(seed=1, size=size, bodies=60)
    assert workload.mean_bytes < most
    assert all(turn["manifest"] is not None for turn in _decoded(list(workload.turns(60))))


def test_as_many_definitions_as_asked_for() -> None:
    turns = _decoded(list(Workload(seed=1, definitions=40, bodies=100).turns(100)))
    assert len({turn["fingerprint"]["definition_id"] for turn in turns}) == 40


async def test_peers_write_the_very_keys_and_bytes_the_worker_writes(workload: Workload) -> None:
    turns = list(workload.turns(400))
    records = [StoredRecord(at, 1_900_000_000_000, turn.key, turn.value) for at, turn in enumerate(turns)]
    job = RecordJob()
    for result in await TurnTopology().run(records):
        assert result.end is End.PROCESSED
        value = result.record.value
        assert value is not None
        assert job.verdict(value) == (result.outputs[0].key, result.outputs[0].value)
