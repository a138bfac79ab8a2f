"""Apache Kafka for tests: one cluster per session, started by the first test that asks, topics per test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from workers.testing.kafka_topics import TopicFactory
from workers.testing.local_kafka import LocalKafka


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """Bootstrap servers of Apache Kafka: those of KAFKA_BOOTSTRAP_SERVERS, else of a cluster of this session."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        yield given
        return
    with LocalKafka() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def kafka_topics(kafka: str) -> Iterator[TopicFactory]:
    """Creates topics of the catalogue under a prefix of this test, and deletes them afterwards."""
    with TopicFactory(kafka) as factory:
        yield factory
