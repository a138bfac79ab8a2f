"""What has to change on a cluster so that its topics are those of the catalogue. Pure: states in, plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from workers.errors import ConfigurationError
from workers.topic_catalogue import AS_INPUTS, DEFAULT_PARTITIONS, Topic, topic_name

MOST_REPLICAS: Final = 3
"""Replication factor of new topics where the operator says nothing and the cluster has that many brokers."""

RECIPE: Final = "docs/topics.md, 'More partitions'"


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is on the cluster; ``configuration`` in Kafka's names."""

    partitions: int
    replication_factor: int
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster: its brokers, and those topics of the catalogue that exist, by full name."""

    brokers: int
    topics: Mapping[str, TopicState]


@dataclass(frozen=True, slots=True)
class Creation:
    """A topic to create."""

    topic: str
    partitions: int
    replication_factor: int
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Setting:
    """A configuration value to change; ``now`` is None where the cluster does not know the setting."""

    name: str
    now: str | None
    wanted: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings of an existing topic to change. Settings the catalogue is silent about stay."""

    topic: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Growth:
    """Partitions to add."""

    topic: str
    now: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a topic that is told and not changed."""

    topic: str
    text: str


@dataclass(slots=True)
class Plan:
    """Everything to do, to tell and to refuse. With a refusal nothing is done at all."""

    creations: list[Creation] = field(default_factory=list)
    configurations: list[Configuration] = field(default_factory=list)
    growths: list[Growth] = field(default_factory=list)
    refusals: list[Remark] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.creations or self.configurations or self.growths)


def make_plan(
    catalogue: Sequence[Topic],
    cluster: ClusterState,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    prefix: str = "",
) -> Plan:
    """Return what makes the cluster's topics those of ``catalogue``.

    Args:
        catalogue: the topics that have to be.
        cluster: the topics that are.
        partitions: partitions of the inputs; None: as many as the existing ones have, else `DEFAULT_PARTITIONS`.
        replication_factor: of new topics; None: the number of brokers, at most `MOST_REPLICAS`.
        prefix: what precedes every name on the cluster.

    Raises:
        ConfigurationError: ``replication_factor`` is above the number of brokers.

    Rules: docs/topics.md, "What apply changes and what it refuses".
    """
    replicas = replication_factor or min(MOST_REPLICAS, cluster.brokers)
    if replicas > cluster.brokers:
        raise ConfigurationError(
            f"--replication-factor {replicas}: the cluster has {cluster.brokers} brokers; give at most that many"
        )
    counts = _partitions_of_inputs(catalogue, cluster, prefix)
    inputs = partitions or next(iter(counts.values()), DEFAULT_PARTITIONS)
    plan = Plan()
    for topic in catalogue:
        name = topic_name(topic.name, prefix)
        state = cluster.topics.get(name)
        wanted = topic.partition_count(inputs)
        if state is None:
            plan.creations.append(Creation(name, wanted, replicas, topic.configuration(replicas)))
            continue
        _compare_partitions(topic, name, state, wanted, plan)
        _compare_configuration(topic, name, state, plan)
        if state.replication_factor < replicas or replication_factor not in {None, state.replication_factor}:
            plan.remarks.append(_replication_remark(name, state, replicas))
    if plan.refusals and partitions is not None and len(set(counts.values())) == 1:
        plan.remarks.append(Remark(next(iter(counts)), f"fits the others with --partitions {min(counts.values())}"))
    return plan


def _partitions_of_inputs(catalogue: Sequence[Topic], cluster: ClusterState, prefix: str) -> dict[str, int]:
    """Return the partitions of the existing topics that must have equally many; first the one the others follow."""
    group = [topic for topic in catalogue if topic.partitions == AS_INPUTS and not topic.growable]
    names = [
        topic_name(topic.name, prefix)
        for topic in sorted(group, key=lambda topic: topic.co_partitioned_with is not None)
    ]
    return {name: cluster.topics[name].partitions for name in names if name in cluster.topics}


def _compare_partitions(topic: Topic, name: str, state: TopicState, wanted: int, plan: Plan) -> None:
    if state.partitions == wanted:
        return
    if topic.growable:
        if state.partitions < wanted:
            plan.growths.append(Growth(name, state.partitions, wanted))
        return
    what = f"has {state.partitions} partitions and has to have {wanted}"
    if topic.co_partitioned_with is not None:
        what += f", as many as {topic.co_partitioned_with}, so that records of one key meet in one worker"
    if state.partitions > wanted:
        why = "Kafka cannot take partitions away"
    else:
        why = "more partitions would move keys away from their records and their state"
    plan.refusals.append(Remark(name, f"{what}; {why}. Follow {RECIPE}"))


def _compare_configuration(topic: Topic, name: str, state: TopicState, plan: Plan) -> None:
    settings = tuple(
        Setting(key, state.configuration.get(key), wanted)
        for key, wanted in topic.configuration(state.replication_factor).items()
        if not _same(key, state.configuration.get(key), wanted)
    )
    if settings:
        plan.configurations.append(Configuration(name, settings))


def _same(key: str, now: str | None, wanted: str) -> bool:
    if key == "cleanup.policy" and now is not None:
        return set(now.split(",")) == set(wanted.split(","))
    return now == wanted


def _replication_remark(name: str, state: TopicState, wanted: int) -> Remark:
    return Remark(
        name,
        f"has replication factor {state.replication_factor}, not {wanted}; moving replicas is for "
        "kafka-reassign-partitions, nothing is changed here",
    )
