"""A local cluster of one or three nodes."""

from __future__ import annotations

import base64
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from workers.testing.local_kafka.access import AccessControl, make_certificate
from workers.testing.local_kafka.broker import Broker, Installation, KafkaStartError, PortTakenError
from workers.testing.local_kafka.jars import kafka_jars, say_on_stderr
from workers.testing.local_kafka.java import find_java
from workers.testing.local_kafka.ports import free_ports
from workers.testing.local_kafka.properties import ADMIN, HOST, WORKER, NodePorts, server_properties

_START_TIMEOUT_S: Final = 120.0
_ATTEMPTS: Final = 5


class LocalKafka:
    """Apache Kafka on this machine, on random ports of 127.0.0.1, its data in a temporary folder.

    Use it as a context manager. It dies with the process that started it, however that ends.

    Args:
        brokers: 1, or 3 with every internal topic replicated.
        authorizer: turn on access control and add a second listener, SASL_SSL with SCRAM-SHA-512: see ``users``,
            ``secured_bootstrap_servers``, ``certificate`` and ``access``. The plain listener stays open to everything.
        say: gets a line of progress where something takes long.
    """

    def __init__(
        self, brokers: Literal[1, 3] = 1, *, authorizer: bool = False, say: Callable[[str], None] = say_on_stderr
    ) -> None:
        self.users: dict[str, str] = {ADMIN: secrets.token_hex(8), WORKER: secrets.token_hex(8)} if authorizer else {}
        """Passwords by user: ``admin`` may do everything, ``worker`` reads and writes what ``access`` leaves to it."""
        self._count = brokers
        self._say = say
        self._ports: tuple[NodePorts, ...] = ()
        self._brokers: list[Broker] = []
        self._folder: Path | None = None
        self._certificate: Path | None = None
        self._keystore: Path | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every broker's plain listener, separated by commas."""
        return ",".join(f"{HOST}:{ports.plain}" for ports in self._ports)

    @property
    def secured_bootstrap_servers(self) -> str:
        """``host:port`` of every broker's SASL listener; empty without ``authorizer``."""
        return ",".join(f"{HOST}:{ports.secured}" for ports in self._ports if ports.secured is not None)

    @property
    def certificate(self) -> Path:
        """PEM of the authority that clients of the secured listener have to trust.

        Raises:
            RuntimeError: the cluster has no authorizer, or is not started.
        """
        if self._certificate is None:
            raise RuntimeError("this local Kafka has no secured listener: start it with authorizer=True")
        return self._certificate

    @property
    def access(self) -> AccessControl:
        """Denies and allows writes."""
        return AccessControl(self.bootstrap_servers)

    @property
    def folder(self) -> Path:
        """The temporary folder with data and logs.

        Raises:
            RuntimeError: the cluster is not started.
        """
        if self._folder is None:
            raise RuntimeError("the local Kafka is not started: use it as a context manager")
        return self._folder

    def start(self) -> Self:
        """Start all brokers and wait until each answers and knows all the others.

        Raises:
            ConfigurationError: no Java, or no Maven to fetch Kafka with.
            UnreachableError: Maven could not fetch Kafka.
            KafkaStartError: Kafka did not come up.
        """
        installation = Installation(find_java(), kafka_jars(self._say))
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start(installation)
            except PortTakenError:
                self.stop()
                if attempt == _ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                break
        return self

    def stop(self) -> None:
        """End every broker and remove the data. May be called again."""
        # The data goes with them: an orderly shutdown of three nodes would wait for a quorum that is leaving as well.
        for broker in self._brokers:
            broker.kill()
        self._brokers = []
        self._ports = ()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def kill(self, node: int) -> None:
        """Kill broker ``node`` (from 0) with SIGKILL; its data and its ports stay its own."""
        self._brokers[node].kill()

    def restart(self, node: int) -> None:
        """Start broker ``node`` again after ``kill``, or stop it in order and start it; wait until it answers.

        Raises:
            KafkaStartError: it did not come up.
        """
        self._brokers[node].stop()
        self._brokers[node].start()
        self._wait_until_ready([node], {broker.node for broker in self._brokers if broker.running})

    def check_running(self) -> None:
        """Do nothing while all brokers run.

        Raises:
            KafkaStartError: one ended by itself; the message has what its log says.
        """
        for broker in self._brokers:
            broker.check_running()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, installation: Installation) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="engram-kafka-"))
        self._ports = self._choose_ports()
        if self.users:
            self._certificate, self._keystore = make_certificate(self._folder)
        self._brokers = [Broker(node, self._folder, installation) for node in range(self._count)]
        for broker in self._brokers:
            broker.configure(server_properties(broker.node, self._ports, broker.data, self._keystore))
        cluster_id = _new_cluster_id()
        for broker in self._brokers:
            broker.start_new(cluster_id, self.users)
        nodes = [broker.node for broker in self._brokers]
        self._wait_until_ready(nodes, set(nodes))
        self._create_offsets_topic()
        if self.users:
            self.access.allow_all(WORKER)

    def _choose_ports(self) -> tuple[NodePorts, ...]:
        ports = iter(free_ports(3 * self._count))
        return tuple(
            NodePorts(next(ports), next(ports), next(ports) if self.users else None) for _ in range(self._count)
        )

    def _wait_until_ready(self, nodes: list[int], members: set[int]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        for node in nodes:
            client = AdminClient({"bootstrap.servers": f"{HOST}:{self._ports[node].plain}", "log_level": 0})
            while not members <= _known_brokers(client):
                self._brokers[node].check_running()
                if time.monotonic() > deadline:
                    raise KafkaStartError(
                        f"broker {node} of the local Kafka did not answer within {_START_TIMEOUT_S:.0f} s; "
                        f"its log says:\n{self._brokers[node].log_excerpt()}"
                    )

    def _create_offsets_topic(self) -> None:
        # Kafka creates it when the first group asks; until then the first to join is sent away with an error.
        # A consumer asks: list_consumer_group_offsets of confluent-kafka 2.16's admin client may crash the process.
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": "ready", "log_level": 0})
        deadline = time.monotonic() + _START_TIMEOUT_S
        try:
            while not _coordinates(consumer):
                if time.monotonic() > deadline:
                    raise KafkaStartError(
                        f"the local Kafka coordinates no groups after {_START_TIMEOUT_S:.0f} s; "
                        f"its log says:\n{self._brokers[0].log_excerpt()}"
                    )
        finally:
            consumer.close()


def _known_brokers(client: AdminClient) -> set[int]:
    try:
        return set(client.list_topics(timeout=1).brokers)
    except KafkaException:
        return set()


def _coordinates(consumer: Consumer) -> bool:
    try:
        consumer.committed([TopicPartition("ready", 0)], timeout=5)
    except KafkaException:
        return False  # such as NOT_COORDINATOR: the new topic is not loaded yet
    return True


def _new_cluster_id() -> str:
    # Kafka's Uuid: 16 bytes in URL-safe base64; one that began with a dash would look like an option.
    return base64.urlsafe_b64encode(b"\x00" + secrets.token_bytes(15)).decode().rstrip("=")
