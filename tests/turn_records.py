"""Single turns as records, well-formed or not, for tests that decide each of them."""

from __future__ import annotations

from typing import Any

from serde_builders import small_turn, turn_schema, write

from workers.keys import encode_key, partition_of
from workers.serde.schemas import load_ids
from workers.serde.wire_format import frame
from workers.testing.kafka_io import Message

TURN_SCHEMA_ID = load_ids()["turns"][1].id


def turn_message(conversation: str, turn: str, **changes: Any) -> Message:
    """Return the record of a valid turn of the tenant ``acme``, with ``changes``."""
    record = small_turn(conversation_id=conversation, turn_id=turn, **changes)
    return Message(encode_key("acme", conversation), frame(TURN_SCHEMA_ID, write(turn_schema(), record)))


def verdict_key(conversation: str, turn: str) -> bytes:
    """Return the key of the verdict on that turn."""
    return encode_key("acme", conversation, turn)


def bad_message(conversation: str, mark: str) -> Message:
    """Return a record that is dead-lettered with ``bad_magic``; ``mark`` makes its bytes its own."""
    return Message(encode_key("acme", conversation), f"no frame: {mark}".encode())


def conversation_in(partition: int, partitions: int) -> str:
    """Return a conversation of the tenant ``acme`` whose turns lie in ``partition``."""
    return next(
        name
        for name in map("c-{}".format, range(1_000))
        if partition_of(encode_key("acme", name), partitions) == partition
    )
