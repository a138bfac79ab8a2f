"""Faust schema that hands a `RecordBatch` to the agent as it is."""

from __future__ import annotations

from typing import Any

from faust.serializers.schemas import DecodeFunction, Schema
from faust.types import AppT, EventT, Message


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
