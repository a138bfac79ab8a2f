"""The lane of a partition: order, acknowledgement, letters and halts. No Kafka: brokers follow a script."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from aiokafka.errors import KafkaConnectionError, MessageSizeTooLargeError, TopicAuthorizationFailedError
from lane_script import Answer, Script, refused, turns, verdict

from workers.agents.lane import OURS_IN_A_ROW
from workers.errors import UnreachableError
from workers.metrics.labels import End, HaltReason
from workers.processing.outcome import RecordResult
from workers.reasons import Reason
from workers.records import Output, RawRecord
from workers.transport.batch import BatchState


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    made = Script()
    yield made
    await made.lane.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until ``condition`` holds."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come to hold"
        await asyncio.sleep(0)


async def settle() -> None:
    """Let other tasks run until, in all likelihood, none of them can go on."""
    for _ in range(200):
        await asyncio.sleep(0)


def unless(allowed: asyncio.Event, topic: str, error: BaseException) -> Callable[[Output], Answer]:
    """Return an answer that refuses ``topic`` with ``error`` until ``allowed`` is set."""
    return lambda output: error if output.topic == topic and not allowed.is_set() else None


def only(topic: str, value: bytes, error: BaseException) -> Callable[[Output], Answer]:
    """Return an answer that refuses one value on ``topic``."""
    return lambda output: error if (output.topic, output.value) == (topic, value) else None


ROW = Output("producer-paths", b"path", b"row", 1_000)


async def test_outputs_leave_in_the_order_of_their_records_and_rows_of_state_after_them(script: Script) -> None:
    script.rows = [ROW]
    script.submit(turns(0, 1, 2))
    script.submit(turns(3, 4))
    await until(lambda: len(script.done) == 2)
    assert [output.value for output in script.brokers.written] == [b"0", b"1", b"2", b"row", b"3", b"4", b"row"]
    assert script.ends == [End.PROCESSED] * 5


async def test_a_batch_is_complete_only_when_every_output_and_every_row_is_acknowledged(script: Script) -> None:
    script.rows = [ROW]
    script.brokers.open.clear()
    batch = script.submit(turns(0, 1))
    await until(lambda: script.brokers.on("fidelity") == [b"0", b"1"])
    await settle()
    assert batch.state is BatchState.STARTED
    assert script.brokers.on("producer-paths") == []
    assert script.lane.oldest_append_ms == 1_000

    script.brokers.open.set()
    await until(lambda: len(script.done) == 1)
    assert script.brokers.on("producer-paths") == [b"row"]
    await until(lambda: script.lane.oldest_append_ms is None)


async def test_the_next_batch_waits_for_the_one_before_it(script: Script) -> None:
    script.brokers.open.clear()
    script.submit(turns(0))
    second = script.submit(turns(1))
    await settle()
    assert second.state is BatchState.QUEUED
    script.brokers.open.set()
    await until(lambda: second.state is BatchState.DONE)


async def test_a_batch_given_up_at_a_rebalance_is_passed_over(script: Script) -> None:
    given_up = script.submit(turns(0))
    given_up.state = BatchState.ABANDONED
    script.submit(turns(1))
    await until(lambda: len(script.done) == 1)
    assert script.brokers.on("fidelity") == [b"1"]


async def test_a_batch_whose_partition_leaves_while_it_is_published_counts_nowhere(script: Script) -> None:
    script.brokers.open.clear()
    batch = script.submit(turns(0))
    await until(lambda: script.brokers.on("fidelity") == [b"0"])
    batch.state = BatchState.ABANDONED
    script.brokers.open.set()
    await until(lambda: script.lane.oldest_append_ms is None)
    assert script.done == []


async def test_a_lane_that_is_stopped_leaves_what_it_has_not_finished(script: Script) -> None:
    script.brokers.open.clear()
    batch = script.submit(turns(0))
    await until(lambda: script.brokers.on("fidelity") == [b"0"])
    await script.lane.stop()
    assert batch.state is BatchState.STARTED
    assert script.done == []


async def test_a_record_whose_output_is_too_large_becomes_a_letter_and_the_others_keep_theirs(script: Script) -> None:
    script.brokers.answer = only("fidelity", b"1", MessageSizeTooLargeError())
    script.submit(turns(0, 1, 2, 3))
    await until(lambda: len(script.done) == 1)
    assert script.ends == [End.PROCESSED, End.DLQ, End.PROCESSED, End.PROCESSED]
    assert script.brokers.on("turns-dlq") == [b"1"]
    # What was taken behind the refused batch is written again: the last value of a key stays the last.
    assert script.brokers.on("fidelity") == [b"3", b"0", b"2", b"3"]
    (_, outcome) = script.done[0]
    assert outcome.results[1].rejection is not None
    assert outcome.results[1].rejection.reason is Reason.OUTPUT_TOO_LARGE
    assert [result.tally is not None for result in outcome.results] == [True, False, True, True]
    assert script.held == []
    assert script.brokers.renewed > 0


async def test_a_letter_too_large_goes_without_its_value_and_keeps_its_reason(script: Script) -> None:
    script.judge = refused(Reason.BAD_MAGIC)
    script.brokers.answer = only("turns-dlq", b"7", MessageSizeTooLargeError())
    script.submit(turns(7, 8))
    await until(lambda: len(script.done) == 1)
    assert script.brokers.on("turns-dlq") == [None, b"8"]
    (truncated,) = [output for output in script.brokers.written if output.value is None]
    assert (truncated.key, truncated.headers) == (b"conversation", (("reason", b"bad_magic"),))
    assert script.held == []


async def test_a_letter_whose_topic_takes_none_of_its_size_halts_as_a_dead_letter(script: Script) -> None:
    allowed = asyncio.Event()
    script.judge = refused(Reason.BAD_MAGIC)
    script.brokers.answer = unless(allowed, "turns-dlq", MessageSizeTooLargeError())
    batch = script.submit(turns(7))
    await until(lambda: bool(script.held))
    assert script.held == [HaltReason.DEAD_LETTER]
    allowed.set()
    await until(lambda: batch.state is BatchState.DONE)


async def test_fifty_outputs_in_a_row_become_letters_and_the_next_halts_until_it_can_be_written(script: Script) -> None:
    allowed = asyncio.Event()
    script.brokers.answer = unless(allowed, "fidelity", MessageSizeTooLargeError())
    first = script.submit(turns(*range(30)))
    second = script.submit(turns(*range(30, 60)))
    await until(lambda: first.state is BatchState.DONE and bool(script.held))
    await settle()
    letters = [b"%d" % n for n in range(OURS_IN_A_ROW)]
    assert script.brokers.on("turns-dlq") == letters
    assert set(script.held) == {HaltReason.OURS_IN_A_ROW}
    assert second.state is BatchState.STARTED

    allowed.set()
    await until(lambda: second.state is BatchState.DONE)
    assert script.brokers.on("turns-dlq") == letters
    assert list(dict.fromkeys(script.brokers.on("fidelity"))) == [b"%d" % n for n in range(OURS_IN_A_ROW, 60)]
    assert script.released == 1


async def test_a_good_record_between_them_starts_the_count_of_our_failures_anew(script: Script) -> None:
    bad = refused(Reason.PROCESSING_FAILED)

    def judge(record: RawRecord) -> RecordResult:
        return verdict(record) if record.offset == OURS_IN_A_ROW else bad(record)

    script.judge = judge
    script.submit(turns(*range(2 * OURS_IN_A_ROW + 1)))
    await until(lambda: len(script.done) == 1)
    assert script.held == []


async def test_more_than_fifty_failures_of_ours_halt_before_the_first_letter_is_written(script: Script) -> None:
    script.judge = refused(Reason.PROCESSING_FAILED)
    first = script.submit(turns(*range(OURS_IN_A_ROW)))
    second = script.submit(turns(OURS_IN_A_ROW))
    await until(lambda: bool(script.held))
    assert first.state is BatchState.DONE
    assert second.state is BatchState.STARTED
    assert len(script.brokers.written) == OURS_IN_A_ROW
    assert script.held[0] is HaltReason.OURS_IN_A_ROW

    script.judge = verdict
    await until(lambda: second.state is BatchState.DONE)
    assert script.brokers.on("fidelity") == [b"%d" % OURS_IN_A_ROW]
    assert script.released == 1


async def test_fifty_faults_of_producers_in_a_row_halt_nothing(script: Script) -> None:
    script.judge = refused(Reason.BAD_MAGIC)
    script.submit(turns(*range(3 * OURS_IN_A_ROW)))
    await until(lambda: len(script.done) == 1)
    assert script.held == []


@pytest.mark.parametrize("error", [TopicAuthorizationFailedError(), KafkaConnectionError()])
@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("turns-dlq", HaltReason.DEAD_LETTER),
        ("fidelity", HaltReason.OUTPUT),
        ("producer-paths", HaltReason.OUTPUT),
    ],
)
async def test_a_topic_that_takes_nothing_halts_the_partition_and_nothing_is_lost(
    script: Script, topic: str, reason: HaltReason, error: BaseException
) -> None:
    allowed = asyncio.Event()
    bad = refused(Reason.BAD_VALUE)
    script.rows = [ROW]
    script.judge = lambda record: bad(record) if record.offset == 1 else verdict(record)
    script.brokers.answer = unless(allowed, topic, error)
    batch = script.submit(turns(0, 1, 2))
    await until(lambda: len(script.held) == 1)
    await settle()
    assert script.held == [reason]
    assert batch.state is BatchState.STARTED
    assert script.brokers.on(topic) == []

    allowed.set()
    await until(lambda: batch.state is BatchState.DONE)
    assert script.ends == [End.PROCESSED, End.DLQ, End.PROCESSED]
    assert script.brokers.on("fidelity") == [b"0", b"2"]
    assert script.brokers.on("turns-dlq") == [b"1"]
    assert script.brokers.on("producer-paths") == [b"row"]
    assert script.released == 1


async def test_a_letter_in_place_of_an_output_that_cannot_be_written_either_halts(script: Script) -> None:
    allowed = asyncio.Event()
    too_large = only("fidelity", b"0", MessageSizeTooLargeError())
    forbidden = unless(allowed, "turns-dlq", TopicAuthorizationFailedError())
    script.brokers.answer = lambda output: too_large(output) or forbidden(output)
    batch = script.submit(turns(0, 1))
    await until(lambda: bool(script.held))
    assert script.held == [HaltReason.DEAD_LETTER]
    allowed.set()
    await until(lambda: batch.state is BatchState.DONE)
    assert script.ends == [End.DLQ, End.PROCESSED]
    assert script.brokers.on("turns-dlq") == [b"0"]
    assert script.brokers.on("fidelity") == [b"1"]


async def test_a_registry_that_cannot_be_reached_holds_the_partition_and_judges_nothing(script: Script) -> None:
    script.obstacle = lambda: UnreachableError("the registry does not answer") if script.tries < 4 else None
    batch = script.submit(turns(0))
    await until(lambda: batch.state is BatchState.DONE)
    assert script.tries == 4
    assert script.held == [HaltReason.REGISTRY]
    assert script.released == 1
    assert script.brokers.on("fidelity") == [b"0"]


async def test_an_error_of_ours_outside_a_record_is_tried_again_and_never_passes_as_a_deliberate_halt(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    script.obstacle = lambda: ValueError("jane@example.com") if script.tries < 3 else None
    batch = script.submit(turns(0))
    await until(lambda: batch.state is BatchState.DONE)
    assert script.held == []
    assert "batch failed with ValueError at" in caplog.text
    assert "jane@example.com" not in caplog.text


async def test_the_state_is_restored_before_the_first_batch(script: Script) -> None:
    script.submit(turns(0))
    await until(lambda: len(script.done) == 1)
    assert script.restored == 1
