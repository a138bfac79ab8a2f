"""The catalogue of topics: what each is for and how it has to be configured, read from ``topics/*.yaml``.

One file per topic. Everything that needs a topic's partitions, retention or name asks here.
"""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from workers.errors import ConfigurationError
from workers.resources import resource_folder

DEFAULT_PARTITIONS: Final = 12
"""Partitions of the inputs, and of what follows them, where the cluster and the operator say nothing else."""

AS_INPUTS: Final = "inputs"
"""Value of ``partitions`` of the topics that have as many partitions as the inputs."""

_UNITS: Final = {"h": "hours", "d": "days"}
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MILLISECOND: Final = timedelta(milliseconds=1)


def topic_name(name: str, prefix: str = "") -> str:
    """Return the name on the cluster of the catalogue's topic ``name``.

    ``prefix`` (setting ``topics.prefix``) lets several environments share a cluster; it is put in front as it is.

    Raises:
        ConfigurationError: the result is no legal topic name.
    """
    full = prefix + name
    if not _LEGAL_NAME.fullmatch(full):
        raise ConfigurationError(
            f"topics.prefix: {prefix!r} gives the illegal topic name {full!r}; use letters, digits, '.', '_' and '-', "
            "at most 249 characters together"
        )
    return full


def _duration(value: object) -> object:
    match = re.fullmatch(r"(\d+)([hd])", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a duration is a whole number of hours or days, as in `12h` or `7d`")
    return timedelta(**{_UNITS[match.group(2)]: int(match.group(1))})


Duration = Annotated[timedelta, BeforeValidator(_duration)]


class Topic(BaseModel):
    """One topic of the catalogue."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    """Name without the environment's prefix."""
    purpose: str
    """What the topic is for, one sentence."""
    owner: Literal["producers", "engram-stream"]
    """Who writes to it."""
    key: str
    """What the record key consists of."""
    subject: str
    """Schema subject of the values, or ``original`` where the bytes are those of another topic."""
    partitions: Literal["inputs"] | PositiveInt
    """``inputs``: as many as the inputs have; else the number."""
    co_partitioned_with: str | None = None
    """The topic whose records of the same key must lie in the partition of the same number."""
    growable: bool = False
    """Whether partitions may be added: no reader relies on a key staying in its partition."""
    cleanup: tuple[Literal["compact", "delete"], ...]
    """Kafka's ``cleanup.policy``."""
    retention: Duration | None = None
    """How long records stay where ``cleanup`` has ``delete``."""
    timestamp: Literal["LogAppendTime", "CreateTime"]
    """``LogAppendTime``: the broker stamps; ``CreateTime``: the worker does, never from a producer's clock."""
    max_message_bytes: PositiveInt
    """Largest record batch, in bytes."""
    segment: Duration
    """Age at which a segment is closed; only closed segments are compacted or deleted."""
    max_compaction_lag: Duration | None = None
    """How long an overwritten or nulled record may stay in a compacted topic's closed segments."""

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if ("delete" in self.cleanup) != (self.retention is not None):
            raise ValueError("`retention` belongs to the cleanup `delete`, and only to it")
        if ("compact" in self.cleanup) != (self.max_compaction_lag is not None):
            raise ValueError("`max_compaction_lag` belongs to the cleanup `compact`, and only to it")
        if self.co_partitioned_with is not None and self.partitions != AS_INPUTS:
            raise ValueError("a co-partitioned topic has `partitions: inputs`")
        return self

    def partition_count(self, inputs: int) -> int:
        """Return the number of partitions where the inputs have ``inputs``."""
        return inputs if self.partitions == AS_INPUTS else self.partitions

    def configuration(self, replication_factor: int) -> dict[str, str]:
        """Return the topic's configuration in Kafka's names and units.

        With three replicas or more a write is acknowledged by two: the loss of one broker then loses nothing, and the
        absence of one stops nothing.
        """
        configuration = {
            "cleanup.policy": ",".join(self.cleanup),
            "max.message.bytes": str(self.max_message_bytes),
            "message.timestamp.type": self.timestamp,
            "min.insync.replicas": "2" if replication_factor >= 3 else "1",
            "segment.ms": _milliseconds(self.segment),
        }
        if self.retention is not None:
            configuration["retention.ms"] = _milliseconds(self.retention)
        if self.max_compaction_lag is not None:
            configuration["max.compaction.lag.ms"] = _milliseconds(self.max_compaction_lag)
        return configuration


def _milliseconds(duration: timedelta) -> str:
    return str(duration // _MILLISECOND)


@cache
def load_catalogue(folder: Path | None = None) -> tuple[Topic, ...]:
    """Return all topics of ``folder`` (default: those shipped), sorted by name.

    Raises:
        ConfigurationError: a file is not valid, or its name is not that of its topic.
    """
    paths = sorted((folder or resource_folder("topics")).glob("*.yaml"), key=lambda path: path.stem)
    topics = tuple(_load(path) for path in paths)
    names = {topic.name for topic in topics}
    for topic in topics:
        if topic.co_partitioned_with is not None and topic.co_partitioned_with not in names:
            raise ConfigurationError(
                f"topics/{topic.name}.yaml: co_partitioned_with names {topic.co_partitioned_with}, "
                "which is no topic of the catalogue"
            )
    return topics


def find_topic(name: str) -> Topic:
    """Return the shipped topic ``name``.

    Raises:
        KeyError: the catalogue has none of that name.
    """
    return {topic.name: topic for topic in load_catalogue()}[name]


def _load(path: Path) -> Topic:
    try:
        topic = Topic.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise ConfigurationError(f"topics/{path.name}: {error}") from error
    if topic.name != path.stem:
        raise ConfigurationError(f"topics/{path.name}: the topic is named {topic.name}; file and topic share one name")
    return topic
