"""Apache Kafka on this machine, for tests, demo and bench."""

from workers.testing.local_kafka.broker import KafkaStartError
from workers.testing.local_kafka.cluster import LocalKafka

__all__ = ["KafkaStartError", "LocalKafka"]
