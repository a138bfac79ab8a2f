"""The topics of a cluster: read, create, change. Never deletes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from workers.admin.topic_plan import ClusterState, Plan, TopicState
from workers.config import KafkaSettings, read_secret
from workers.errors import EngramError, UnreachableError
from workers.transport.connection import client_options, explained

_T = TypeVar("_T")
_TIMEOUT_S: Final = 30.0


class TopicAdmin:
    """Reads and changes topics with librdkafka's admin client.

    aiokafka's can only replace a topic's whole configuration, which would reset what an operator set beside ours.
    """

    def __init__(self, kafka: KafkaSettings) -> None:
        """Connect.

        Raises:
            UnreachableError: Kafka does not answer or refuses us; the message says why.
            ConfigurationError: a certificate or secret cannot be read.
        """
        asyncio.run(_try_connection(kafka))
        self._admin = AdminClient(_librdkafka_options(kafka))
        self._where = kafka.bootstrap_servers

    def state(self, names: Sequence[str]) -> ClusterState:
        """Return the cluster's brokers and those topics of ``names`` that exist.

        Raises:
            UnreachableError: Kafka does not answer.
            EngramError: it refuses.
        """
        try:
            metadata = self._admin.list_topics(timeout=_TIMEOUT_S)
        except KafkaException as error:
            raise UnreachableError(f"Kafka at {self._where}: {error.args[0].str()}") from error
        found = {name: metadata.topics[name] for name in names if name in metadata.topics}
        configurations = self._configurations(list(found))
        topics = {
            name: TopicState(
                partitions=len(topic.partitions),
                replication_factor=min((len(part.replicas) for part in topic.partitions.values()), default=0),
                configuration=configurations[name],
            )
            for name, topic in found.items()
        }
        return ClusterState(brokers=len(metadata.brokers), topics=topics)

    def apply(self, plan: Plan, say: Callable[[str], None]) -> None:
        """Do everything in ``plan``; ``say`` gets one line for each thing done.

        Raises:
            EngramError: Kafka refused a change; what was done before it stays, and applying again does the rest.
        """
        for creation in plan.creations:
            new = NewTopic(
                creation.topic,
                creation.partitions,
                creation.replication_factor,
                config=dict(creation.configuration),
            )
            self._wait(creation.topic, "create it", self._admin.create_topics([new]))
            say(f"created {creation.topic}")
        for change in plan.configurations:
            entries = [
                ConfigEntry(setting.name, setting.wanted, incremental_operation=AlterConfigOpType.SET)
                for setting in change.settings
            ]
            resource = ConfigResource(ResourceType.TOPIC, change.topic, incremental_configs=entries)
            self._wait(change.topic, "change its configuration", self._admin.incremental_alter_configs([resource]))
            say(f"configured {change.topic}")
        for growth in plan.growths:
            more = NewPartitions(growth.topic, growth.wanted)
            self._wait(growth.topic, "add partitions", self._admin.create_partitions([more]))
            say(f"grew {growth.topic}")

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Wait until all brokers show what was applied, which they learn a moment after it is acknowledged.

        Raises:
            EngramError: they do not, after 30 s.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        while not reached():
            if time.monotonic() > deadline:
                raise EngramError(
                    f"Kafka at {self._where} accepted the changes but does not show them after {_TIMEOUT_S:.0f} s; "
                    "something else may change the same topics: run `engram-stream topics plan` again"
                )
            time.sleep(0.1)

    def _configurations(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        return {
            resource.name: {
                entry.name: entry.value
                for entry in self._result(resource.name, "read its configuration", answer).values()
                if entry.value is not None
            }
            for resource, answer in self._admin.describe_configs(resources).items()
        }

    def _wait(self, topic: str, what: str, answers: Mapping[Any, Future[Any]]) -> None:
        for answer in answers.values():
            self._result(topic, what, answer)

    def _result(self, topic: str, what: str, answer: Future[_T]) -> _T:
        try:
            return answer.result(timeout=_TIMEOUT_S)
        except KafkaException as error:
            raise EngramError(f"topic {topic}: Kafka refuses to {what}: {_reason(error.args[0])}") from error
        except TimeoutError as error:
            raise UnreachableError(f"Kafka at {self._where} did not answer within {_TIMEOUT_S:.0f} s") from error


def _reason(error: KafkaError) -> str:
    if error.code() in {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}:
        return (
            "this user may not; grant it DESCRIBE, CREATE, ALTER, DESCRIBE_CONFIGS and ALTER_CONFIGS on the topic, "
            "or run the command as an administrator"
        )
    if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return "it exists by now; run the command again, or grant this user DESCRIBE on the topic if it cannot see it"
    return f"{error.name()}: {error.str()}"


async def _try_connection(kafka: KafkaSettings) -> None:
    """Connect once with aiokafka, whose failures we can explain; librdkafka gives them to its log alone."""
    with explained(kafka):
        admin = AIOKafkaAdminClient(**client_options(kafka))
        try:
            await admin.start()
        finally:
            await admin.close()


def _librdkafka_options(kafka: KafkaSettings) -> dict[str, str | int | float | bool]:
    """Return the settings in the names of librdkafka."""
    options: dict[str, str | int | None] = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": kafka.security_protocol,
        "log_level": 0,
    }
    if kafka.security_protocol in {"SSL", "SASL_SSL"}:
        options |= {
            "ssl.ca.location": _path(kafka.ssl_ca_file),
            "ssl.certificate.location": _path(kafka.ssl_cert_file),
            "ssl.key.location": _path(kafka.ssl_key_file or kafka.ssl_cert_file),
            "ssl.key.password": read_secret(
                kafka.ssl_key_password, kafka.ssl_key_password_file, "kafka.ssl_key_password_file"
            ),
        }
    if kafka.security_protocol.startswith("SASL"):
        options |= {
            "sasl.mechanism": kafka.sasl_mechanism,
            "sasl.username": kafka.sasl_username,
            "sasl.password": read_secret(kafka.sasl_password, kafka.sasl_password_file, "kafka.sasl_password_file"),
        }
    return {name: value for name, value in options.items() if value is not None}


def _path(path: object) -> str | None:
    return None if path is None else str(path)
