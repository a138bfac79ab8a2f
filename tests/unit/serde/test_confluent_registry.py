"""Answers that a healthy registry does not give."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import SecretStr

from workers.config import RegistrySettings
from workers.errors import UnreachableError
from workers.serde.confluent_registry import ConfluentRegistry, RegistryOptions
from workers.serde.registry import open_registry


class Server(ThreadingHTTPServer):
    """Gives one answer to everything, after ``hold`` is set, and keeps the headers it got."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.body = b"{}"
        self.hold = threading.Event()
        self.hold.set()
        self.authorization: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.authorization.append(self.headers.get("Authorization"))
        self.server.hold.wait(10)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.hold.set()
        running.shutdown()
        thread.join()


def answer(code: int) -> bytes:
    return json.dumps({"error_code": code, "message": "SECRET CONTENT"}).encode()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, answer(404)),
        (404, answer(40401)),
        (404, b"<html>SECRET CONTENT</html>"),
        (401, answer(401)),
        (403, answer(40301)),
        (429, answer(429)),
        (500, answer(50001)),
        (503, b""),
        (302, b""),
        (200, b"<html>SECRET CONTENT</html>"),
        (200, b"[1]"),
        (200, b"{}"),
        (200, b"null"),
        (200, b""),
    ],
)
async def test_anything_but_a_schema_or_the_registrys_own_unknown_is_an_outage_and_is_not_quoted(
    server: Server, status: int, body: bytes
) -> None:
    server.status, server.body = status, body
    registry = ConfluentRegistry(RegistryOptions(server.url))
    with pytest.raises(UnreachableError, match=r"registry http://127\.0\.0\.1") as caught:
        await registry.schema_by_ref(1)
    assert "SECRET" not in str(caught.value)
    await registry.close()


async def test_the_registrys_own_unknown_is_no_outage(server: Server) -> None:
    server.status, server.body = 404, answer(40403)
    registry = ConfluentRegistry(RegistryOptions(server.url))
    assert await registry.schema_by_ref(1) is None
    await registry.close()


async def test_a_registry_that_does_not_answer_in_time_is_an_outage(server: Server) -> None:
    server.hold.clear()
    registry = ConfluentRegistry(RegistryOptions(server.url, timeout_s=0.2))
    with pytest.raises(UnreachableError, match="did not answer"):
        await registry.schema_by_ref(1)
    server.hold.set()
    await registry.close()


async def test_the_same_id_is_asked_for_again_because_caching_is_the_resolvers(server: Server) -> None:
    server.body = json.dumps({"schema": '"string"'}).encode()
    registry = ConfluentRegistry(RegistryOptions(server.url))
    assert await registry.schema_by_ref(1) == '"string"'
    server.body = json.dumps({"schema": '"int"'}).encode()
    assert await registry.schema_by_ref(1) == '"int"'
    await registry.close()


async def test_a_rotated_password_is_picked_up_after_a_refusal(server: Server) -> None:
    passwords = iter(["old", "new"])
    registry = ConfluentRegistry(RegistryOptions(server.url, basic=lambda: ("user", next(passwords))))
    server.status, server.body = 401, answer(401)
    for _ in range(2):
        with pytest.raises(UnreachableError, match="user, password or token"):
            await registry.schema_by_ref(1)
    expected = [f"Basic {base64.b64encode(text).decode()}" for text in (b"user:old", b"user:new")]
    assert server.authorization == expected
    await registry.close()


async def test_settings_choose_how_we_authenticate_and_show_no_secret(server: Server) -> None:
    settings = RegistrySettings(url=server.url, bearer_token=SecretStr("t0ken"))
    registry = open_registry(settings)
    server.status, server.body = 404, answer(40403)
    await registry.schema_by_ref(1)
    assert server.authorization == ["Bearer t0ken"]
    assert "t0ken" not in repr(settings)
    await registry.close()


def test_without_a_url_the_shipped_schemas_are_the_registry() -> None:
    assert open_registry(RegistrySettings()).fixed
