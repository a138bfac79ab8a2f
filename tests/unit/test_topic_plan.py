"""The catalogue of topics, the plan made from it, and its page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from workers.admin.topic_plan import ClusterState, Plan, Remark, TopicState, make_plan
from workers.admin.topics_reference import PAGE, topics_markdown
from workers.errors import ConfigurationError
from workers.resources import resource_folder
from workers.topic_catalogue import DEFAULT_PARTITIONS, find_topic, load_catalogue, topic_name

ROOT = Path(__file__).parents[2]
DAY_MS = 24 * 3_600_000


def cluster_as_wanted(partitions: int = 12, brokers: int = 1, prefix: str = "") -> ClusterState:
    """A cluster on which there is nothing to do."""
    return ClusterState(
        brokers,
        {
            topic_name(topic.name, prefix): TopicState(
                topic.partition_count(partitions), min(3, brokers), topic.configuration(min(3, brokers))
            )
            for topic in load_catalogue()
        },
    )


def with_topic(cluster: ClusterState, name: str, **changes: object) -> ClusterState:
    return replace(cluster, topics={**cluster.topics, name: replace(cluster.topics[name], **changes)})  # type: ignore[arg-type]


def without(cluster: ClusterState, *names: str) -> ClusterState:
    return replace(cluster, topics={name: state for name, state in cluster.topics.items() if name not in names})


def refused(plan: Plan) -> set[str]:
    return {refusal.topic for refusal in plan.refusals}


def test_what_was_nulled_in_a_compacted_topic_is_gone_within_two_days() -> None:
    compacted = [topic for topic in load_catalogue() if "compact" in topic.cleanup]
    assert compacted
    for topic in compacted:
        configuration = topic.configuration(3)
        assert int(configuration["max.compaction.lag.ms"]) <= DAY_MS
        assert int(configuration["segment.ms"]) <= DAY_MS


def test_inputs_are_stamped_by_the_broker_and_outputs_are_not() -> None:
    stamped = {topic.name for topic in load_catalogue() if topic.timestamp == "LogAppendTime"}
    assert stamped == {"turns", "state-writes"} == {t.name for t in load_catalogue() if t.owner == "producers"}


def test_a_dead_letter_topic_takes_every_record_of_its_input_with_its_reason() -> None:
    for source in ("turns", "state-writes"):
        letters = find_topic(f"{source}-dlq")
        assert letters.max_message_bytes == find_topic(source).max_message_bytes + 64 * 1024
        assert letters.cleanup == ("delete",)
        assert letters.subject == "original"


def test_every_subject_has_a_schema() -> None:
    for topic in load_catalogue():
        if topic.subject != "original":
            assert topic.subject == f"{topic.name}-value"
            assert (resource_folder("schemas") / topic.name / "v1.avsc").is_file()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"retention": "7"}, "hours or days"),
        ({"retention": None}, "retention"),
        ({"cleanup": ["compact"]}, "retention"),
        ({"color": "red"}, "color"),
        ({"co_partitioned_with": "nobody"}, "nobody"),
        ({"partitions": 3, "co_partitioned_with": "turns"}, "co-partitioned"),
        ({"name": "other"}, "share one name"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    good = yaml.safe_load((resource_folder("topics") / "turns.yaml").read_text())
    (tmp_path / "turns.yaml").write_text(yaml.safe_dump({k: v for k, v in {**good, **change}.items() if v is not None}))

    with pytest.raises(ConfigurationError, match=r"topics/turns\.yaml") as refusal:
        load_catalogue(tmp_path)
    assert complaint in str(refusal.value)


def test_a_prefix_that_is_no_topic_name_is_refused() -> None:
    assert topic_name("turns", "staging.") == "staging.turns"
    with pytest.raises(ConfigurationError, match=r"topics\.prefix"):
        topic_name("turns", "a/")


def test_an_empty_cluster_gets_every_topic_with_the_default_partitions() -> None:
    plan = make_plan(load_catalogue(), ClusterState(1, {}))

    assert [creation.topic for creation in plan.creations] == [topic.name for topic in load_catalogue()]
    assert {c.partitions for c in plan.creations if c.topic in {"turns", "state-writes", "fidelity"}} == {
        DEFAULT_PARTITIONS
    }
    assert {c.partitions for c in plan.creations if c.topic in {"alerts", "producer-paths"}} == {1}


def test_three_brokers_get_three_replicas_of_which_two_acknowledge() -> None:
    plan = make_plan(load_catalogue(), ClusterState(5, {}))

    assert {creation.replication_factor for creation in plan.creations} == {3}
    assert {creation.configuration["min.insync.replicas"] for creation in plan.creations} == {"2"}


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="the cluster has 2 brokers"):
        make_plan(load_catalogue(), ClusterState(2, {}), replication_factor=3)


@pytest.mark.parametrize("partitions", [None, 24])
def test_a_cluster_as_it_has_to_be_has_nothing_to_do_whatever_its_partitions(partitions: int | None) -> None:
    assert make_plan(load_catalogue(), cluster_as_wanted(partitions=24), partitions=partitions) == Plan()


def test_only_settings_of_the_catalogue_are_changed_and_equal_policies_in_another_order_are_equal() -> None:
    fidelity = find_topic("fidelity").configuration(1)
    cluster = with_topic(
        cluster_as_wanted(),
        "fidelity",
        configuration=fidelity | {"cleanup.policy": "delete,compact", "retention.ms": "1", "compression.type": "zstd"},
    )

    (change,) = make_plan(load_catalogue(), cluster).configurations

    assert change.topic == "fidelity"
    assert [(s.name, s.now, s.wanted) for s in change.settings] == [("retention.ms", "1", fidelity["retention.ms"])]


def test_a_missing_topic_is_created_with_the_partitions_of_those_it_must_match() -> None:
    cluster = without(cluster_as_wanted(partitions=6), "turns", "fidelity", "turns-dlq")

    plan = make_plan(load_catalogue(), cluster)

    assert {creation.topic: creation.partitions for creation in plan.creations} == {
        "fidelity": 6,
        "turns": 6,
        "turns-dlq": 6,
    }
    assert plan.refusals == []


@pytest.mark.parametrize("partitions", [6, 24])
def test_neither_fewer_nor_more_partitions_are_given_to_a_keyed_topic(partitions: int) -> None:
    plan = make_plan(load_catalogue(), cluster_as_wanted(partitions=12), partitions=partitions)

    assert refused(plan) == {"turns", "state-writes", "fidelity"}
    assert "More partitions" in plan.refusals[0].text
    assert plan.remarks == [Remark("turns", "fits the others with --partitions 12")]


def test_co_partitioned_topics_that_differ_are_refused_and_the_one_that_strays_is_named() -> None:
    cluster = with_topic(cluster_as_wanted(partitions=12), "state-writes", partitions=6)

    plan = make_plan(load_catalogue(), cluster)

    assert refused(plan) == {"state-writes"}
    assert "as many as turns" in plan.refusals[0].text


def test_a_dead_letter_topic_grows_to_the_size_of_its_input_and_never_has_too_many_partitions() -> None:
    cluster = with_topic(cluster_as_wanted(partitions=12), "turns-dlq", partitions=4)
    cluster = with_topic(cluster, "state-writes-dlq", partitions=40)

    plan = make_plan(load_catalogue(), cluster)

    assert [(growth.topic, growth.now, growth.wanted) for growth in plan.growths] == [("turns-dlq", 4, 12)]
    assert plan.refusals == []


def test_a_lower_replication_factor_is_told_and_not_changed() -> None:
    cluster = with_topic(
        cluster_as_wanted(brokers=3),
        "turns",
        replication_factor=1,
        configuration=find_topic("turns").configuration(1),
    )

    plan = make_plan(load_catalogue(), cluster)

    assert not plan.changes
    assert [remark.topic for remark in plan.remarks] == ["turns"]


def test_a_prefix_keeps_environments_apart() -> None:
    plan = make_plan(load_catalogue(), cluster_as_wanted(), prefix="staging.")
    assert [creation.topic for creation in plan.creations] == [f"staging.{topic.name}" for topic in load_catalogue()]
    assert make_plan(load_catalogue(), cluster_as_wanted(prefix="staging."), prefix="staging.") == Plan()


def test_the_page_is_that_of_the_catalogue() -> None:
    hint = "run python -m workers.admin.topics_reference"
    assert (ROOT / PAGE).read_text(encoding="utf-8") == topics_markdown(), hint
