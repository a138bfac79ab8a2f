"""What the brokers know of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import TopicPartition

from workers.errors import UnreachableError


async def partitions_of(topic: str, client_options: Mapping[str, Any]) -> list[TopicPartition]:
    """Return the partitions of ``topic`` in order.

    An admin client is asked, since a consumer waits long for a topic that is not there.

    Raises:
        UnreachableError: the topic is not there, or has no leader yet; it may come.
        KafkaError: the brokers do not answer.
    """
    admin = AIOKafkaAdminClient(**client_options)
    await admin.start()
    try:
        (described,) = await admin.describe_topics([topic])
    finally:
        await admin.close()
    partitions = sorted(partition["partition"] for partition in described["partitions"])
    if described["error_code"] != 0 and not partitions:
        raise UnreachableError(f"topic {topic} does not exist; create it with `engram-stream topics apply`")
    if not partitions:
        raise UnreachableError(f"topic {topic} has no partition with a leader yet")
    return [TopicPartition(topic, number) for number in partitions]
