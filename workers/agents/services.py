"""What the lanes of one worker share: schemas, policy, producer, and the state of producing paths."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from aiokafka.errors import KafkaError

from workers.agents.accounts import Accounts
from workers.agents.path_table import PathTable
from workers.agents.pipeline import Columns, Opened, Pipeline
from workers.config import SerdeSettings, Settings
from workers.errors import ConfigurationError, UnreachableError
from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter
from workers.metrics.labels import SchemaState, WaiverState
from workers.outputs.dlq import LetterWriter
from workers.outputs.publisher import Publisher
from workers.policy_file import PolicyFile
from workers.processing.conversations import incomplete_ratios
from workers.processing.duplicates import DuplicateWindow
from workers.processing.erasure import KnownTurns
from workers.processing.path_watch import PathTopics, PathWatch
from workers.processing.paths import Kind
from workers.processing.state_writes import StateWriteJudge
from workers.processing.turn_state import TurnOutputs, TurnState
from workers.processing.turns import TurnJudge
from workers.records import Partition
from workers.serde.encoder import Encoder
from workers.serde.records import RecordDecoder
from workers.serde.registry import SchemaRegistry, output_id
from workers.serde.resolver import CachingResolver
from workers.serde.schemas import load
from workers.topic_catalogue import find_topic, topic_name
from workers.transport.app import BatchApp
from workers.transport.connection import client_options
from workers.transport.metadata import partitions_of

INPUTS: Final = ("turns", "state-writes")


class _Prepared(NamedTuple):
    """What is known once topics and schema ids are."""

    verdicts: TurnOutputs
    paths: PathTopics
    columns: Callable[[TurnState], Columns] | None


ColumnsOpener = Callable[[int], Callable[[TurnState], Columns]]
"""From the schema id of verdicts to what opens the column path of a partition."""


class Services:
    """The parts behind the lanes. Usable after `prepare`; lanes that open earlier wait for it."""

    def __init__(
        self,
        settings: Settings,
        app: BatchApp,
        registry: SchemaRegistry,
        policy: PolicyFile,
        exporter: Exporter,
        accounts: Accounts,
    ) -> None:
        self._settings = settings
        self._app = app
        self._registry = registry
        self._policy = policy
        self._exporter = exporter
        self._accounts = accounts
        self._shown_policy: str | None = None
        self._shown_services: set[str] = set()
        self._worker = f"{socket.gethostname()}:{settings.kafka.group_instance_id or settings.kafka.group_id}"
        self._turn_states: dict[Partition, TurnState] = {}
        self._columns = _column_path(settings.serde, policy)
        self._prepared_here: asyncio.Future[_Prepared] | None = None
        self.publisher = Publisher(lambda: app.batch_producer, exporter)
        self._resolvers = {
            name: CachingResolver(registry, name, settings.serde.limits_of(name))
            for name in (*INPUTS, "producer-paths")
        }
        self._decoders = {
            name: RecordDecoder(resolver, settings.serde.limits_of(name)) for name, resolver in self._resolvers.items()
        }
        self.paths = PathTable(
            self.topic("producer-paths"), lambda: client_options(settings.kafka), self._decoders["producer-paths"]
        )

    @property
    def _prepared(self) -> asyncio.Future[_Prepared]:
        if self._prepared_here is None:
            self._prepared_here = asyncio.get_running_loop().create_future()
        return self._prepared_here

    def topic(self, name: str) -> str:
        """Return the cluster's name of the catalogue's topic ``name``."""
        return topic_name(name, self._settings.topics.prefix)

    @property
    def inputs(self) -> dict[str, str]:
        """The catalogue's name of each input topic, by its name on the cluster."""
        return {self.topic(name): name for name in INPUTS}

    async def prepare(self) -> None:
        """Look up schema ids and partition counts, and begin to follow the path inventory.

        Raises:
            UnreachableError: Kafka or the registry does not answer, or a topic is not there yet; try again.
            ConfigurationError: topics do not fit together, or an output schema is not registered.
        """
        try:
            await self._prepare()
        except KafkaError as error:
            raise UnreachableError(f"Kafka does not answer: {type(error).__name__}") from error

    async def _prepare(self) -> None:
        counts = {name: await self._partition_count(name) for name in (*INPUTS, "fidelity")}
        if len(set(counts.values())) != 1:
            found = ", ".join(f"{self.topic(name)} has {count}" for name, count in counts.items())
            raise ConfigurationError(
                f"topics must have equally many partitions, so that one worker owns equal numbers: {found}. "
                "See `engram-stream topics plan`."
            )
        encoders = {name: await self._encoder(name) for name in ("fidelity", "alerts", "producer-paths")}
        if self._settings.serde.bare_avro:
            for name in INPUTS:
                self._decoders[name].bare_schema = await output_id(self._registry, name)
        await self.paths.start()
        self._prepared.set_result(
            _Prepared(
                TurnOutputs(self.topic("fidelity"), counts["fidelity"], encoders["fidelity"].encode),
                PathTopics(
                    self.topic("alerts"),
                    self.topic("producer-paths"),
                    encoders["alerts"].encode,
                    encoders["producer-paths"].encode,
                ),
                self._columns(encoders["fidelity"].schema_id) if self._columns is not None else None,
            )
        )

    @property
    def registry_name(self) -> str:
        """Where schemas are looked up, for the readiness report."""
        return "shipped schemas" if self._registry.fixed else "schema registry"

    def take_in_policy(self) -> None:
        """Apply an edit of the policy file, if there is one; a broken one is refused, and the policy stays."""
        reload = self._policy.poll()
        if reload is not None:
            self._exporter.inc(m.POLICY_RELOADS, reload)
            self.show_policy()

    def show_policy(self) -> None:
        """Export which policy is in force, and its waivers."""
        policy = self._policy.current()
        if self._shown_policy is not None and self._shown_policy != policy.version:
            self._exporter.remove(m.POLICY_INFO, self._shown_policy)
        self._shown_policy = policy.version
        self._exporter.set(m.POLICY_INFO, 1, policy.version)
        now = int(time.time() * 1000)
        self._exporter.set(m.WAIVERS, len(policy.waiver_book.active(now)), WaiverState.ACTIVE)
        self._exporter.set(m.WAIVERS, len(policy.waiver_book.expired(now)), WaiverState.EXPIRED)

    def forget(self, partition: Partition) -> None:
        """Drop what is shown of a partition that has left."""
        self._turn_states.pop(partition, None)

    def show_conversations(self) -> None:
        """Export the share of today's conversations that had an incomplete turn."""
        ratios = incomplete_ratios(state.conversations for state in self._turn_states.values())
        for service in self._shown_services - ratios.keys():
            self._exporter.remove(m.INCOMPLETE_CONVERSATIONS, service)
        for service, ratio in ratios.items():
            self._exporter.set(m.INCOMPLETE_CONVERSATIONS, ratio, service)
        self._shown_services = set(ratios)

    def schemas_held(self) -> dict[SchemaState, int]:
        """Return how many schema ids are held, by what they led to."""
        resolvers = self._resolvers.values()
        return {
            SchemaState.ADMITTED: sum(resolver.admitted for resolver in resolvers),
            SchemaState.REJECTED: sum(resolver.refused for resolver in resolvers),
            SchemaState.UNKNOWN: sum(resolver.unknown for resolver in resolvers),
        }

    async def close(self) -> None:
        """Release connections."""
        await self.paths.stop()
        await self._registry.close()

    def pipeline(self, partition: Partition) -> Pipeline:
        """Return the pipeline of an assigned partition of one of the inputs."""
        name = self.inputs[partition.topic]
        openers = {"turns": self._open_turns, "state-writes": self._open_state_writes}
        letters_topic = find_topic(f"{name}-dlq")

        def letters() -> LetterWriter:
            policy = self._policy.current()
            return LetterWriter(
                self.topic(letters_topic.name), letters_topic.max_message_bytes, self._worker, policy.version
            )

        return Pipeline(partition, self._decoders[name], openers[name], letters, self.take_in_policy, self._accounts)

    async def _open_turns(self, partition: Partition) -> Opened:
        ready = await asyncio.shield(self._prepared)
        state = TurnState(
            partition,
            ready.verdicts,
            await self._watch(partition, "turns", ready.paths),
            DuplicateWindow(self._settings.worker.duplicate_window),
            KnownTurns(),
        )
        self._turn_states[partition] = state
        columns = None if ready.columns is None else ready.columns(state)
        return Opened(TurnJudge(state, self._policy.current), columns)

    async def _open_state_writes(self, partition: Partition) -> Opened:
        ready = await asyncio.shield(self._prepared)
        return Opened(StateWriteJudge(partition, await self._watch(partition, "state_writes", ready.paths)))

    async def _watch(self, partition: Partition, kind: Kind, topics: PathTopics) -> PathWatch:
        inventory = await self.paths.open(partition, kind)
        return PathWatch(partition, topics, inventory, self.paths.is_known, lambda: self._policy.current().version)

    async def _partition_count(self, name: str) -> int:
        return len(await partitions_of(self.topic(name), client_options(self._settings.kafka)))

    async def _encoder(self, name: str) -> Encoder:
        return Encoder(load(name), await output_id(self._registry, name))


def _column_path(serde: SerdeSettings, policy: PolicyFile) -> ColumnsOpener | None:
    """Load the column path, which takes a while: before anything is fetched. None where turns are judged one by one.

    Raises:
        ConfigurationError: columns are asked for, and their packages are not installed.
    """
    if serde.decoder == "reference":
        return None
    try:
        from workers.agents.columns import open_columns
    except ImportError as error:
        if serde.decoder == "columns":
            raise ConfigurationError(
                f"serde.decoder is columns, and {error.name} is not installed; install engram-stream[columns]"
            ) from None
        return None
    return lambda schema_id: open_columns(serde.limits_of("turns"), policy.current, schema_id)
