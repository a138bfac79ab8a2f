"""Entry point ``engram`` of Faust's transports: ``engram://host:port``."""

from __future__ import annotations

from typing import ClassVar

from faust.transport.drivers import aiokafka as driver
from faust.types.transports import ConsumerT, ProducerT

from workers.transport.consumer import BatchConsumer
from workers.transport.producer import BatchProducer


class Transport(driver.Transport):
    """Kafka transport that delivers batches."""

    Consumer: ClassVar[type[ConsumerT]] = BatchConsumer
    Producer: ClassVar[type[ProducerT]] = BatchProducer

    driver_version = f"engram batches on {driver.Transport.driver_version}"
