"""What the demo runs: Apache Kafka, the topics, two workers, the generator; all of it ends with the demo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from workers.admin.topic_plan import make_plan
from workers.admin.topics import TopicAdmin
from workers.config import KafkaSettings
from workers.demo.alerts import AlertReader, SeenAlert
from workers.demo.children import Child
from workers.demo.interrupts import ignore_stop_signals
from workers.demo.picture import STATE_WRITES, History, Picture, take_picture
from workers.demo.samples import TURNS, Samples, get, scrape
from workers.errors import EngramError
from workers.testing.local_kafka import LocalKafka
from workers.testing.traffic import BadKind
from workers.topic_catalogue import load_catalogue

WORKERS: Final = 2
INPUTS: Final = (TURNS, STATE_WRITES)
READY_SECONDS: Final = 90.0
SETTLE_SECONDS: Final = 30.0
SETTLED_FOR_SECONDS: Final = 1.2
_POLL_SECONDS: Final = 0.2

BAD_SHARE: Final = 0.015
BAD_KINDS: Final = (
    BadKind.BAD_MAGIC,
    BadKind.MISSING_EVENT_TIME,
    BadKind.LIMIT_EXCEEDED,
    BadKind.PAYLOAD_TRUNCATED,
    BadKind.INVALID_RECORD,
    BadKind.DUPLICATE,
    BadKind.CONVERSATION_TOMBSTONE,
    BadKind.INVALID_MANIFEST,
)
"""A choice that fits one screen; an unknown schema id is not in it, since a worker waits for the registry first."""
STATE_WRITE_SHARE: Final = 0.2
INCIDENT_SHARE: Final = 1 / 3
"""The part of the demo's time before the release that forgets."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long, in seconds, and how many turns per second."""

    duration: float
    rate: int

    @property
    def incident_after(self) -> int:
        """Turns before the release that forgets."""
        return int(self.duration * self.rate * INCIDENT_SHARE)


class Stage:
    """What runs, and what has been seen of it: `open_stage` makes one."""

    def __init__(self, kafka: LocalKafka, folder: Path, pace: Pace) -> None:
        self.history = History()
        self.alerts: list[SeenAlert] = []
        self._kafka = kafka
        self._folder = folder
        self._pace = pace
        self._workers: list[Child] = []
        self._generator: Child | None = None
        self._reader = AlertReader(kafka.bootstrap_servers)
        self._samples: dict[str, Samples] = {}

    @property
    def bootstrap_servers(self) -> str:
        """Where Kafka listens."""
        return self._kafka.bootstrap_servers

    @property
    def addresses(self) -> list[str]:
        """Where the workers answer, ``http://HOST:PORT`` each."""
        return [worker.address for worker in self._workers if worker.address is not None]

    def start_workers(self, partitions: int, say: Callable[[str], None]) -> None:
        """Start the workers and wait until they are ready and share the ``partitions`` of the inputs.

        Raises:
            EngramError: one did not come up; the message has the end of its log.
        """
        for number in range(1, WORKERS + 1):
            settings = {
                "ENGRAM_METRICS__PORT": "0",
                "ENGRAM_WORKER__DATADIR": str(self._folder / f"worker-{number}-data"),
            }
            self._workers.append(self._child(f"worker {number}", ["worker"], settings))
        deadline = time.monotonic() + READY_SECONDS
        while not self._are_ready(partitions):
            if time.monotonic() > deadline:
                logs = "\n".join(f"{worker.name}:\n{worker.log_tail()}" for worker in self._workers)
                raise EngramError(f"the workers were not ready within {READY_SECONDS:.0f} s; their logs end:\n{logs}")
            time.sleep(_POLL_SECONDS)
        for worker in self._workers:
            say(f"{worker.name} is ready, metrics on {worker.address}/metrics")

    def begin_traffic(self) -> None:
        """Start the generator."""
        bad = [word for kind in BAD_KINDS for word in ("--bad-kind", kind.value)]
        arguments = [
            *("generate", "--rate", str(self._pace.rate), "--bad", str(BAD_SHARE), *bad),
            *("--state-writes", str(STATE_WRITE_SHARE), "--incident-after", str(self._pace.incident_after)),
        ]
        self._generator = self._child("generator", arguments, {})

    def end_traffic(self) -> None:
        """Stop the generator; what it sent is still being processed."""
        if self._generator is not None:
            self._generator.begin_stop()
            self._generator.finish_stop()
            self._generator = None

    def look(self) -> Picture:
        """Check that everything runs, and take in what the workers and the topic ``alerts`` tell now.

        A worker that does not answer for once counts as it was.

        Raises:
            EngramError: a process has ended; the message has the end of its log.
        """
        self._kafka.check_running()
        for child in self._children():
            child.check_running()
        for worker in self._workers:
            found = scrape(worker.address) if worker.address is not None else None
            if found is not None:
                self._samples[worker.name] = found
        self.alerts += self._reader.read_new()
        picture = take_picture(time.time(), self._samples)
        self.history.add(picture)
        return picture

    def settle(self) -> bool:
        """Wait until everything sent is processed and the numbers stand still; return whether they do in time."""
        deadline = time.monotonic() + SETTLE_SECONDS
        before = self.look()
        while time.monotonic() < deadline:
            # Workers renew their gauges every second: a shorter wait could see the lag of before.
            time.sleep(SETTLED_FOR_SECONDS)
            now = self.look()
            if now.is_quiet and now.received == before.received:
                return True
            before = now
        return False

    def close(self) -> None:
        """End every process, all at once."""
        children = self._children()
        for child in children:
            child.begin_stop()
        for child in children:
            child.finish_stop()
        self._reader.close()

    def _are_ready(self, partitions: int) -> bool:
        shares = self.look().shares
        held = [len(numbers) for share in shares for numbers in share.partitions.values()]
        balanced = len(held) == WORKERS * len(INPUTS) and sum(held) == partitions
        return balanced and all(get(address, "/readyz")[0] == HTTPStatus.OK for address in self.addresses)

    def _children(self) -> list[Child]:
        # The generator first: it ends at once, and workers drain what is there.
        return [*([self._generator] if self._generator else []), *self._workers]

    def _child(self, name: str, arguments: list[str], settings: dict[str, str]) -> Child:
        return Child(name, arguments, {"KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers, **settings}, self._folder)


@contextmanager
def open_stage(pace: Pace, say: Callable[[str], None]) -> Iterator[Stage]:
    """Start everything but the traffic; at the end nothing is left of it.

    ``say`` gets a line for each step.

    Raises:
        ConfigurationError: Java or Maven is missing.
        UnreachableError: Maven could not fetch Kafka.
        EngramError: Kafka or a worker did not come up; the message ends with its log's last lines.
    """
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory(prefix="engram-demo-", ignore_cleanup_errors=True)))
        say("starting Apache Kafka")
        kafka = held.enter_context(LocalKafka(say=say))
        say(f"Apache Kafka listens on {kafka.bootstrap_servers}")
        partitions = _create_topics(kafka.bootstrap_servers, say)
        stage = Stage(kafka, folder, pace)
        held.callback(stage.close)
        stage.start_workers(partitions, say)
        held.callback(ignore_stop_signals)
        yield stage


def _create_topics(bootstrap_servers: str, say: Callable[[str], None]) -> int:
    """Create the topics of the catalogue; return how many partitions the inputs have together."""
    admin = TopicAdmin(KafkaSettings(bootstrap_servers=bootstrap_servers))
    catalogue = load_catalogue()
    names = [topic.name for topic in catalogue]
    plan = make_plan(catalogue, admin.state(names))
    admin.apply(plan, lambda _: None)
    admin.wait_until(lambda: not make_plan(catalogue, admin.state(names)).changes)
    say(f"created {len(plan.creations)} topics")
    return sum(creation.partitions for creation in plan.creations if creation.topic in INPUTS)
