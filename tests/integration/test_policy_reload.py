"""A policy edited under a running worker: it holds from the next batch on, and a broken edit never does."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from accounting import verdict
from turn_records import turn_message, verdict_key
from worker_process import WorkerProcess, wait_until

from workers.policy_file import load_policy, utc_today
from workers.testing.kafka_io import produce, read_to_end, wait_for_records
from workers.testing.kafka_topics import TopicFactory
from workers.topic_catalogue import load_catalogue

pytestmark = pytest.mark.kafka

MODEL = "example-1"


class Scene:
    """A worker with a policy file, and turns of one model, sent one by one."""

    def __init__(self, kafka: str, topics: TopicFactory, worker: WorkerProcess, policy: Path) -> None:
        self._kafka, self._topics, self._worker, self._policy = kafka, topics, worker, policy
        self._numbers = itertools.count()

    def edit(self, text: str) -> None:
        """Replace the file in one step, as a ConfigMap does."""
        fresh = self._policy.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(self._policy)

    def judged(self) -> tuple[str, str]:
        """Send a turn; return the policy version of its verdict, and the state of its model."""
        turn = f"t-{next(self._numbers)}"
        message = turn_message("c-1", turn, fingerprint={"model_id": MODEL})
        asyncio.run(produce(self._kafka, self._topics.name("turns"), [message]))
        fidelity = self._topics.name("fidelity")
        records = asyncio.run(wait_for_records(self._kafka, fidelity, int(turn[2:]) + 1))
        value = {record.key: record.value for record in records}[verdict_key("c-1", turn)]
        assert value is not None
        found = verdict(value)
        return found["policy"], found["completeness"]["model_id"]

    def policies_shown(self) -> set[str]:
        """Return the versions that ``engram_policy_info`` shows."""
        return {dict(labels)["version"] for labels in self._worker.series("engram_policy_info")}

    def reloads(self, outcome: str) -> int:
        return int(self._worker.metric("engram_policy_reloads_total", outcome=outcome))

    def send_until(self, outcome: str, count: int) -> None:
        """Send turns until so many edits have come to ``outcome``: the file is looked at between batches."""

        def reloaded() -> bool:
            self.judged()
            return self.reloads(outcome) == count

        wait_until(reloaded, f"an edit is {outcome}")


def test_an_edit_holds_between_batches_and_a_broken_one_is_refused_counted_and_changes_nothing(
    kafka: str, kafka_topics: TopicFactory, tmp_path: Path
) -> None:
    kafka_topics.create(*(topic.name for topic in load_catalogue()), partitions=1)
    policy = tmp_path / "policy.yaml"
    policy.write_text("aliases: [latest]\n", encoding="utf-8")
    first = load_policy(policy, utc_today()).version
    with WorkerProcess(kafka, kafka_topics.prefix, tmp_path, policy__file=policy) as worker:
        worker.wait_ready()
        scene = Scene(kafka, kafka_topics, worker, policy)
        assert scene.judged() == (first, "present")
        assert scene.policies_shown() == {first}

        scene.edit(f"aliases: [latest, {MODEL}]\n")
        second = load_policy(policy, utc_today()).version
        scene.send_until("applied", 1)
        assert scene.judged() == (second, "alias")
        assert scene.policies_shown() == {second}

        scene.edit("aliases: everything\n")
        scene.send_until("refused", 1)
        assert scene.judged() == (second, "alias")
        assert (scene.policies_shown(), scene.reloads("applied")) == ({second}, 1)
        [refusal] = [line for line in worker.log().splitlines() if "policy edit refused" in line]
        assert f"version {second} stays in force" in refusal
        assert "ERROR" in refusal

        scene.edit("aliases: [latest]\n")
        scene.send_until("applied", 2)
        assert scene.judged() == (first, "present")
        assert worker.terminate() == 0

    written = asyncio.run(read_to_end(kafka, kafka_topics.name("fidelity")))
    versions = [verdict(record.value or b"")["policy"] for record in written]
    assert [version for version, _ in itertools.groupby(versions)] == [first, second, first]
