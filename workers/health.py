"""Liveness, readiness and metrics over HTTP, served from a thread of their own so that a stuck worker still answers.

Rules: docs/operations.md, "Probes". Liveness fails when the main loop stands still, or when a partition with work keeps
its watermark although nobody stopped it on purpose; an absent broker or registry fails readiness alone. Idle is
healthy.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from workers.errors import ConfigurationError
from workers.transport.status import PartitionStatus

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Request = socket.socket | tuple[bytes, socket.socket]

log = logging.getLogger(__name__)

TICK_LIMIT: Final = 60.0
"""Seconds the main loop may be silent."""
STALL_LIMIT: Final = 300.0
"""Seconds a partition with work may keep its watermark."""
WATCHDOG_EXIT_CODE: Final = 5
MAX_REQUEST_BYTES: Final = 8_192
MAX_CONNECTIONS: Final = 16
REQUEST_SECONDS: Final = 5.0


class Check(StrEnum):
    """What a worker needs before it is ready."""

    ASSIGNMENT = "assignment"
    STATE = "state"
    REGISTRY = "registry"
    PRODUCER = "producer"
    NOT_DRAINING = "not_draining"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Outcome of one check; ``detail`` names places and causes, never payloads or secrets."""

    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """Outcome of all checks of one probe, by name."""

    checks: Mapping[str, CheckResult]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(result.ok for result in self.checks.values())

    def as_json(self) -> bytes:
        """Return the report as the body of an answer."""
        checks = {name: {"ok": result.ok, "detail": result.detail} for name, result in self.checks.items()}
        return json.dumps({"ok": self.ok, "checks": checks}, ensure_ascii=False).encode() + b"\n"


def judge_main_loop(silent: float, limit: float = TICK_LIMIT) -> CheckResult:
    """Judge a main loop that ticked ``silent`` seconds ago."""
    if silent <= limit:
        return CheckResult(True, f"ticked {silent:.0f} s ago")
    return CheckResult(False, f"has not ticked for {silent:.0f} s, over the limit of {limit:.0f} s")


def judge_progress(partitions: Iterable[PartitionStatus], now: float, limit: float = STALL_LIMIT) -> CheckResult:
    """Judge whether every partition with work that was not stopped on purpose moved within ``limit`` seconds.

    ``now`` is in monotonic seconds, as are the times of the partitions.
    """
    stuck = [
        status
        for status in partitions
        if status.has_work and not status.stopped_on_purpose and now - status.progressed_at > limit
    ]
    if not stuck:
        return CheckResult(True, "every partition with work moves")
    named = ", ".join(
        f"{status.partition.topic}-{status.partition.number} at offset {status.watermark} "
        f"for {now - status.progressed_at:.0f} s with {status.batches_in_flight} batches in flight"
        for status in stuck[:5]
    )
    more = f" and {len(stuck) - 5} more" if len(stuck) > 5 else ""
    return CheckResult(False, f"stuck: {named}{more}")


def watchdog_exit_code(liveness: Report) -> int | None:
    """Return the code to exit with, at once and without a drain, or None to go on.

    A worker that is not alive cannot drain: its process must end so that the group gives its partitions to others.
    """
    return None if liveness.ok else WATCHDOG_EXIT_CODE


class HealthState:
    """What the worker tells about itself; written by the main loop, read by the server's threads.

    ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        tick_limit: float = TICK_LIMIT,
        stall_limit: float = STALL_LIMIT,
    ) -> None:
        self._clock = clock
        self._tick_limit = tick_limit
        self._stall_limit = stall_limit
        self._lock = threading.Lock()
        self._ticked_at = clock()
        self._partitions: tuple[PartitionStatus, ...] = ()
        self._checks = {check: CheckResult(check is Check.NOT_DRAINING, "not yet known") for check in Check}
        self._checks[Check.NOT_DRAINING] = CheckResult(True, "in service")

    def tick(self, partitions: Iterable[PartitionStatus] = ()) -> None:
        """Note that the main loop is alive, and the state of every assigned partition."""
        statuses = tuple(partitions)
        with self._lock:
            self._ticked_at = self._clock()
            self._partitions = statuses

    def set(self, check: Check, ok: bool, detail: str) -> None:
        """Note the outcome of one readiness check."""
        with self._lock:
            self._checks[check] = CheckResult(ok, detail)

    def liveness(self) -> Report:
        """Return whether this process can still do its work."""
        with self._lock:
            now, ticked_at, partitions = self._clock(), self._ticked_at, self._partitions
        return Report(
            {
                "main_loop": judge_main_loop(now - ticked_at, self._tick_limit),
                "progress": judge_progress(partitions, now, self._stall_limit),
            }
        )

    def readiness(self) -> Report:
        """Return whether this process does its work now."""
        with self._lock:
            return Report({str(check): result for check, result in self._checks.items()})


class HealthServer:
    """Serves ``/metrics``, ``/healthz`` and ``/readyz`` on ``host``:``port``; port 0 takes a free one.

    ``on_stuck``, if given, is called once from the server's thread with the exit code when the process is no longer
    alive, and must end it: the main loop may be what is stuck.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        state: HealthState,
        host: str,
        port: int,
        on_stuck: Callable[[int, Report], None] | None = None,
    ) -> None:
        try:
            self._server = _Server((host, port), registry, state, on_stuck)
        except OSError as error:
            raise ConfigurationError(
                f"metrics.host, metrics.port: cannot listen on {host}:{port}: {error.strerror or error}. "
                "Choose an address of this machine and a free port."
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(
        self,
        address: tuple[str, int],
        registry: CollectorRegistry,
        state: HealthState,
        on_stuck: Callable[[int, Report], None] | None,
    ) -> None:
        self.registry = registry
        self.state = state
        self._on_stuck = on_stuck
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The parent resolves the host's name here, which can hang on a machine without name service.
        # Without it a worker could not start again on its port while the last scrape's connection lingers.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Request, client_address: object) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Request, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Request, client_address: object) -> None:
        log.warning("an HTTP request for health or metrics broke off")

    def service_actions(self) -> None:
        if self._on_stuck is None:
            return
        liveness = self.state.liveness()
        code = watchdog_exit_code(liveness)
        if code is not None:
            on_stuck, self._on_stuck = self._on_stuck, None
            on_stuck(code, liveness)


class _BoundedInput(io.RawIOBase):
    """A request's bytes: so many, so long, however slowly they drip."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + REQUEST_SECONDS
        self._left = MAX_REQUEST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        seconds = self._deadline - time.monotonic()
        if seconds <= 0 or self._left <= 0:
            raise TimeoutError
        self._connection.settimeout(seconds)
        received = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= received
        self._connection.settimeout(REQUEST_SECONDS)
        return received


def _encoder_for(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # the library trusts the version that a client asks for to be one
        return choose_encoder("")


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_BoundedInput(self.connection))

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = _encoder_for(self.headers.get("Accept", ""))
            self._answer(HTTPStatus.OK, content_type, encode(self.server.registry))
        elif path == "/healthz":
            self._answer_report(self.server.state.liveness())
        elif path == "/readyz":
            self._answer_report(self.server.state.readiness())
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self.close_connection = True
        body = f"{status.phrase}: GET /metrics, /healthz or /readyz\n".encode()
        self._answer(status, "text/plain; charset=utf-8", body)

    def version_string(self) -> str:
        return "engram-stream"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        """Keep silent: requests may hold anything, and probes come every few seconds."""

    def _answer_report(self, report: Report) -> None:
        status = HTTPStatus.OK if report.ok else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, "application/json; charset=utf-8", report.as_json())

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.end_headers()
        self.wfile.write(body)
