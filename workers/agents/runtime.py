"""A worker's life between Faust, the transport and the lanes."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from workers import __version__
from workers.agents.accounts import Accounts
from workers.agents.gauges import Gauges
from workers.agents.lane import Lane
from workers.agents.services import Services
from workers.config import Settings
from workers.errors import ConfigurationError, UnreachableError
from workers.health import Check, HealthServer, HealthState, Report
from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter
from workers.metrics.labels import CommitOutcome, HaltReason, Pipeline
from workers.processing.fidelity.catalogue import RULES_EDITION
from workers.records import Partition
from workers.transport.app import BatchApp
from workers.transport.batch import RecordBatch
from workers.transport.observer import HaltCause, SilentObserver

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 2.0


class Runtime(SilentObserver):
    """Holds the lanes of the assigned partitions; all of it runs on the main loop."""

    def __init__(
        self, settings: Settings, app: BatchApp, services: Services, accounts: Accounts, exporter: Exporter
    ) -> None:
        self.fatal: ConfigurationError | None = None
        self._settings = settings
        self._app = app
        self._services = services
        self._accounts = accounts
        self._exporter = exporter
        self._in_service = True
        self._was_ready = False
        self._gauges = Gauges(exporter)
        self._health = HealthState()
        self._server: HealthServer | None = None
        self._assigned: set[Partition] = set()
        self._lanes: dict[Partition, Lane] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def serve(self) -> None:
        """Answer probes and scrapes from now on.

        Raises:
            ConfigurationError: the address cannot be listened on.
        """
        metrics = self._settings.metrics
        self._server = HealthServer(
            self._exporter.registry, self._health, metrics.host, metrics.port, on_stuck=_exit_at_once
        )
        self._server.start()
        self._exporter.set(m.BUILD_INFO, 1, __version__, RULES_EDITION)
        for topic in self._services.inputs:
            self._accounts.expect(topic)
        log.info("probes and metrics on http://%s:%d", metrics.host, self._server.port)

    async def run(self) -> None:
        """Prepare the services, then keep gauges and health up to date until the app stops."""
        preparing = asyncio.create_task(self._prepare(), name="prepare services")
        try:
            while not self._app.should_stop:
                self._tick()
                await asyncio.sleep(TICK_SECONDS)
        finally:
            preparing.cancel()

    def drain(self) -> None:
        """Report that the worker is about to stop, and no longer ready."""
        if self._in_service:
            log.info("stopping: what has begun is finished and committed, nothing new is begun")
        self._in_service = False
        self._health.set(Check.NOT_DRAINING, False, "the worker is stopping")
        self._exporter.set(m.UP_STAGE, 0, Pipeline.TURNS)

    async def close(self) -> None:
        """Stop the lanes and release connections, after the last commit."""
        for lane in self._lanes.values():
            await lane.stop()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        await self._services.close()
        if self._server is not None:
            self._server.stop()

    def submit(self, batch: RecordBatch) -> None:
        """Hand ``batch`` to its lane; where the partition has left meanwhile, its next owner reads it again."""
        lane = self._lanes.get(batch.partition)
        if lane is not None:
            lane.submit(batch)

    async def _prepare(self) -> None:
        while True:
            try:
                await self._services.prepare()
            except UnreachableError as error:
                log.warning("not ready: %s", error)
                self._health.set(Check.PRODUCER, False, str(error))
                await asyncio.sleep(RETRY_SECONDS)
            except ConfigurationError as error:
                self.fatal = error
                log.critical("the worker stops: %s", error)
                os.kill(os.getpid(), 15)
                return
            else:
                self._health.set(Check.PRODUCER, True, "connected")
                self._health.set(Check.REGISTRY, True, self._services.registry_name)
                _spare_the_collector()
                return

    def _tick(self) -> None:
        statuses = self._app.batches.status()
        self._health.tick(statuses)
        oldest = {
            partition: append
            for partition, lane in self._lanes.items()
            if (append := lane.oldest_append_ms) is not None
        }
        self._gauges.update(statuses, oldest, time.time())
        waiting = self._assigned - self._accounts.restored_partitions
        self._health.set(Check.STATE, not waiting, f"{len(waiting)} partitions wait for their state")
        self._tell_readiness()
        for state, count in self._services.schemas_held().items():
            self._exporter.set(m.SCHEMA_IDS, count, state)
        self._exporter.set(m.UP_STAGE, float(self._in_service and bool(self._assigned) and not waiting), Pipeline.TURNS)
        self._services.show_policy()
        self._services.show_conversations()

    def _tell_readiness(self) -> None:
        """Log once whenever the worker becomes ready, or is no longer: what an operator looks for first."""
        report = self._health.readiness()
        if report.ok == self._was_ready or not self._in_service:
            return
        self._was_ready = report.ok
        if report.ok:
            log.info("ready: %d partitions", len(self._assigned))
        else:
            missing = "; ".join(f"{name}: {check.detail}" for name, check in report.checks.items() if not check.ok)
            log.warning("no longer ready: %s", missing)

    # -- lanes: hold and release -----------------------------------------------------------------------------------

    def hold(self, partition: Partition, reason: HaltReason) -> None:
        """Tell the transport that ``partition`` waits on purpose."""
        self._app.batches.hold(partition, reason)

    def release(self, partition: Partition) -> None:
        """Tell the transport that ``partition`` goes on."""
        self._app.batches.release(partition)

    # -- transport: what happens to partitions ---------------------------------------------------------------------

    def on_assigned(self, partitions: AbstractSet[Partition]) -> None:
        """Open a lane for every new partition: it restores the partition's state at once."""
        self._exporter.inc(m.REBALANCES)
        self._assigned = set(partitions) | set(self._lanes)
        self._health.set(Check.ASSIGNMENT, True, f"{len(self._assigned)} partitions")
        for partition in partitions:
            if partition not in self._lanes:
                self._lanes[partition] = Lane(
                    partition, self._services.pipeline(partition), self._services.publisher, self
                )

    def on_revoked(self, partitions: AbstractSet[Partition]) -> None:
        """Close the lanes of partitions that have left, with their state."""
        for partition in partitions:
            self._assigned.discard(partition)
            self._services.forget(partition)
            self._accounts.restored_partitions.discard(partition)
            lane = self._lanes.pop(partition, None)
            if lane is not None:
                task = asyncio.create_task(lane.stop())
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)

    def on_commit(self, outcome: CommitOutcome, offsets: Mapping[Partition, int]) -> None:
        """Count a commit."""
        self._exporter.inc(m.COMMITS, outcome)

    def on_halt(self, partition: Partition, offset: int, cause: HaltCause) -> None:
        """Show the halt at once; the transport has logged it."""
        labels = (partition.topic, str(partition.number), HaltReason.UNREADABLE)
        self._exporter.set(m.PARTITION_HALTED, 1, *labels)

    def on_offsets_lost(self, partition: Partition, first: int, next_offset: int) -> None:
        """Count the offsets that were deleted before they were read."""
        self._exporter.inc(m.OFFSETS_LOST, partition.topic, n=max(1, next_offset - first))

    def on_gap(self, partition: Partition, expected: int, got: int) -> None:
        """Count a fetch that was discarded."""
        self._exporter.inc(m.TRANSPORT_GAPS, partition.topic)

    def on_abandoned(self, partition: Partition, n_records: int) -> None:
        """Count records that were given up: they are received again."""
        self._exporter.inc(m.RECORDS_ABANDONED, partition.topic, n=n_records)

    def on_drained(self, seconds: float, abandoned_batches: int) -> None:
        """Note how long a drain took."""
        self._exporter.observe(m.DRAIN_SECONDS, seconds)


def _spare_the_collector() -> None:
    """Leave what was loaded at start out of garbage collection, and collect less often.

    Records make many objects and hardly any cycle; by default every few hundred of them the collector would walk them
    all. Measured: docs/performance.md.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _exit_at_once(code: int, liveness: Report) -> None:
    """End a process whose main loop or partitions stand still: the group gives its partitions to others."""
    failed = "; ".join(f"{name}: {check.detail}" for name, check in liveness.checks.items() if not check.ok)
    log.critical("the worker is stuck and exits with %d: %s", code, failed)
    logging.shutdown()
    os._exit(code)
