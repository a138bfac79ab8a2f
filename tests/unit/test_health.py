from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics import parser

from workers import health
from workers.errors import ConfigurationError
from workers.health import Check, HealthServer, HealthState, Report, watchdog_exit_code
from workers.metrics import catalogue as c
from workers.metrics.exporter import Exporter
from workers.records import Partition
from workers.transport.status import PartitionStatus

BUSY = PartitionStatus(
    partition=Partition("turns", 3),
    watermark=100,
    committed=100,
    end_offset=500,
    batches_in_flight=4,
    bytes_in_flight=1_000,
    progressed_at=0.0,
    held_for=None,
    halted_at=None,
)
IDLE = replace(BUSY, end_offset=100, batches_in_flight=0)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> HealthState:
    return HealthState(clock)


def liveness_after(state: HealthState, clock: Clock, seconds: float, *partitions: PartitionStatus) -> Report:
    clock.now = seconds
    state.tick(partitions)
    return state.liveness()


def test_a_worker_whose_main_loop_stands_still_is_not_alive(state: HealthState, clock: Clock) -> None:
    state.tick()
    clock.now = 60
    assert state.liveness().ok
    clock.now = 60.5
    assert not state.liveness().checks["main_loop"].ok


def test_a_partition_with_work_that_keeps_its_watermark_too_long_is_named(state: HealthState, clock: Clock) -> None:
    assert liveness_after(state, clock, 300, BUSY).ok
    report = liveness_after(state, clock, 301, IDLE, BUSY)
    assert not report.ok
    assert "turns-3 at offset 100 for 301 s" in report.checks["progress"].detail


@pytest.mark.parametrize(
    "partition",
    [
        IDLE,
        replace(BUSY, progressed_at=900.0),
        replace(BUSY, held_for="registry"),
        replace(BUSY, halted_at=100),
        replace(IDLE, end_offset=None, watermark=None),
    ],
    ids=["idle", "moving", "held by its lane", "halted at an unreadable record", "not yet known"],
)
def test_a_partition_that_is_idle_moving_or_stopped_on_purpose_is_healthy(
    state: HealthState, clock: Clock, partition: PartitionStatus
) -> None:
    assert liveness_after(state, clock, 1_000, partition).ok


def test_lag_without_a_batch_in_flight_is_work_too(state: HealthState, clock: Clock) -> None:
    assert not liveness_after(state, clock, 301, replace(BUSY, batches_in_flight=0)).ok


def test_a_new_worker_is_alive_and_not_ready(state: HealthState) -> None:
    assert state.liveness().ok
    assert not state.readiness().ok


def make_ready(state: HealthState) -> None:
    for check in Check:
        state.set(check, True, "done")


@pytest.mark.parametrize("check", list(Check))
def test_each_check_alone_keeps_a_worker_from_being_ready_and_never_from_being_alive(
    state: HealthState, check: Check
) -> None:
    make_ready(state)
    assert state.readiness().ok
    state.set(check, False, "broker away")
    assert [name for name, result in state.readiness().checks.items() if not result.ok] == [str(check)]
    assert state.liveness().ok


def test_the_watchdog_ends_a_worker_that_is_not_alive_with_its_own_code(state: HealthState, clock: Clock) -> None:
    assert watchdog_exit_code(state.liveness()) is None
    clock.now = 61
    assert watchdog_exit_code(state.liveness()) == 5


@pytest.fixture
def exporter() -> Exporter:
    return Exporter(CollectorRegistry())


@pytest.fixture
def server(state: HealthState, exporter: Exporter) -> Iterator[HealthServer]:
    server = HealthServer(exporter.registry, state, "127.0.0.1", 0)
    server.start()
    yield server
    server.stop()


def get(server: HealthServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()
    finally:
        connection.close()


def test_the_probes_answer_with_a_status_and_every_check_by_name(server: HealthServer, state: HealthState) -> None:
    assert get(server, "/healthz")[0] == 200
    status, content_type, body = get(server, "/readyz?verbose")
    answer: dict[str, Any] = json.loads(body)
    assert (status, content_type) == (503, "application/json; charset=utf-8")
    assert set(answer["checks"]) == {"assignment", "state", "registry", "producer", "not_draining"}
    make_ready(state)
    assert get(server, "/readyz")[0] == 200


def test_metrics_are_openmetrics_with_exemplars_for_those_who_accept_it_and_plain_text_for_others(
    server: HealthServer, exporter: Exporter
) -> None:
    exporter.observe(c.END_TO_END_SECONDS, 0.2, "turns", exemplar={"trace_id": "0af7651916cd43dd"})
    status, content_type, body = get(
        server, "/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    )
    assert status == 200
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert '# {trace_id="0af7651916cd43dd"}' in body
    assert list(parser.text_string_to_metric_families(body))  # type: ignore[no-untyped-call]
    _, plain_type, plain = get(server, "/metrics")
    assert plain_type.startswith("text/plain")
    assert "0af7651916cd43dd" not in plain
    assert "engram_end_to_end_seconds_count" in plain


def test_a_version_of_the_format_that_is_none_still_gets_the_metrics(server: HealthServer) -> None:
    status, _, body = get(server, "/metrics", Accept="application/openmetrics-text; version=abc")
    assert status == 200
    assert "engram_build_info" in body


def test_nothing_can_be_written_and_no_request_is_echoed(server: HealthServer) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "BOB@EXAMPLE.COM"):
        status, content_type, body = get(server, "/metrics", method)
        assert status == 405
        assert content_type.startswith("text/plain")
        assert method not in body
    status, content_type, body = get(server, "/bob@example.com")
    assert (status, content_type) == (404, "text/plain; charset=utf-8")
    assert body == "Not Found: GET /metrics, /healthz or /readyz\n"


def test_an_endless_request_is_cut_off(server: HealthServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n")
        try:
            for _ in range(1_000):
                connection.sendall(b"X-Filler: " + b"x" * 200 + b"\r\n")
            answer = connection.recv(1)
        except OSError:
            answer = b""
    assert answer == b""
    assert get(server, "/healthz")[0] == 200


def test_slow_callers_can_neither_hold_a_connection_nor_lock_the_probes_out(
    server: HealthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.2)
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(40)]
    try:
        for connection in idle:
            assert connection.recv(1) == b""
        assert get(server, "/healthz")[0] == 200
    finally:
        for connection in idle:
            connection.close()


def test_a_stuck_process_is_reported_once_from_the_servers_own_thread(clock: Clock, exporter: Exporter) -> None:
    state = HealthState(clock)
    stuck = threading.Event()
    calls: list[tuple[int, bool, str]] = []

    def on_stuck(code: int, report: Report) -> None:
        calls.append((code, report.ok, threading.current_thread().name))
        stuck.set()

    server = HealthServer(exporter.registry, state, "127.0.0.1", 0, on_stuck)
    server.start()
    try:
        assert get(server, "/healthz")[0] == 200
        assert calls == []
        clock.now = 100
        assert stuck.wait(10)
        assert get(server, "/healthz")[0] == 503
        assert calls == [(5, False, "health")]
    finally:
        server.stop()


def test_a_taken_port_is_an_error_that_names_the_setting(server: HealthServer, exporter: Exporter) -> None:
    with pytest.raises(ConfigurationError, match=rf"metrics.port: cannot listen on 127.0.0.1:{server.port}"):
        HealthServer(exporter.registry, HealthState(), "127.0.0.1", server.port)
