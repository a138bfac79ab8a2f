"""`engram-stream topics` against Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from workers.commands.topics import command
from workers.errors import EngramError, UnreachableError
from workers.testing.kafka_topics import TopicFactory
from workers.testing.local_kafka import LocalKafka
from workers.topic_catalogue import load_catalogue

pytestmark = pytest.mark.kafka

Run = Callable[..., Result]


@pytest.fixture
def admin(kafka: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka, "log_level": 0})


@pytest.fixture
def topics(kafka: str, kafka_topics: TopicFactory, admin: AdminClient) -> Iterator[Run]:
    """Runs ``engram-stream topics`` under the prefix of this test; what it created is deleted."""

    def run(*arguments: str) -> Result:
        environment = {"ENGRAM_TOPICS__PREFIX": kafka_topics.prefix, "KAFKA_BOOTSTRAP_SERVERS": kafka}
        return CliRunner().invoke(command, arguments, env=environment)

    yield run
    created = [name for name in admin.list_topics(timeout=30).topics if name.startswith(kafka_topics.prefix)]
    for answer in admin.delete_topics(created).values() if created else ():
        answer.result(timeout=30)


def plan_of(result: Result) -> dict[str, list[dict[str, Any]]]:
    plan: dict[str, list[dict[str, Any]]] = json.loads(result.stdout)
    return plan


def set_retention(admin: AdminClient, topic: str, value: str) -> None:
    entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(timeout=30)


def configuration(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return {entry.name: entry.value for entry in admin.describe_configs([resource])[resource].result(30).values()}


def test_an_empty_cluster_is_planned_applied_and_then_as_it_has_to_be(
    topics: Run, kafka_topics: TopicFactory, admin: AdminClient
) -> None:
    planned = topics("plan", "--format", "json", "--partitions", "3")
    assert planned.exit_code == 3
    assert len(plan_of(planned)["creations"]) == len(load_catalogue())
    assert not any(name.startswith(kafka_topics.prefix) for name in admin.list_topics(timeout=30).topics)

    applied = topics("apply", "--yes", "--partitions", "3")
    assert applied.exit_code == 0
    for topic in load_catalogue():
        name = kafka_topics.name(topic.name)
        assert len(admin.list_topics(timeout=30).topics[name].partitions) == topic.partition_count(3)
        wanted = topic.configuration(1)
        assert {key: value for key, value in configuration(admin, name).items() if key in wanted} == wanted

    for arguments in (("plan",), ("apply",)):
        again = topics(*arguments)
        assert (again.exit_code, again.stdout) == (0, "nothing to do\n")


def test_a_changed_retention_is_repaired_and_what_the_operator_added_stays(
    topics: Run, kafka_topics: TopicFactory, admin: AdminClient
) -> None:
    topics("apply", "--yes", "--partitions", "1")
    turns = kafka_topics.name("turns")
    set_retention(admin, turns, "3600000")
    entry = ConfigEntry("compression.type", "zstd", incremental_operation=AlterConfigOpType.SET)
    added = ConfigResource(ResourceType.TOPIC, turns, incremental_configs=[entry])
    admin.incremental_alter_configs([added])[added].result(timeout=30)

    planned = topics("plan")
    assert planned.exit_code == 3
    assert "retention.ms 3600000 (1 h) → 604800000 (7 d)" in planned.stdout
    assert topics("apply", "--yes").exit_code == 0

    assert configuration(admin, turns)["retention.ms"] == "604800000"
    assert configuration(admin, turns)["compression.type"] == "zstd"
    assert topics("plan").exit_code == 0


@pytest.mark.parametrize("partitions", ["2", "8"])
def test_neither_shrinking_nor_silent_growing_of_keyed_topics_happens(
    topics: Run, kafka_topics: TopicFactory, admin: AdminClient, partitions: str
) -> None:
    topics("apply", "--yes", "--partitions", "4")
    set_retention(admin, kafka_topics.name("alerts"), "3600000")

    applied = topics("apply", "--yes", "--partitions", partitions)

    assert isinstance(applied.exception, EngramError)
    assert "refuse" in applied.stdout
    after = admin.list_topics(timeout=30).topics
    assert {len(after[kafka_topics.name(name)].partitions) for name in ("turns", "state-writes", "turns-dlq")} == {4}
    assert configuration(admin, kafka_topics.name("alerts"))["retention.ms"] == "3600000", (
        "nothing else was done either"
    )


def test_topics_that_break_co_partitioning_are_refused(
    topics: Run, kafka_topics: TopicFactory, admin: AdminClient
) -> None:
    kafka_topics.create_plain("turns", partitions=4)
    kafka_topics.create_plain("state-writes", partitions=2)

    planned = topics("plan", "--format", "json")

    assert planned.exit_code == 3
    assert [refusal["topic"] for refusal in plan_of(planned)["refusals"]] == [kafka_topics.name("state-writes")]
    assert isinstance(topics("apply", "--yes").exception, EngramError)
    assert kafka_topics.name("fidelity") not in admin.list_topics(timeout=30).topics


def test_a_dead_letter_topic_grows_with_its_input(topics: Run, kafka_topics: TopicFactory, admin: AdminClient) -> None:
    kafka_topics.create_plain("turns", partitions=4)
    kafka_topics.create_plain("turns-dlq", partitions=1)

    assert topics("apply", "--yes").exit_code == 0

    assert len(admin.list_topics(timeout=30).topics[kafka_topics.name("turns-dlq")].partitions) == 4


def test_without_a_terminal_nothing_is_applied_that_was_not_agreed_to(
    topics: Run, kafka_topics: TopicFactory, admin: AdminClient
) -> None:
    applied = topics("apply")
    assert applied.exit_code == 2
    assert "--yes" in applied.stderr
    assert kafka_topics.name("turns") not in admin.list_topics(timeout=30).topics


def test_a_cluster_that_is_not_there_is_told_in_one_line() -> None:
    result = CliRunner().invoke(command, ["plan", "--bootstrap-servers", "127.0.0.1:1"])
    assert isinstance(result.exception, UnreachableError)
    assert "connection refused" in str(result.exception)


def test_over_tls_an_administrator_applies_and_a_user_without_permission_learns_which_is_missing() -> None:
    with LocalKafka(authorizer=True) as kafka:
        run = CliRunner(
            env={
                "KAFKA_BOOTSTRAP_SERVERS": kafka.secured_bootstrap_servers,
                "ENGRAM_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
                "ENGRAM_KAFKA__SSL_CA_FILE": str(kafka.certificate),
            }
        )
        administrator = credentials("admin", kafka.users["admin"])
        assert run.invoke(command, ["apply", "--yes"], env=administrator).exit_code == 0
        assert run.invoke(command, ["plan"], env=administrator).exit_code == 0

        wrong = run.invoke(command, ["plan"], env=credentials("admin", "wrong"))
        assert "wrong user or password for admin" in str(wrong.exception)

        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        set_retention(admin, "turns", "3600000")
        deny(admin, "worker", "turns", AclOperation.ALTER_CONFIGS)
        refused = run.invoke(command, ["apply", "--yes"], env=credentials("worker", kafka.users["worker"]))
        assert isinstance(refused.exception, EngramError)
        assert "topic turns: Kafka refuses to change its configuration" in str(refused.exception)
        assert "ALTER_CONFIGS" in str(refused.exception)


def credentials(user: str, password: str) -> dict[str, str]:
    return {"ENGRAM_KAFKA__SASL_USERNAME": user, "ENGRAM_KAFKA__SASL_PASSWORD": password}


def deny(admin: AdminClient, user: str, topic: str, operation: AclOperation) -> None:
    pattern, denial = ResourcePatternType.LITERAL, AclPermissionType.DENY
    binding = AclBinding(ResourceType.TOPIC, topic, pattern, f"User:{user}", "*", operation, denial)
    admin.create_acls([binding])[binding].result(timeout=30)
