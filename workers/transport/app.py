"""Faust wired for batches: one place for every setting of the runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Literal, cast

import faust
from faust.types import TopicT

from workers.transport.consumer import BatchConsumer
from workers.transport.observer import SilentObserver, TransportObserver
from workers.transport.options import TransportOptions
from workers.transport.producer import BatchProducer
from workers.transport.schema import BatchSchema
from workers.transport.status import ExitCode

SCHEME = "engram"
"""Name of our entry point in ``faust.transports``; the scheme of a broker URL picks the transport."""

CLOSING_SECONDS = 1.0
"""Seconds each client gets to close when the drain has used up its deadline."""

MAX_OUTPUT_BYTES = 4 << 20
"""Above every limit of a topic: what is too large is for the broker to say."""


class BatchApp(faust.App):
    """A Faust app whose topics deliver `RecordBatch` objects.

    ``transport_options`` and ``transport_observer`` are what the transport reads from it.
    """

    transport_options: TransportOptions = TransportOptions()
    transport_observer: TransportObserver = SilentObserver()
    at_shutdown: Callable[[], Awaitable[None]] | None = None
    _stop_by: float | None = None

    @property
    def batches(self) -> BatchConsumer:
        """The consumer, typed: status, hold and release, resume, bytes in flight."""
        return cast("BatchConsumer", self.consumer)

    @property
    def batch_producer(self) -> BatchProducer:
        """The producer, typed: its client of the moment, and its renewal."""
        return cast("BatchProducer", self.producer)

    def batch_topic(self, name: str) -> TopicT:
        """Declare an input topic for ``@app.agent``: its events are batches and the agent acknowledges them itself."""
        return self.topic(name, acks=False, schema=BatchSchema())

    async def on_shutdown(self) -> None:
        """Release what the app's owner holds, once consumer and producer have stopped."""
        await super().on_shutdown()
        if self.at_shutdown is not None:
            await self.at_shutdown()

    def stop_deadline(self) -> float:
        """Return the monotonic time by which a shutdown must have drained; the first call starts the clock."""
        if self._stop_by is None:
            self._stop_by = monotonic() + self.transport_options.drain_deadline
        return self._stop_by

    def seconds_to_stop(self) -> float:
        """Return the seconds a client may still take to flush or close; a whole drain while not shutting down."""
        if not self.should_stop:
            return self.transport_options.drain_deadline
        return max(CLOSING_SECONDS, self.stop_deadline() - monotonic())

    @property
    def exit_code(self) -> ExitCode:
        """Code the process should end with once the worker has stopped."""
        return ExitCode.WORK_ABANDONED if self.batches.abandoned_at_shutdown else ExitCode.DRAINED


def create_faust_app(
    group_id: str,
    bootstrap_servers: Sequence[str],
    *,
    options: TransportOptions | None = None,
    observer: TransportObserver | None = None,
    datadir: Path,
    auto_offset_reset: Literal["earliest", "latest"] = "earliest",
    commit_interval: float = 1.0,
    max_partitions: int = 512,
    session_timeout: float = 30.0,
    heartbeat_interval: float = 3.0,
    max_fetch_size: int = 8 << 20,
    client_id: str = "engram-stream",
    linger: float = 0.02,
    compression: str = "lz4",
) -> BatchApp:
    """Return a Faust app on our transport.

    ``group_id`` is used exactly as given. ``bootstrap_servers`` are ``host:port``. ``datadir`` is created by Faust and
    must be writable. ``max_partitions`` bounds the partitions one worker is expected to own: the agents' buffers hold
    twice what may be in flight on all of them, so they never fill and one slow partition stops alone.
    ``max_fetch_size`` (bytes) must exceed the largest batch a producer of the input topics may send. ``linger``
    (seconds) and ``compression`` shape the batches of outputs.

    Raises:
        ValueError: no bootstrap server.
    """
    if not bootstrap_servers:
        raise ValueError("bootstrap_servers is empty: name at least one broker as host:port")
    options = options or TransportOptions()
    app = BatchApp(
        group_id,
        broker=";".join(f"{SCHEME}://{server}" for server in bootstrap_servers),
        broker_client_id=client_id,
        broker_session_timeout=session_timeout,
        broker_heartbeat_interval=heartbeat_interval,
        broker_rebalance_timeout=60.0,
        broker_request_timeout=40.0,
        broker_max_poll_interval=300.0,
        broker_commit_interval=commit_interval,
        consumer_max_fetch_size=max_fetch_size,
        consumer_auto_offset_reset=auto_offset_reset,
        consumer_metadata_max_age_ms=30_000,
        consumer_group_instance_id=options.group_instance_id,
        table_standby_replicas=0,
        store="memory://",
        topic_disable_leader=True,
        topic_allow_declare=False,
        stream_wait_empty=True,
        stream_buffer_maxsize=2 * max_partitions * options.max_in_flight,
        producer_request_timeout=30.0,
        producer_linger=linger,
        producer_max_batch_size=512 << 10,
        producer_max_request_size=MAX_OUTPUT_BYTES,
        producer_compression_type=None if compression == "none" else compression,
        producer_threaded=False,
        processing_guarantee="at_least_once",
        web_enabled=False,
        autodiscover=False,
        datadir=datadir,
        loghandlers=[],
        worker_redirect_stdouts=False,
    )
    app.transport_options = options
    app.transport_observer = observer or SilentObserver()
    return app
