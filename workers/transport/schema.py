"""How a `RecordBatch` passes through Faust as it is: as the value of a message, and of an event."""

from __future__ import annotations

from typing import Any

from faust.serializers.schemas import DecodeFunction, Schema
from faust.types import TP, AppT, ConsumerMessage, EventT, Message

from workers.transport.batch import RecordBatch


class BatchSchema(Schema[Any, Any]):
    """Pass batches through undecoded.

    Keys, values and headers stay raw inside the batch; Faust's `Event` would fold duplicate header keys.
    """

    def compile(self, app: AppT, **_: object) -> DecodeFunction:
        """Return the coroutine that wraps a message of our transport into a Faust event."""
        create_event = app.create_event

        async def decode(message: Message, *, propagate: bool = False) -> EventT[Any]:
            return create_event(None, message.value, None, message)

        return decode


def message_of(batch: RecordBatch) -> ConsumerMessage:
    """Return the message that carries ``batch``; Faust's streams skip it once its generation is over."""
    return ConsumerMessage(
        batch.partition.topic,
        batch.partition.number,
        batch.start,
        batch.records[0].timestamp / 1000,
        timestamp_type=0,
        headers=None,
        key=None,
        value=batch,  # type: ignore[arg-type]
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=batch.nbytes,
        tp=TP(*batch.partition),
        generation_id=batch.generation,
    )
