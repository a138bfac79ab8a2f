"""The end of a turn: its verdict, and what else follows from it. Pure but for the state of its partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from workers.keys import decode_key, encode_key, partition_of
from workers.metrics import catalogue as m
from workers.metrics.labels import End, LevelLabel
from workers.metrics.spec import Tally
from workers.processing.duplicates import Arrival
from workers.processing.fidelity.catalogue import RULES_EDITION
from workers.processing.fidelity.verdict import Judgement, judge_manifest
from workers.processing.fingerprint import Completeness, FieldState, completeness, verdict_fingerprint
from workers.processing.lineage import output_headers
from workers.processing.outcome import RecordResult, rejected
from workers.processing.policy import Policy
from workers.processing.time import event_time, is_clamped
from workers.processing.turn_state import TurnState
from workers.reasons import Reason, Rejection
from workers.records import Output, RawRecord
from workers.serde.records import Decoded, Ending
from workers.serde.validation import is_id, validate_turn
from workers.serde.wire_format import Tombstone

TURN_ID_HEADER: Final = "engram.turn-id"


class TurnJudge:
    """Judges the turns of one partition, in the order of their offsets."""

    def __init__(self, state: TurnState, policy: Callable[[], Policy]) -> None:
        self._state = state
        self._policy = policy

    def judge(self, record: RawRecord, ending: Ending) -> RecordResult:
        """Return the end of ``record`` with its outputs and counts."""
        if isinstance(ending, Rejection):
            return rejected(record, ending)
        if isinstance(ending, Tombstone):
            return self._erase(record)
        refusal = validate_turn(ending.value)
        if refusal is not None:
            return rejected(record, refusal._replace(schema_id=str(ending.writer.ref)))
        return self._turn(record, ending)

    def state_rows(self) -> list[Output]:
        """Return the rows of the path inventory that are due."""
        return self._state.paths.rows()

    def _turn(self, record: RawRecord, decoded: Decoded) -> RecordResult:
        turn, policy = decoded.value, self._policy()
        tally = Tally()
        turn_key = encode_key(turn["tenant"], turn["conversation_id"], turn["turn_id"])
        conversation_key = encode_key(turn["tenant"], turn["conversation_id"])
        fingerprint = turn["fingerprint"]
        state = completeness(
            fingerprint,
            turn,
            decoded.writer.presence,
            policy.completeness_for(turn["tenant"], None if fingerprint is None else fingerprint["definition_id"]),
        )
        # A stand-in such as "unknown" is no model to contradict.
        model_known = fingerprint is not None and state.states["model_id"] is FieldState.PRESENT
        judgement = judge_manifest(turn["manifest"], fingerprint["model_id"] if model_known else None)
        value = self._state.outputs.encode_verdict(_verdict(turn, policy, judgement, state))
        # All that can fail is done: only now is the partition's state touched.
        arrival = self._state.window.check(turn_key, decoded.payload, record.offset)
        if arrival.is_repeat:
            if arrival is Arrival.CONFLICTING:
                tally.add(m.RECORDS_CONFLICTING, self._state.source.topic)
            return RecordResult(record, End.DUPLICATE, tally=tally)
        if record.key != conversation_key:
            tally.add(m.KEY_MISMATCH, self._state.source.topic)
        if is_clamped(turn, record, policy):
            tally.add(m.CLAMPED, self._state.source.topic)
        self._state.known.add(conversation_key, turn_key)
        service = turn["producer"]["service"]
        self._state.conversations.add(service, conversation_key, state.complete, record.timestamp)
        _count(tally, turn, policy, judgement, state, record.timestamp)
        verdict = self._fidelity(record, conversation_key, turn_key, value)
        return RecordResult(
            record,
            End.PROCESSED,
            (verdict, *self._state.paths.observe(record, decoded, state.complete, tally)),
            tally=tally,
        )

    def _erase(self, record: RawRecord) -> RecordResult:
        """Null the verdicts known of what the tombstone names: a conversation, or one turn of it."""
        if record.key is None:
            return rejected(record, Rejection(Reason.MISSING_KEY, "frame"))
        try:
            tenant, conversation = decode_key(record.key, 2)
            turn_ids = [content for name, content in record.headers if name == TURN_ID_HEADER]
            named = encode_key(tenant, conversation, _turn_id(turn_ids[0])) if turn_ids else None
        except ValueError:
            return rejected(record, Rejection(Reason.BAD_KEY, "frame"))
        keys = (
            self._state.known.forget(record.key) if named is None else self._state.known.forget_turn(record.key, named)
        )
        outputs = tuple(self._fidelity(record, record.key, key, None) for key in keys)
        return RecordResult(record, End.TOMBSTONE, outputs)

    def _fidelity(self, record: RawRecord, conversation_key: bytes, turn_key: bytes, value: bytes | None) -> Output:
        return Output(
            self._state.outputs.fidelity,
            turn_key,
            value,
            timestamp=max(record.timestamp, 0),
            headers=output_headers(self._state.source, record),
            partition=partition_of(conversation_key, self._state.outputs.fidelity_partitions),
            source_offset=record.offset,
        )


def _turn_id(header: bytes | None) -> str:
    """Return the turn that a tombstone names; a header that names none must not widen it to the conversation."""
    turn_id = (header or b"").decode()
    if not is_id(turn_id):
        raise ValueError("not the id of a turn")
    return turn_id


def _verdict(turn: Mapping[str, Any], policy: Policy, judgement: Judgement, state: Completeness) -> dict[str, Any]:
    """Return the FidelityVerdict of ``turn``: a function of the turn and the policy alone."""
    producer = turn["producer"]
    at, basis = event_time(turn)
    return {
        "rules": RULES_EDITION,
        "policy": policy.version,
        **{name: turn[name] for name in ("tenant", "conversation_id", "turn_id", "turn_index")},
        "event_at": at,
        "time_basis": basis,
        **{name: producer[name] for name in ("service", "region", "build_id", "instance_id", "path")},
        **judgement.fields,
        "complete": state.complete,
        "completeness": state.states,
        "missing_tier2": state.missing_tier2,
        "fingerprint": verdict_fingerprint(turn["fingerprint"]),
    }


def _count(
    tally: Tally,
    turn: Mapping[str, Any],
    policy: Policy,
    judgement: Judgement,
    state: Completeness,
    append_ms: int,
) -> None:
    service, path = turn["producer"]["service"], turn["producer"]["path"] or "unset"
    tally.add(m.FIDELITY_TURNS, judgement.status, judgement.level or LevelLabel.NONE, service, path)
    for code in judgement.gap_codes:
        tally.add(m.FIDELITY_GAPS, code)
    for code in judgement.finding_codes:
        tally.add(m.FIDELITY_FINDINGS, code, service)
    for issue in judgement.issue_codes:
        tally.add(m.FIDELITY_ISSUES, issue)
    for outcome in judgement.digest_outcomes:
        tally.add(m.FIDELITY_DIGEST_CHECKS, outcome)
    tally.add(m.FINGERPRINT_TURNS, service, str(state.complete).lower())
    for field, gap in state.gaps:
        waived = policy.waiver_book.waived(service, path, field, gap, append_ms)
        tally.add(m.FINGERPRINT_INCOMPLETE, service, path, field, gap, str(waived).lower())
    for field in state.missing_tier2:
        tally.add(m.TIER2_MISSING, service, field)
    if state.unknown_attestations:
        tally.add(m.UNKNOWN_ATTESTATIONS, service, n=state.unknown_attestations)
