"""Generated traffic: deterministic, and what it expects is what the workers' own functions say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest

from workers.keys import decode_key, encode_key
from workers.processing.duplicates import DuplicateWindow
from workers.processing.fidelity.verdict import judge_manifest
from workers.processing.fingerprint import completeness
from workers.processing.outcome import End
from workers.processing.policy_rules import CompletenessPolicy
from workers.reasons import CATALOGUE, Reason, ReasonClass
from workers.records import StoredRecord
from workers.serde.admission import WriterSchema, admit
from workers.serde.decoder import Record, decode
from workers.serde.limits import TURN_LIMITS
from workers.serde.schemas import load, load_ids, to_text
from workers.serde.validation import validate_state_write, validate_turn
from workers.serde.wire_format import Frame, Tombstone, parse
from workers.testing.traffic import TURN_KINDS, BadKind, Expected, GeneratedRecord, TrafficPlan, stepping_clock
from workers.testing.traffic.fleet import FORGETFUL_BUILD, FORGETFUL_PATH
from workers.testing.traffic.manifests import SHAPES

NOT_FROM_BYTES = {Reason.SCHEMA_REJECTED, Reason.SCHEMA_RESOLUTION, Reason.DECODE_FAILED}
"""Producer-caused, and need a writer's schema of their own or a fault of the decoder."""
NOT_FROM_TURNS = {Reason.NOT_OPERATOR, Reason.REJECTED}


def _writer(topic: str) -> tuple[int, WriterSchema]:
    number = load_ids()[topic][1].id
    writer = admit(to_text(load(topic)), topic, TURN_LIMITS, number)
    assert isinstance(writer, WriterSchema)
    return number, writer


WRITERS = {topic: _writer(topic) for topic in ("turns", "state-writes")}


def _decoded(record: GeneratedRecord) -> Record | Tombstone | Reason:
    """Frame and payload by the workers' own functions; the only schema there is is that of the topic."""
    stored = StoredRecord(0, 0, record.key, record.value, record.headers)
    frame = parse(stored, TURN_LIMITS)
    if isinstance(frame, Tombstone):
        return frame
    if not isinstance(frame, Frame):
        return frame.reason
    number, writer = WRITERS[record.topic]
    if frame.schema_id != number:
        return Reason.UNKNOWN_SCHEMA_ID
    value = decode(frame, writer, TURN_LIMITS)
    return value if isinstance(value, dict) else value.reason


@dataclass
class Judge:
    """The ends of records in order, by the workers' own functions."""

    window: DuplicateWindow
    offset: int = 0

    def end(self, record: GeneratedRecord) -> Expected:
        self.offset += 1
        decoded = _decoded(record)
        if isinstance(decoded, Reason):
            return Expected(End.DLQ, decoded)
        if isinstance(decoded, Tombstone):
            return self._tombstone(record)
        refusal = (validate_turn if record.topic == "turns" else validate_state_write)(decoded)
        if refusal is not None:
            return Expected(End.DLQ, refusal.reason)
        if record.topic != "turns":
            return Expected(End.PROCESSED)
        return self._turn(record, decoded)

    def _tombstone(self, record: GeneratedRecord) -> Expected:
        if record.key is None:
            return Expected(End.DLQ, Reason.MISSING_KEY)
        try:
            decode_key(record.key, 2)
        except ValueError:
            return Expected(End.DLQ, Reason.BAD_KEY)
        return Expected(End.TOMBSTONE)

    def _turn(self, record: GeneratedRecord, turn: Record) -> Expected:
        assert record.value is not None
        ids = (turn["tenant"], turn["conversation_id"], turn["turn_id"])
        assert record.ids == ids
        if self.window.check(encode_key(*ids), record.value, self.offset).is_repeat:
            return Expected(End.DUPLICATE)
        judgement = judge_manifest(turn["manifest"], turn["fingerprint"]["model_id"])
        presence = WRITERS["turns"][1].presence
        state = completeness(turn["fingerprint"], turn, presence, CompletenessPolicy())
        level = None if judgement.level is None else judgement.level.value
        return Expected(End.PROCESSED, None, judgement.status.value, level, state.complete)


def _disagreements(records: Iterable[GeneratedRecord]) -> Iterator[tuple[BadKind | None, Expected, Expected]]:
    judge = Judge(DuplicateWindow())
    for record in records:
        found = judge.end(record)
        if found != record.expected:
            yield record.kind, record.expected, found


def test_every_record_comes_to_the_end_level_and_completeness_it_expects() -> None:
    plan = TrafficPlan(seed=7, bad_share=0.2, bad_kinds=tuple(BadKind), state_write_share=0.5)
    assert list(_disagreements(plan.records(2_500))) == []


@pytest.mark.parametrize("kind", list(BadKind))
def test_each_kind_of_bad_record_ends_as_its_name_says(kind: BadKind) -> None:
    records = list(TrafficPlan(seed=3, bad_share=0.5, bad_kinds=[kind]).records(60))
    made = [record for record in records if record.kind is kind]
    assert len(made) > 10
    assert list(_disagreements(records)) == []
    if kind.value in [reason.value for reason in Reason]:
        assert {record.expected for record in made} == {Expected(End.DLQ, Reason(kind.value))}


def test_every_producer_caused_reason_that_bytes_can_cause_has_a_kind() -> None:
    producer = {reason for reason, entry in CATALOGUE.items() if entry.reason_class is ReasonClass.PRODUCER}
    assert producer - NOT_FROM_BYTES - NOT_FROM_TURNS == {
        Reason(kind.value) for kind in BadKind if kind.value in [reason.value for reason in Reason]
    }


def test_every_shape_of_evidence_occurs_and_all_levels_with_it() -> None:
    levels = Counter(record.expected.level for record in TrafficPlan(seed=1).records(2_000))
    assert set(levels) == {"exact", "controlled", "partial", "unreplayable", None}
    assert min(levels.values()) > 40
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 16


def test_equal_plans_yield_equal_records_and_other_seeds_do_not() -> None:
    def values(seed: int) -> list[GeneratedRecord]:
        return list(TrafficPlan(seed=seed, bad_share=0.1, state_write_share=0.3).records(300))

    assert values(5) == values(5)
    assert values(5) != values(6)


def test_the_number_of_turns_records_is_exact_and_state_writes_come_on_top() -> None:
    plan = TrafficPlan(seed=2, bad_share=0.3, bad_kinds=TURN_KINDS, state_write_share=1.0, topic_prefix="p-")
    topics = Counter(record.topic for record in plan.records(500))
    assert topics["p-turns"] == 500
    assert topics["p-state-writes"] > 500


def test_only_the_forgetful_path_is_incomplete_and_only_during_the_incident() -> None:
    paths = defaultdict(set)
    for record in TrafficPlan(seed=4).records(1_000):
        turn = _decoded(record)
        assert isinstance(turn, dict)
        paths[turn["producer"]["path"]].add(record.expected.complete)
    assert paths.pop(FORGETFUL_PATH) == {False}
    assert set().union(*paths.values()) == {True}
    assert all(record.expected.complete for record in TrafficPlan(seed=4, incident=False).records(1_000))


def test_an_incident_that_comes_later_begins_with_a_release_of_its_path() -> None:
    seen = []
    for record in TrafficPlan(seed=4, incident_after=500).records(1_000):
        turn = _decoded(record)
        assert isinstance(turn, dict)
        if turn["producer"]["path"] == FORGETFUL_PATH:
            seen.append((record.expected.complete, turn["producer"]["build_id"] == FORGETFUL_BUILD))
    before, after = seen.index((False, True)), seen.count((False, True))
    assert seen == [(True, False)] * before + [(False, True)] * after
    assert before > 3
    assert after > 3


def test_event_times_follow_the_clock() -> None:
    clock = stepping_clock(start_ms=1_000_000_000_000, per_second=10)
    turns = [_decoded(record) for record in TrafficPlan(seed=1, clock=clock).records(100)]
    completed = [turn["completed_at"] for turn in turns if isinstance(turn, dict)]
    assert completed == [1_000_000_000_000 + 100 * (number + 1) for number in range(100)]
    assert all(0 < turn["completed_at"] - turn["assembled_at"] < 5_000 for turn in turns if isinstance(turn, dict))


def test_state_writes_of_a_conversation_are_in_sequence_and_turns_name_their_position() -> None:
    positions: dict[tuple[str, str], int] = {}
    compared = 0
    for record in TrafficPlan(seed=9, state_write_share=1.0).records(600):
        decoded = _decoded(record)
        assert isinstance(decoded, dict)
        if record.topic == "turns":
            scope = (decoded["tenant"], decoded["conversation_id"])
            assert decoded["fingerprint"]["state_position"] == positions[scope]
            compared += 1
        elif decoded["scope_type"] == "conversation":
            scope = (decoded["tenant"], decoded["scope_id"])
            assert decoded["seq"] == positions.get(scope, 0) + 1
            positions[scope] = decoded["seq"]
    assert compared == 600


def test_turns_are_of_realistic_size_and_many_conversations_interleave() -> None:
    records = list(TrafficPlan(seed=1).records(2_000))
    sizes = [len(record.value or b"") for record in records]
    assert 1_500 < sum(sizes) / len(sizes) < 2_500
    assert len({record.key for record in records[:200]}) > 100
