"""Topics of one test: the catalogue's, under a prefix of their own, gone afterwards."""

from __future__ import annotations

import uuid
from concurrent.futures import Future
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from workers.topic_catalogue import find_topic, topic_name

_TIMEOUT_S = 30.0


class TopicFactory:
    """Creates topics with a prefix nobody else has, and deletes them.

    ``prefix`` is what the setting ``topics.prefix`` of a worker under test has to be. The calls block, for some tens of
    milliseconds each.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = f"t{uuid.uuid4().hex[:10]}-"
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._created: list[str] = []
        self._groups: list[str] = []

    def create(self, *names: str, partitions: int = 4, replication_factor: int = 1, **overrides: str) -> None:
        """Create the catalogue's topics ``names`` with its configuration.

        ``partitions`` is the number of the inputs. ``overrides`` are settings of Kafka with ``_`` for ``.``, as in
        ``max_message_bytes="2000"``.

        Raises:
            KeyError: a name is not in the catalogue.
            KafkaException: Kafka refused.
        """
        changes = {name.replace("_", "."): value for name, value in overrides.items()}
        self._create(
            [
                NewTopic(
                    self.name(name),
                    find_topic(name).partition_count(partitions),
                    replication_factor,
                    config=find_topic(name).configuration(replication_factor) | changes,
                )
                for name in names
            ]
        )

    def create_plain(self, name: str, partitions: int = 1, **configuration: str) -> str:
        """Create a topic that is not in the catalogue; return its full name."""
        settings = {key.replace("_", "."): value for key, value in configuration.items()}
        self._create([NewTopic(self.name(name), partitions, 1, config=settings)])
        return self.name(name)

    def name(self, name: str) -> str:
        """Return the full name of ``name``."""
        return topic_name(name, self.prefix)

    def group_id(self, name: str = "workers") -> str:
        """Return a consumer group id of this test."""
        group = f"{self.prefix}{name}"
        if group not in self._groups:
            self._groups.append(group)
        return group

    def delete(self) -> None:
        """Delete what was created; groups that still have members stay."""
        if self._created:
            # One that was deleted and made anew stands there twice; Kafka refuses to delete it twice.
            _wait(self._admin.delete_topics(list(dict.fromkeys(self._created)), operation_timeout=_TIMEOUT_S))
            self._created = []
        if self._groups:
            for future in self._admin.delete_consumer_groups(self._groups).values():
                future.exception(timeout=_TIMEOUT_S)
            self._groups = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def _create(self, topics: list[NewTopic]) -> None:
        self._created.extend(topic.topic for topic in topics)
        _wait(self._admin.create_topics(topics, operation_timeout=_TIMEOUT_S))
        self._wait_for_leaders([topic.topic for topic in topics])

    def _wait_for_leaders(self, names: list[str]) -> None:
        # Kafka answers before the brokers' metadata has the topic; clients that ask too early see no partitions.
        for name in names:
            while True:
                partitions = self._admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions
                if partitions and all(partition.leader >= 0 for partition in partitions.values()):
                    break


def _wait(futures: dict[str, Future[None]]) -> None:
    for future in futures.values():
        try:
            future.result(timeout=_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
