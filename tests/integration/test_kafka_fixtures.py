"""The Kafka of the tests does what the tests build on."""

from __future__ import annotations

import pytest

from workers.testing.kafka_io import Message, committed_offsets, end_offsets, produce, read_to_end
from workers.testing.kafka_topics import TopicFactory

pytestmark = pytest.mark.kafka


async def test_what_is_produced_is_read_back_byte_for_byte(kafka: str, kafka_topics: TopicFactory) -> None:
    kafka_topics.create("turns", partitions=3)
    messages = [Message(b"k%d" % n, None if n == 4 else b"v%d" % n, (("h", b"1"), ("h", None))) for n in range(50)]

    written = await produce(kafka, kafka_topics.name("turns"), messages)
    records = await read_to_end(kafka, kafka_topics.name("turns"))

    expected = {place: (m.key, m.value, m.headers) for place, m in zip(written, messages, strict=True)}
    assert {(r.partition, r.offset): (r.key, r.value, r.headers) for r in records} == expected
    assert sum((await end_offsets(kafka, kafka_topics.name("turns"))).values()) == 50
    assert await committed_offsets(kafka, kafka_topics.group_id(), kafka_topics.name("turns")) == {}


async def test_two_tests_never_share_a_topic(kafka: str, kafka_topics: TopicFactory) -> None:
    with TopicFactory(kafka) as other:
        other.create("turns", "turns-dlq")
        kafka_topics.create("turns")
        await produce(kafka, other.name("turns"), [Message(b"k", b"v")])
        assert await read_to_end(kafka, kafka_topics.name("turns")) == []
    with pytest.raises(LookupError):
        await read_to_end(kafka, other.name("turns"))
