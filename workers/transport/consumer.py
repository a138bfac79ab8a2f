"""Faust's consumer, delivering batches and committing the finished prefix of each partition."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

from aiokafka.errors import ConsumerStoppedError, KafkaError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message
from faust.types.transports import TPorTopicSet
from mode import Service, ServiceT

from workers.metrics.labels import CommitOutcome
from workers.records import Partition
from workers.transport.assigned import AssignedPartitions
from workers.transport.batch import RecordBatch
from workers.transport.fetch import Chunk, FetchProblem, Limits, Trouble
from workers.transport.observer import TransportObserver
from workers.transport.offsets import PartitionTracker
from workers.transport.options import TransportOptions
from workers.transport.salvage import Unreadable
from workers.transport.schema import message_of
from workers.transport.status import PartitionStatus
from workers.transport.thread import BatchConsumerThread

log = logging.getLogger(__name__)

T = TypeVar("T")

POLL_SECONDS = 1.0
"""How long one drain waits for data."""

POSITION_TIMEOUT = 5.0
"""Seconds that looking up an offset may hold up the other partitions."""

END_OFFSETS_INTERVAL = 10.0
"""Seconds between looks at the ends of the logs, which fetches do not report for partitions that stand still."""

COMMIT_RETRY = 0.2
"""Seconds between attempts at the last commit of a drain."""


class BatchConsumer(driver.Consumer):
    """Delivers `RecordBatch` objects, bounds what is in flight, commits what is complete.

    Everything here runs on the main loop; only `BatchConsumerThread` runs in the consumer's thread.
    """

    _thread: BatchConsumerThread

    def __post_init__(self) -> None:
        super().__post_init__()
        self.options: TransportOptions = self.app.transport_options  # type: ignore[attr-defined]
        self.observer: TransportObserver = self.app.transport_observer  # type: ignore[attr-defined]
        self.abandoned_at_shutdown = 0
        self._partitions = AssignedPartitions(self.options, self.observer)
        self._assigned_at = 0.0
        self._retry_at: dict[Partition, float] = {}
        self._stop_drained = False
        self._epoch = 0
        self._turn = 0
        self._fetching = False
        self._room = asyncio.Event()
        self._finished = asyncio.Event()
        self._commit_lock = asyncio.Lock()

    def _new_consumer_thread(self) -> BatchConsumerThread:
        return BatchConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def _on_thread(self, coro: Coroutine[Any, Any, T]) -> T:
        try:
            future = asyncio.run_coroutine_threadsafe(coro, self._thread.thread_loop)
        except RuntimeError as exc:
            coro.close()
            raise ConsumerStoppedError from exc
        return await asyncio.wrap_future(future)

    # -- what the app may ask ------------------------------------------------------------------------------------

    @property
    def bytes_in_flight(self) -> int:
        """Bytes of all batches that are delivered and not complete."""
        return self._partitions.bytes_in_flight

    def status(self) -> list[PartitionStatus]:
        """Return the state of every assigned partition."""
        stable = self.options.isolation_level == "read_committed"
        partitions = sorted(Partition(*tp) for tp in self._active_partitions | self._paused_partitions)
        ends = {p: self._thread.last_seen_end(p, stable=stable) for p in partitions}
        return [self._partitions.status(p, seen_end=end, since=self._assigned_at) for p, end in ends.items()]

    def hold(self, partition: Partition, reason: str) -> None:
        """Fetch no more of ``partition``: its lane stands still on purpose, for ``reason`` (a short word, no data)."""
        self._partitions.held[partition] = reason

    def release(self, partition: Partition) -> None:
        """Take back `hold`; no effect when it is not held."""
        if self._partitions.release(partition, monotonic()):
            self._make_room()

    async def resume(self, partition: Partition, offset: int) -> None:
        """Read a halted partition on at ``offset``: the halted offset again, or a later one to skip records.

        Raises:
            ValueError: the partition is not halted here, or ``offset`` lies before the halted record.
            KafkaError: the partition has just left this worker.
        """
        halt, tracker = self._partitions.halted.get(partition), self._partitions.trackers.get(partition)
        name = f"{partition.topic}/{partition.number}"
        if halt is None or tracker is None:
            raise ValueError(f"{name} is not halted on this worker")
        if offset < halt.offset:
            raise ValueError(f"{name} is halted at {halt.offset}, cannot resume at {offset}")
        await self._on_thread(self._thread.seek_to(partition, offset))
        tracker.skip_to(offset, monotonic())
        self._partitions.halted.pop(partition, None)
        self._make_room()

    # -- reading -------------------------------------------------------------------------------------------------

    async def _drain_messages(self, fetcher: ServiceT) -> None:
        try:
            while not (self.should_stop or fetcher.should_stop):
                if self.flow_active:
                    await self._fetch_once()
                else:
                    await self._wait_for_flow()
        except (ConsumerStoppedError, asyncio.CancelledError):
            if not self.app.should_stop:
                raise

    async def _wait_for_flow(self) -> None:
        # A member that left the group because it did not poll joins again only once it polls.
        await self._on_thread(self._thread.poll())
        await self.wait_first(self.can_resume_flow.wait(), timeout=POLL_SECONDS)

    async def _fetch_once(self) -> None:
        room = self.options.max_bytes_in_flight - self.bytes_in_flight
        ready = self._ready() if room > 0 else []
        if not ready:
            await self._wait_for_room()
            return
        limits = Limits(self.options.max_records, self.options.max_batch_bytes, room)
        self._fetching = True
        try:
            drained = await self._on_thread(self._thread.drain(ready, POLL_SECONDS, limits))
        finally:
            self._fetching = False
        for partition, chunk in drained.chunks:
            await self._accept(partition, drained.generation, chunk)
        for partition, problem in drained.problems.items():
            if self._is_current(drained.generation):
                await self._handle_problem(partition, problem)
        await asyncio.sleep(0)

    def _ready(self) -> list[Partition]:
        now = monotonic()
        partitions = (Partition(*tp) for tp in self._active_partitions)
        ready = [p for p in partitions if self._partitions.has_room(p) and self._retry_at.get(p, now) <= now]
        self._turn += 1
        first = self._turn % len(ready) if ready else 0
        return ready[first:] + ready[:first]

    async def _wait_for_room(self) -> None:
        if all(self._partitions.is_stopped(Partition(*tp)) for tp in self._active_partitions):
            # Standing still on purpose must not cost the membership: the client counts polls.
            await self._on_thread(self._thread.poll())
        self._room.clear()
        await self.wait_first(self._room.wait(), self.suspend_flow.wait(), timeout=POLL_SECONDS)

    def _make_room(self) -> None:
        self._room.set()
        if self._fetching:
            self._thread.wake()

    def _is_current(self, generation: int) -> bool:
        return self.flow_active and generation == self.app.consumer_generation_id

    async def _accept(self, partition: Partition, generation: int, chunk: Chunk) -> None:
        if not self._is_current(generation):
            self.observer.on_stale(partition, len(chunk.records))
            return
        self._retry_at.pop(partition, None)
        now = monotonic()
        tracker = self._partitions.begin_at(partition, chunk.start, committed=None, now=now)
        if chunk.start != tracker.read_to:
            log.warning("%s/%d: fetch began at %d, expected %d", *partition, chunk.start, tracker.read_to)
            self.observer.on_gap(partition, tracker.read_to, chunk.start)
            await self._on_thread(self._thread.seek_to(partition, tracker.read_to))
            return
        if not chunk.records:
            tracker.skip_to(chunk.next, now)
            return
        for part in chunk.split(self.options.max_batch_bytes):
            await self._deliver(tracker, partition, generation, part)

    async def _deliver(self, tracker: PartitionTracker, partition: Partition, generation: int, chunk: Chunk) -> None:
        batch = RecordBatch(partition, generation, chunk.start, chunk.next, chunk.records, chunk.nbytes, self._complete)
        tracker.deliver(batch, monotonic())
        self.observer.on_fetched(partition, len(chunk.records), chunk.nbytes)
        await self.callback(message_of(batch))

    async def _handle_problem(self, partition: Partition, problem: FetchProblem) -> None:
        match problem.trouble:
            case Trouble.UNREADABLE if problem.unreadable is not None:
                self._halt(partition, problem.unreadable, problem.error)
            case Trouble.OUT_OF_RANGE | Trouble.NO_OFFSET:
                await self._reposition(partition, problem.offset)
            case _:
                self._try_later(partition, problem.error)

    def _try_later(self, partition: Partition, error: str) -> None:
        if partition not in self._retry_at:
            log.error("%s/%d cannot be fetched: %s. It is tried again every second.", *partition, error)
        self._retry_at[partition] = monotonic() + POLL_SECONDS

    def _halt(self, partition: Partition, unreadable: Unreadable, error: str) -> None:
        self._partitions.halted[partition] = unreadable
        where = (*partition, unreadable.offset, unreadable.cause, error, unreadable.skip_to)
        log.error("%s/%d halted: offset %d cannot be read (%s, %s); reading could go on at offset %d", *where)
        self.observer.on_halt(partition, unreadable.offset, unreadable.cause)

    async def _reposition(self, partition: Partition, lost_from: int | None) -> None:
        """Go on where the log still has records; the policy is ``consumer_auto_offset_reset``."""
        latest = self.app.conf.consumer_auto_offset_reset == "latest"
        epoch = self._epoch
        try:
            seek = self._on_thread(self._thread.seek_to_start([partition], latest=latest))
            offset = (await asyncio.wait_for(seek, POSITION_TIMEOUT))[partition]
        except (KafkaError, TimeoutError) as exc:
            self._try_later(partition, f"no position, {exc!r}")
            return
        if epoch != self._epoch:
            return
        self._partitions.move_to(partition, offset, monotonic())
        if lost_from is not None:
            log.error("%s/%d: offset %d is gone, reading on at %d", *partition, lost_from, offset)
            self.observer.on_offsets_lost(partition, lost_from, offset)

    # -- acknowledging -------------------------------------------------------------------------------------------

    def _complete(self, batch: RecordBatch) -> bool:
        if not self._partitions.complete(batch, monotonic()):
            return False
        self._finished.set()
        self._make_room()
        return True

    def ack(self, message: Message) -> bool:
        """Do nothing: agents acknowledge batches, not messages."""
        return True

    def on_buffer_full(self, tp: TP) -> None:
        """Do nothing: batches in flight are bounded before they are delivered."""

    def on_buffer_drop(self, tp: TP) -> None:
        """Do nothing: see `on_buffer_full`."""

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Do nothing: Faust's check mixes clocks and cannot fire; liveness reads `status`."""

    async def on_task_error(self, exc: BaseException) -> None:
        """Do nothing: an error of an agent is no reason to commit."""

    def close(self) -> None:
        """Do nothing: Faust calls this from the wrong loop, before the last commit."""

    # -- committing ----------------------------------------------------------------------------------------------

    async def commit(self, topics: TPorTopicSet | None = None, start_new_transaction: bool = True) -> bool:
        """Commit every watermark that has moved; return whether the broker confirmed it."""
        return await self.force_commit(topics, start_new_transaction)

    async def force_commit(self, topics: TPorTopicSet | None = None, start_new_transaction: bool = True) -> bool:
        """Commit every watermark that has moved. Concurrent calls wait for each other and never skip."""
        async with self._commit_lock:
            return await self._commit_watermarks() in (None, CommitOutcome.DONE)

    async def _commit_watermarks(self) -> CommitOutcome | None:
        offsets = self._partitions.to_commit()
        if not offsets:
            return None
        try:
            commit = self._on_thread(self._thread.commit_offsets(offsets))
            outcome = await asyncio.wait_for(commit, self.options.commit_timeout)
        except TimeoutError:
            log.warning("Commit got no answer within %s s; it will be tried again.", self.options.commit_timeout)
            outcome = CommitOutcome.FAILED
        except ConsumerStoppedError:
            # The client is gone, and with it the membership.
            outcome = CommitOutcome.REFUSED
        if outcome is CommitOutcome.DONE:
            self._partitions.committed(offsets)
        self.observer.on_commit(outcome, offsets)
        return outcome

    # -- rebalance and shutdown ----------------------------------------------------------------------------------

    async def wait_empty(self) -> None:
        """Drain: give up what nobody began, let the rest finish by the deadline, commit."""
        stopping = self.app.should_stop
        # Faust asks twice at shutdown.
        again = stopping and self._stop_drained and not self._partitions.running and not self._partitions.to_commit()
        if self._partitions.trackers and not again:
            await self._drain(stopping=stopping)

    async def _drain(self, *, stopping: bool) -> None:
        began = monotonic()
        deadline = began + self.options.drain_deadline
        if stopping:
            self._stop_drained = True
            deadline = self.app.stop_deadline()  # type: ignore[attr-defined]
        self._partitions.abandon_queued()
        while self._partitions.running and (left := deadline - monotonic()) > 0:
            self._finished.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._finished.wait(), left)
        left_behind = self._partitions.running
        if left_behind:
            log.warning("Drain deadline passed: %d started batches will be replayed.", left_behind)
        await self._commit_until(deadline)
        if stopping:
            self.abandoned_at_shutdown = left_behind + len(self._partitions.to_commit())
        self.observer.on_drained(monotonic() - began, left_behind)

    async def _commit_until(self, deadline: float) -> None:
        while True:
            async with self._commit_lock:
                outcome = await self._commit_watermarks()
            if outcome is not CommitOutcome.FAILED or monotonic() > deadline:
                return
            await asyncio.sleep(COMMIT_RETRY)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish and commit what was begun, then forget the partitions, then tell Faust."""
        try:
            self.stop_flow()
            self.app.flow_control.suspend()
            self.app.flow_control.clear()
            await self.wait_empty()
            self._epoch += 1
            partitions = {Partition(*tp) for tp in revoked}
            for partition in partitions:
                self._partitions.forget(partition)
            if partitions:
                self.observer.on_revoked(partitions)
        except Exception as exc:
            # The client swallows what its listeners raise: without this the worker would go on half revoked.
            await self.crash(exc)
            raise
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Tell the observer before anything is fetched, then let Faust set up its streams."""
        self._assigned_at = monotonic()
        self.observer.on_assigned({Partition(*tp) for tp in assigned})
        await super().on_partitions_assigned(assigned, generation_id)

    async def perform_seek(self) -> None:
        """Seek to the committed offsets, and to the start where there are none, in two requests."""
        epoch = self._epoch
        partitions = {Partition(*tp) for tp in self.assignment()}
        latest = self.app.conf.consumer_auto_offset_reset == "latest"
        try:
            committed = await self._on_thread(self._thread.seek_to_commits(partitions))
            missing = partitions - committed.keys()
            fresh = await self._on_thread(self._thread.seek_to_start(missing, latest=latest))
        except (KafkaError, ConsumerStoppedError) as exc:
            log.warning("Positions are not known yet, the first fetches will ask again: %r", exc)
            return
        if epoch != self._epoch:
            return
        now = monotonic()
        for partition, offset in (committed | fresh).items():
            self._partitions.begin_at(partition, offset, committed=committed.get(partition), now=now)

    @Service.task
    async def _watch_ends(self) -> None:
        async for _ in self.itertimer(END_OFFSETS_INTERVAL, name="end offsets"):
            if self._partitions.trackers and self.flow_active:
                await self._refresh_ends()

    async def _refresh_ends(self) -> None:
        epoch = self._epoch
        try:
            ask = self._on_thread(self._thread.fetch_end_offsets(list(self._partitions.trackers)))
            ends = await asyncio.wait_for(ask, POSITION_TIMEOUT)
        except (KafkaError, ConsumerStoppedError, TimeoutError) as exc:
            log.info("Ends of the logs are not known at the moment: %r", exc)
            # Brokers that do not answer are no fault of this worker: nothing can be read from them either.
            self._partitions.excuse_idle(monotonic())
            return
        if epoch == self._epoch:
            self._partitions.note_ends(ends, monotonic())
