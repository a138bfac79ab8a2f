"""Faust's producer, acknowledged by all replicas, idempotent, and bounded when it stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from faust.transport.drivers import aiokafka as driver

log = logging.getLogger(__name__)


class BatchProducer(driver.Producer):
    """Producer of the app. `flush` proves nothing: wait for the futures of what was sent."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._renewal = asyncio.Lock()

    def _settings_auth(self) -> Mapping[str, Any]:
        options: Mapping[str, Any] = self.app.transport_options.client_options  # type: ignore[attr-defined]
        return options

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True}

    async def flush(self) -> None:
        """Wait until everything buffered is sent, no longer than a drain, or what is left of the shutdown."""
        try:
            await asyncio.wait_for(super().flush(), self.app.seconds_to_stop())  # type: ignore[attr-defined]
        except TimeoutError:
            log.warning("Producer could not send everything it buffers in time.")

    async def on_stop(self) -> None:
        """Send what is buffered and close, within what is left of the shutdown."""
        producer = self._producer
        try:
            await asyncio.wait_for(super().on_stop(), self.app.seconds_to_stop())  # type: ignore[attr-defined]
        except TimeoutError:
            log.warning("Producer did not stop in time; closing its connections.")
            if producer is not None:
                await producer.client.close()

    @property
    def client(self) -> AIOKafkaProducer:
        """The idempotent aiokafka client of the moment; outputs are sent through it."""
        return self._ensure_producer()

    async def renew(self, failed: AIOKafkaProducer) -> None:
        """Replace the client ``failed``; callers that name a client already replaced do nothing.

        An idempotent client whose batch failed for good has spent the sequence numbers of that batch: the broker
        refuses everything it sends to that partition afterwards. A new client begins with a new producer id.

        Raises:
            KafkaError: the new client cannot start; the old one stays.
        """
        async with self._renewal:
            if self._producer is not failed:
                return
            fresh = self._new_producer()
            try:
                await fresh.start()
            except BaseException:
                await fresh.stop()
                raise
            self._producer = fresh
        # What others still have on its way through the old client gets its answer first.
        self.add_future(self._retire(failed))

    async def _retire(self, client: AIOKafkaProducer) -> None:
        try:
            await asyncio.wait_for(client.stop(), self.app.seconds_to_stop())  # type: ignore[attr-defined]
        except (TimeoutError, KafkaError):
            await client.client.close()
