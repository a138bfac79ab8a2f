"""A whole run of the worker on Apache Kafka, with its share of every kind of bad record: the books must balance."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from accounting import EVERY_KIND, PARTITIONS, TURNS, check_all_outputs, plan_with_one_percent_of_each_kind
from topic_reading import open_offsets
from traffic_sending import send
from worker_process import WorkerProcess

from workers.metrics.labels import End
from workers.testing.kafka_topics import TopicFactory
from workers.testing.traffic import BadKind
from workers.topic_catalogue import load_catalogue

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
PATIENCE_S = 480.0


@pytest.mark.parametrize("decoder", ["columns", "reference"])
def test_of_a_run_with_one_percent_of_every_bad_kind_each_record_comes_to_its_one_end(
    kafka: str, kafka_topics: TopicFactory, tmp_path: Path, decoder: str
) -> None:
    kafka_topics.create(*(topic.name for topic in load_catalogue()), partitions=PARTITIONS)
    turns, writes = kafka_topics.name("turns"), kafka_topics.name("state-writes")
    books = send(kafka, plan_with_one_percent_of_each_kind(kafka_topics.prefix, seed=11).records(TURNS))
    kinds = books.kinds()
    assert all(kinds[kind] > 0.005 * TURNS for kind in EVERY_KIND), kinds
    with WorkerProcess(kafka, kafka_topics.prefix, tmp_path, serde__decoder=decoder) as worker:
        worker.wait_ready()
        worker.wait_until(
            lambda: not open_offsets(kafka, worker.group, [turns, writes]), "everything is committed", PATIENCE_S
        )
        worker.wait_until(lambda: worker.metric("engram_lag_records") == 0, "the lag is 0")
        for topic in (turns, writes):
            ends = Counter({end: int(worker.metric("engram_records_total", topic=topic, end=end)) for end in End})
            assert ends == books.ends(topic)
            assert worker.metric("engram_records_received_total", topic=topic) == ends.total()
            letters = {
                dict(labels)["reason"]: int(count)
                for labels, count in worker.series("engram_dead_letters_total").items()
                if dict(labels)["topic"] == topic and count
            }
            assert letters == books.reasons(topic)
        assert worker.metric("engram_conservation_difference") == 0
        assert (worker.metric("engram_decode_rows_total", route="columns") > 0) == (decoder == "columns")
        assert worker.metric("engram_records_abandoned_total") == 0
        assert worker.metric("engram_records_conflicting_total") == kinds[BadKind.CONFLICTING_DUPLICATE]
        assert worker.terminate() == 0
    assert check_all_outputs(kafka, kafka_topics, books) == 0
