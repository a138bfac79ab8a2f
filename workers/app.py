"""The Faust application: two agents that hand batches to their lanes. ``faust -A workers.app worker`` runs it too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from pathlib import Path
from tempfile import TemporaryFile

from workers.agents.accounts import Accounts
from workers.agents.counted_registry import CountedRegistry
from workers.agents.runtime import Runtime
from workers.agents.services import Services
from workers.config import Settings, load_settings, split_servers
from workers.errors import ConfigurationError
from workers.logs import configure_logging
from workers.metrics.exporter import Exporter
from workers.policy_file import PolicyFile
from workers.processing.state_writes import EFFECTS_FORMAT
from workers.serde.registry import open_registry
from workers.topic_catalogue import topic_name
from workers.transport.app import BatchApp, create_faust_app
from workers.transport.batch import RecordBatch
from workers.transport.connection import client_options
from workers.transport.options import TransportOptions


def build_app(settings: Settings) -> tuple[BatchApp, Runtime]:
    """Return the Faust app of a worker and its runtime; nothing is connected yet.

    Raises:
        ConfigurationError: a setting, the policy file or a secret is wrong, the data folder cannot be written to, or
            the metrics port is taken.
    """
    configure_logging(settings.log)
    _check_datadir(settings.worker.datadir)
    exporter = Exporter()
    app = create_faust_app(
        settings.kafka.group_id,
        split_servers(settings.kafka.bootstrap_servers),
        options=_transport_options(settings),
        datadir=settings.worker.datadir,
        commit_interval=settings.worker.commit_interval,
        linger=settings.outputs.linger,
        compression=settings.outputs.compression,
    )
    accounts = Accounts(exporter)
    registry = CountedRegistry(open_registry(settings.registry), exporter)
    services = Services(settings, app, registry, PolicyFile(settings.policy.file), exporter, accounts)
    runtime = Runtime(settings, app, services, accounts, exporter)
    app.transport_observer = runtime
    app.at_shutdown = runtime.close
    runtime.serve()
    _wire(app, runtime, services)
    return app, runtime


def _check_datadir(folder: Path) -> None:
    """Faust insists on a folder of its own, and would fail with a traceback."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"worker.datadir: cannot write to {folder}: {error.strerror}. Name a folder that the worker may write to."
        ) from None


def _transport_options(settings: Settings) -> TransportOptions:
    worker = settings.worker
    return TransportOptions(
        max_records=worker.max_batch_records,
        max_batch_bytes=worker.max_batch_bytes,
        max_in_flight=worker.max_in_flight,
        max_bytes_in_flight=worker.max_bytes_in_flight,
        drain_deadline=worker.drain_deadline,
        fetch_min_bytes=worker.fetch_min_bytes,
        fetch_max_wait_ms=worker.fetch_max_wait_ms,
        isolation_level=settings.kafka.isolation_level,
        client_rack=settings.kafka.client_rack,
        group_instance_id=settings.kafka.group_instance_id,
        commit_metadata={topic_name("state-writes", settings.topics.prefix): f"effects={EFFECTS_FORMAT}"},
        client_options=client_options(settings.kafka),
    )


def _wire(app: BatchApp, runtime: Runtime, services: Services) -> None:
    for topic, name in services.inputs.items():

        @app.agent(app.batch_topic(topic), name=name)
        async def hand_to_lanes(batches: AsyncIterable[RecordBatch]) -> None:
            async for batch in batches:
                runtime.submit(batch)

    @app.task  # type: ignore[untyped-decorator]
    async def look_after() -> None:
        await runtime.run()

    @app.on_before_shutdown.connect
    async def drain(*_: object, **__: object) -> None:
        runtime.drain()
        await asyncio.sleep(0)


def __getattr__(name: str) -> BatchApp:
    """Build ``app`` when Faust's command line asks for it, from ENGRAM_CONFIG and the environment."""
    if name == "app":
        application, _ = build_app(load_settings())
        globals()["app"] = application
        return application
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
