"""The consumer's own thread: fetching, committing and positions, next to the heartbeats that aiokafka runs there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, ConsumerStoppedError, IllegalStateError, KafkaError, for_code
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.structs import OffsetAndMetadata
from faust.exceptions import ConsumerNotStarted, ImproperlyConfigured
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Transport, server_list

from workers.metrics.labels import CommitOutcome
from workers.records import Partition
from workers.transport.fetch import Chunk, ChunkReader, FetchProblem, Limits, Trouble, record_size
from workers.transport.salvage import salvage

if TYPE_CHECKING:
    from workers.transport.options import TransportOptions

log = logging.getLogger(__name__)

SALVAGE_SECONDS = 5.0
"""How long the second look at an unreadable record may hold up the other partitions."""


@dataclass(slots=True)
class Drained:
    """What one drain brought, and the group's generation at that moment."""

    generation: int
    chunks: list[tuple[Partition, Chunk]] = field(default_factory=list)
    problems: dict[Partition, FetchProblem] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.chunks or self.problems)


class BatchConsumerThread(AIOKafkaConsumerThread):
    """Faust's consumer thread, reading chunks instead of records.

    Coroutines here run in the thread's loop: call them with ``run_coroutine_threadsafe``.
    """

    _reader: ChunkReader | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._wake = asyncio.Event()

    def _create_worker_consumer(self, transport: Transport) -> AIOKafkaConsumer:
        conf = self.app.conf
        options: TransportOptions = self.app.transport_options  # type: ignore[attr-defined]
        if conf.broker_session_timeout > conf.broker_request_timeout:
            raise ImproperlyConfigured(
                f"session timeout {conf.broker_session_timeout} s exceeds the request timeout "
                f"{conf.broker_request_timeout} s: lower the first"
            )
        settings: dict[str, Any] = {
            "client_id": conf.broker_client_id,
            "group_id": conf.id,
            "group_instance_id": options.group_instance_id,
            "bootstrap_servers": server_list(transport.url, transport.default_port),
            # Co-partitioned topics stay together: the same numbers of every topic go to the same member.
            "partition_assignment_strategy": [RangePartitionAssignor],
            "enable_auto_commit": False,
            # Lost offsets come back as an error, so that they are counted before reading goes on elsewhere.
            "auto_offset_reset": "none",
            "max_poll_interval_ms": _ms(conf.broker_max_poll_interval),
            "max_partition_fetch_bytes": conf.consumer_max_fetch_size,
            "fetch_max_bytes": options.fetch_max_bytes,
            "fetch_min_bytes": options.fetch_min_bytes,
            "fetch_max_wait_ms": options.fetch_max_wait_ms,
            "isolation_level": options.isolation_level,
            "client_rack": options.client_rack,
            "request_timeout_ms": _ms(conf.broker_request_timeout),
            "session_timeout_ms": _ms(conf.broker_session_timeout),
            "rebalance_timeout_ms": _ms(conf.broker_rebalance_timeout),
            "heartbeat_interval_ms": _ms(conf.broker_heartbeat_interval),
            "metadata_max_age_ms": conf.consumer_metadata_max_age_ms,
            "connections_max_idle_ms": conf.consumer_connections_max_idle_ms,
            "check_crcs": conf.broker_check_crcs,
        }
        return AIOKafkaConsumer(**(settings | dict(options.client_options)))

    async def on_thread_stop(self) -> None:
        """Leave the group and close the client, within what is left of the shutdown."""
        consumer, self._consumer = self._consumer, None
        await super().on_thread_stop()
        if consumer is None:
            return
        self._consumer = consumer
        try:
            await asyncio.wait_for(consumer.stop(), self.app.seconds_to_stop())  # type: ignore[attr-defined]
        except TimeoutError:
            # A join of the group may be waiting for other members; the broker drops this one by its session timeout.
            log.warning("Consumer did not stop in time; closing its connections.")
            await consumer._client.close()

    # -- reading -------------------------------------------------------------------------------------------------

    async def drain(self, ready: Sequence[Partition], seconds: float, limits: Limits) -> Drained:
        """Return what is fetched for ``ready``, in that order; wait up to ``seconds`` if there is nothing.

        Raises:
            ConsumerStoppedError: the client is closed.
            KafkaError: the group cannot be coordinated any more (authorization, fencing); not retriable.
        """
        consumer = self._ensure_consumer()
        fetcher = consumer._fetcher
        if consumer._closed or fetcher._closed:
            raise ConsumerStoppedError
        # Errors of the coordination wait here for somebody to take them; until then the member does nothing.
        consumer._coordinator.check_errors()
        subscriptions = fetcher._subscriptions
        subscriptions._fetch_count += 1
        try:
            drained = self._drain_now(consumer, ready, limits)
            if not drained:
                await self._wait_for_data(fetcher, seconds)
                drained = self._drain_now(consumer, ready, limits)
            for partition, problem in list(drained.problems.items()):
                if problem.trouble is Trouble.UNREADABLE and problem.unreadable is None:
                    await self._read_around(consumer, drained, partition, problem)
            return drained
        finally:
            subscriptions._fetch_count -= 1
            await self.poll()

    async def poll(self) -> None:
        """Tell the client that this worker polls, though it wants no record at the moment."""
        subscriptions = self._ensure_consumer()._fetcher._subscriptions
        if subscriptions._fetch_count == 0:
            subscriptions._last_fetch_ended = monotonic()

    def wake(self) -> None:
        """Let a waiting `drain` return, from any thread: a partition has room again."""
        self.thread_loop.call_soon_threadsafe(self._wake.set)

    async def _wait_for_data(self, fetcher: Fetcher, seconds: float) -> None:
        waiter = fetcher._create_fetch_waiter()
        woken = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((waiter, woken), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if waiter.done():
                waiter.result()
        finally:
            waiter.cancel()
            woken.cancel()
            self._wake.clear()

    def _drain_now(self, consumer: AIOKafkaConsumer, ready: Sequence[Partition], limits: Limits) -> Drained:
        fetcher = consumer._fetcher
        drained = Drained(consumer._coordinator.generation)
        subscriptions = fetcher._subscriptions
        if not self.consumer.flow_active or subscriptions.reassignment_in_progress:
            return drained
        assignment = subscriptions.subscription.assignment
        if assignment is None or not assignment.active:
            return drained
        if self._reader is None:
            self._reader = ChunkReader(fetcher)
        taken = 0
        for partition in ready:
            if taken >= limits.budget:
                break
            tp = TopicPartition(*partition)
            if tp not in assignment.tps:
                continue
            chunk, problem = self._reader.read(tp, assignment.state_value(tp), limits)
            if chunk is not None:
                drained.chunks.append((partition, chunk))
                taken += chunk.nbytes
            if problem is not None:
                drained.problems[partition] = problem
        return drained

    async def _read_around(
        self, consumer: AIOKafkaConsumer, drained: Drained, partition: Partition, problem: FetchProblem
    ) -> None:
        """Find out which record cannot be read, and read those before it; without an answer it is tried again."""
        del drained.problems[partition]
        tp, position = TopicPartition(*partition), problem.offset
        if position is None:
            return
        try:
            data = await asyncio.wait_for(self._fetch_raw(consumer, tp, position), SALVAGE_SECONDS)
            salvaged = salvage(tp, data, position)
            consumer.seek(tp, salvaged.next)
        except (KafkaError, LookupError, TimeoutError) as exc:
            drained.problems[partition] = FetchProblem(Trouble.REFUSED, position, f"no second look, {exc!r}")
            return
        if salvaged.next > position:
            nbytes = sum(record_size(record) for record in salvaged.records)
            drained.chunks.append((partition, Chunk(position, salvaged.next, salvaged.records, nbytes)))
        if salvaged.unreadable is not None:
            offset = salvaged.unreadable.offset
            drained.problems[partition] = replace(problem, offset=offset, unreadable=salvaged.unreadable)

    async def _fetch_raw(self, consumer: AIOKafkaConsumer, tp: TopicPartition, offset: int) -> bytes:
        fetcher = consumer._fetcher
        leader = fetcher._client.cluster.leader_for_partition(tp)
        request = FetchRequest(
            fetcher._fetch_max_wait_ms,
            1,
            fetcher._fetch_max_bytes,
            fetcher._isolation_level,
            [(tp.topic, [(tp.partition, offset, fetcher._max_partition_fetch_bytes)])],
        )
        response = await fetcher._client.send(leader, request)
        ((_, ((_, error_code, *parts),)),) = response.topics
        if error_code:
            raise for_code(error_code)
        return bytes(parts[-1] or b"")

    # -- positions -----------------------------------------------------------------------------------------------

    async def seek_to(self, partition: Partition, offset: int) -> None:
        """Read on at ``offset``.

        Raises:
            IllegalStateError: the partition is not assigned.
        """
        self._ensure_consumer().seek(TopicPartition(*partition), offset)

    async def seek_to_start(self, partitions: Iterable[Partition], *, latest: bool = False) -> dict[Partition, int]:
        """Read on at the first offset that exists, or at the end; return those offsets.

        Raises:
            KafkaError: no answer, or a partition is not assigned.
        """
        consumer = self._ensure_consumer()
        tps = [TopicPartition(*partition) for partition in partitions]
        if not tps:
            return {}
        offsets = await (consumer.end_offsets(tps) if latest else consumer.beginning_offsets(tps))
        for tp, offset in offsets.items():
            consumer.seek(tp, offset)
        return {Partition(*tp): offset for tp, offset in offsets.items()}

    async def seek_to_commits(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Read on at the committed offsets; return them. Partitions without a commit are left out.

        Raises:
            KafkaError: no answer, or a partition is not assigned.
        """
        consumer = self._ensure_consumer()
        tps = [TopicPartition(*partition) for partition in partitions]
        committed = await consumer._coordinator.fetch_committed_offsets(tps)
        for tp, entry in committed.items():
            consumer.seek(tp, entry.offset)
        return {Partition(*tp): entry.offset for tp, entry in committed.items()}

    async def fetch_end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Ask the brokers for the ends of the logs; last stable offsets under ``read_committed``.

        Raises:
            KafkaError: no answer.
        """
        tps = [TopicPartition(*partition) for partition in partitions]
        offsets = await self._ensure_consumer().end_offsets(tps)
        return {Partition(*tp): offset for tp, offset in offsets.items()}

    def last_seen_end(self, partition: Partition, *, stable: bool) -> int | None:
        """Return the end that the last fetch of the partition reported, None before the first."""
        if self._consumer is None or self._consumer._fetcher is None:
            return None
        subscription = self._consumer._fetcher._subscriptions.subscription
        assignment = None if subscription is None else subscription.assignment
        state = None if assignment is None else assignment.state_value(TopicPartition(*partition))
        if state is None:
            return None
        end: int | None = state.lso if stable else state.highwater
        return None if end is None or end < 0 else end

    # -- committing ----------------------------------------------------------------------------------------------

    async def commit_offsets(self, offsets: Mapping[Partition, int]) -> CommitOutcome:
        """Commit; never raise. aiokafka retries without limit, so the caller sets one."""
        try:
            consumer = self._ensure_consumer()
            metadata = self.app.transport_options.commit_metadata  # type: ignore[attr-defined]
            await consumer.commit(
                {
                    TopicPartition(*partition): OffsetAndMetadata(offset, metadata.get(partition.topic, ""))
                    for partition, offset in offsets.items()
                }
            )
        except (CommitFailedError, IllegalStateError) as exc:
            log.warning("Commit refused, the next owner replays: %s", type(exc).__name__)
            return CommitOutcome.REFUSED
        except (KafkaError, ConsumerNotStarted) as exc:
            log.warning("Commit failed, it will be tried again: %s", exc)
            return CommitOutcome.FAILED
        return CommitOutcome.DONE


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
