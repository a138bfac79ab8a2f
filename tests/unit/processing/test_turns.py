"""Turns from raw record to outputs, without brokers."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
import topology
from topology import APPEND_MS, TurnTopology, decoded, encoder, stored

from workers.keys import encode_key, partition_of
from workers.metrics import catalogue as m
from workers.metrics.labels import End
from workers.metrics.spec import Metric
from workers.processing.fidelity.catalogue import RULES_EDITION
from workers.processing.outcome import RecordResult
from workers.processing.policy import Policy
from workers.reasons import Reason, Rejection
from workers.records import Output, StoredRecord
from workers.resources import resource_folder
from workers.testing.traffic import TURN_KINDS, GeneratedRecord, TrafficPlan

GOLDEN = {"replay-runtime-2/1": "73f8fc944833bcca75b85a7addfb489429205f94cf80c814a361ce0ff12fcc29"}
"""SHA-256 of the verdicts of the golden turns, by edition of the rules."""


def a_turn(**changes: object) -> dict[str, Any]:
    """Return the golden turn that has everything, with ``changes``."""
    turn: dict[str, Any] = json.loads((resource_folder("schemas") / "turns/golden/v1/full.json").read_text())
    return turn | changes


def record_of(turn: dict[str, Any], offset: int = 0, **changes: Any) -> StoredRecord:
    key = encode_key(turn["tenant"], turn["conversation_id"])
    return replace(StoredRecord(offset, APPEND_MS + offset, key, encoder("turns").encode(turn)), **changes)


@pytest.fixture(autouse=True, params=[False, True], ids=["one by one", "by columns"])
def by_columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(topology, "BY_COLUMNS", request.param)
    return bool(request.param)


async def only(turn: dict[str, Any], **changes: Any) -> RecordResult:
    (result,) = await TurnTopology().run([record_of(turn, **changes)])
    return result


def verdict_output(result: RecordResult) -> Output:
    (output,) = [output for output in result.outputs if output.topic == "fidelity"]
    return output


def verdict_of(result: RecordResult) -> dict[str, Any]:
    return decoded("fidelity", verdict_output(result))


def counted(result: RecordResult, metric: Metric) -> int:
    counts = {} if result.tally is None else result.tally.counts
    return sum(n for (counted_metric, _), n in counts.items() if counted_metric is metric)


@pytest.fixture(scope="module")
def traffic() -> list[GeneratedRecord]:
    return list(TrafficPlan(seed=11, bad_share=0.3, bad_kinds=TURN_KINDS).records(1_500))


async def test_every_record_comes_to_the_end_its_generator_expects(traffic: list[GeneratedRecord]) -> None:
    results = await TurnTopology().run(stored(traffic))
    assert {record.kind for record in traffic} == {None, *TURN_KINDS}
    for record, result in zip(traffic, results, strict=True):
        expected = record.expected
        found = (result.end, result.rejection.reason if result.rejection else None)
        assert found == (expected.end, expected.reason), record.kind
        if expected.end is End.PROCESSED:
            verdict = verdict_of(result)
            level = None if expected.level is None else str(expected.level)
            assert (verdict["status"], verdict["level"], verdict["complete"]) == (
                expected.status,
                level,
                expected.complete,
            )


async def test_reading_a_partition_again_gives_the_same_bytes_in_the_same_order(
    traffic: list[GeneratedRecord],
) -> None:
    records = stored(traffic)

    def outputs(results: list[RecordResult]) -> list[Output]:
        return [output for result in results for output in result.outputs if output.topic == "fidelity"]

    whole = outputs(await TurnTopology().run(records))
    pieces = TurnTopology()
    split = [output for n in range(0, len(records), 7) for output in outputs(await pieces.run(records[n : n + 7]))]
    assert whole == split


async def test_the_bytes_of_verdicts_change_only_with_the_edition_of_the_rules() -> None:
    digest = sha256()
    for path in sorted((resource_folder("schemas") / "turns/golden/v1").glob("*.json")):
        digest.update(verdict_output(await only(json.loads(path.read_text()))).value or b"")
    assert {RULES_EDITION: digest.hexdigest()} == GOLDEN, "equal turns give other bytes: raise RULES_EDITION"


async def test_a_verdict_lies_in_the_partition_of_its_turn_under_the_turns_own_key_and_time() -> None:
    turn = a_turn(conversation_id="c|1")
    result = await only(turn, timestamp=123_456)
    (verdict,) = [output for output in result.outputs if output.topic == "fidelity"]
    assert verdict.key == encode_key(turn["tenant"], "c|1", turn["turn_id"])
    assert verdict.partition == partition_of(encode_key(turn["tenant"], "c|1"), 4)
    assert verdict.timestamp == 123_456
    assert verdict.headers == (("engram.source", b"turns:0:0"),)


async def test_the_trace_context_of_a_turn_is_on_its_verdict_and_other_headers_are_not() -> None:
    trace = (("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"), ("tracestate", b"x=1"))
    result = await only(a_turn(), headers=(("other", b"1"), *trace))
    for output in result.outputs:
        assert output.headers == (("engram.source", b"turns:0:0"), *trace)


async def test_a_trace_header_too_long_for_a_verdict_is_not_copied() -> None:
    result = await only(a_turn(), headers=(("traceparent", b"00-1-2-01"), ("tracestate", b"x" * 1_025)))
    for output in result.outputs:
        assert output.headers == (("engram.source", b"turns:0:0"), ("traceparent", b"00-1-2-01"))


async def test_a_bad_manifest_leaves_the_rest_of_the_verdict_as_it_is() -> None:
    turn = a_turn()
    good = verdict_of(await only(turn))
    bad = verdict_of(await only({**turn, "manifest": {**turn["manifest"], "capturedAt": "yesterday"}}))
    assert bad["status"] == "manifest_invalid"
    assert bad["manifest_issues"] == [{"path": "/capturedAt", "code": "bad_timestamp"}]
    replay = {"status", "level", "deterministic", "missing_evidence", "missing_total", "caveats", "findings"}
    replay |= {"finding_total", "manifest_issues", "manifest_issue_total"}
    assert {name: value for name, value in bad.items() if name not in replay} == {
        name: value for name, value in good.items() if name not in replay
    }


async def test_the_event_time_is_kept_as_sent_however_wrong_and_a_far_future_one_is_counted() -> None:
    ten_years = 10 * 365 * 86_400_000
    for sent, clamped in ((-1, 0), (0, 0), (APPEND_MS + 60_000, 0), (APPEND_MS + 60_001, 1), (2**63 - 1, 1)):
        result = await only(a_turn(assembled_at=sent))
        assert verdict_of(result)["event_at"] == sent
        assert counted(result, m.CLAMPED) == clamped, sent
    late = await only(a_turn(assembled_at=APPEND_MS + ten_years), timestamp=APPEND_MS + ten_years)
    assert counted(late, m.CLAMPED) == 0


async def test_a_turn_known_by_its_completion_alone_says_so() -> None:
    verdict = verdict_of(await only(a_turn(assembled_at=None, completed_at=APPEND_MS)))
    assert (verdict["event_at"], verdict["time_basis"]) == (APPEND_MS, "completion")
    assert "assembled_at" in verdict["missing_tier2"]


async def test_a_turn_under_another_key_is_processed_by_its_own_ids_and_counted() -> None:
    for key in (None, b"acme|someone-else", b"\xff"):
        result = await only(a_turn(), key=key)
        assert (result.end, counted(result, m.KEY_MISMATCH)) == (End.PROCESSED, 1)


async def test_a_repeated_turn_gets_no_second_verdict_and_another_body_is_counted_as_conflict() -> None:
    turn = a_turn()
    again = {**turn, "provider_id": "someone-else"}
    first, same, other = await TurnTopology().run([record_of(turn, 0), record_of(turn, 1), record_of(again, 2)])
    assert [result.end for result in (first, same, other)] == [End.PROCESSED, End.DUPLICATE, End.DUPLICATE]
    assert (len(same.outputs), len(other.outputs)) == (0, 0)
    assert (counted(same, m.RECORDS_CONFLICTING), counted(other, m.RECORDS_CONFLICTING)) == (0, 1)


async def test_the_same_offset_read_again_runs_through_with_the_same_bytes() -> None:
    topology = TurnTopology()
    (first,) = await topology.run([record_of(a_turn())])
    (again,) = await topology.run([record_of(a_turn())])
    assert again.end is End.PROCESSED
    assert again.outputs[0] == first.outputs[0]


async def test_a_tombstone_nulls_every_verdict_of_its_conversation_and_no_other() -> None:
    topology = TurnTopology()
    turns = [a_turn(conversation_id="c1", turn_id=f"t{n}") for n in range(3)] + [a_turn(conversation_id="c2")]
    await topology.run([record_of(turn, n) for n, turn in enumerate(turns)])
    key = encode_key(turns[0]["tenant"], "c1")
    (erased,) = await topology.run([StoredRecord(9, APPEND_MS, key, None)])
    assert erased.end is End.TOMBSTONE
    assert [(output.key, output.value) for output in erased.outputs] == [
        (encode_key(turns[0]["tenant"], "c1", f"t{n}"), None) for n in range(3)
    ]


async def test_a_tombstone_that_names_a_turn_nulls_that_turn_only() -> None:
    turn = a_turn(conversation_id="c1", turn_id="t|1")
    topology = TurnTopology()
    await topology.run([record_of(turn)])
    key = encode_key(turn["tenant"], "c1")
    (erased,) = await topology.run([StoredRecord(9, APPEND_MS, key, None, (("engram.turn-id", b"t|1"),))])
    assert [output.key for output in erased.outputs] == [encode_key(turn["tenant"], "c1", "t|1")]


@pytest.mark.parametrize("header", [None, b"", b"\xff", b"a\nb", b"x" * 201])
async def test_a_tombstone_whose_turn_id_names_no_turn_erases_nothing(header: bytes | None) -> None:
    turn = a_turn(conversation_id="c1")
    topology = TurnTopology()
    await topology.run([record_of(turn)])
    key = encode_key(turn["tenant"], "c1")
    (refused,) = await topology.run([StoredRecord(9, APPEND_MS, key, None, (("engram.turn-id", header),))])
    assert (refused.outputs, refused.rejection) == ((), Rejection(Reason.BAD_KEY, "frame"))


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (None, Reason.MISSING_KEY),
        (b"no-separator", Reason.BAD_KEY),
        (b"\xff|c", Reason.BAD_KEY),
        (b"a|b|c", Reason.BAD_KEY),
    ],
)
async def test_a_tombstone_that_names_nothing_is_a_dead_letter(key: bytes | None, reason: Reason) -> None:
    (result,) = await TurnTopology().run([StoredRecord(0, APPEND_MS, key, None)])
    assert (result.end, result.rejection and result.rejection.reason) == (End.DLQ, reason)


async def test_the_first_turn_of_a_path_raises_one_alert_however_many_follow() -> None:
    turns = [a_turn(turn_id=f"t{n}") for n in range(3)]
    results = await TurnTopology().run([record_of(turn, n) for n, turn in enumerate(turns)])
    alerts = [output for result in results for output in result.outputs if output.topic == "alerts"]
    assert len(alerts) == 1
    alert = decoded("alerts", alerts[0])
    assert (alert["alert"], alert["state"], alert["starts_at"], alert["ends_at"]) == (
        "PathFirstSeen",
        "firing",
        APPEND_MS,
        APPEND_MS,
    )
    assert alerts[0].key == alert["verdict_id"].encode()


async def test_a_stand_in_for_the_model_is_no_contradiction_of_the_manifest() -> None:
    turn = a_turn()
    other = verdict_of(await only({**turn, "fingerprint": {**turn["fingerprint"], "model_id": "another-model-1"}}))
    unknown = verdict_of(await only({**turn, "fingerprint": {**turn["fingerprint"], "model_id": "unknown"}}))
    assert "model_mismatch" in {finding["code"] for finding in other["findings"]}
    assert "model_mismatch" not in {finding["code"] for finding in unknown["findings"]}


async def test_the_verdict_names_the_policy_it_was_judged_by() -> None:
    strict = Policy.model_validate({"required_pieces": ["history"]})
    (result,) = await TurnTopology(strict).run([record_of(a_turn())])
    assert verdict_of(result)["policy"] == strict.version != Policy().version


def test_an_output_with_a_key_too_many_is_refused_by_the_encoder() -> None:
    turn = a_turn()
    with pytest.raises((ValueError, TypeError)):
        encoder("turns").encode({**turn, "surplus": 1})
