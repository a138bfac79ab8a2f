"""Connections: options by protocol, rotated secrets, and failures told by their cause."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka_errors
from pydantic import SecretStr

from workers.config import KafkaSettings
from workers.errors import ConfigurationError, UnreachableError
from workers.testing.local_kafka.ports import free_ports
from workers.transport.connection import (
    client_options,
    explain_connection_error,
    explained,
)

SASL = KafkaSettings(
    bootstrap_servers="kafka-1:9093",
    security_protocol="SASL_SSL",
    sasl_username="worker",
    sasl_password=SecretStr("hunter2"),
)


def _unverified(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


def _tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


def test_plaintext_needs_nothing_but_the_brokers() -> None:
    options = client_options(KafkaSettings(bootstrap_servers="a:1,b:2"))
    assert options == {"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "PLAINTEXT"}


def test_tls_requires_certificates_checks_host_names_and_takes_1_2_or_later() -> None:
    context = client_options(SASL)["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_password_file_is_read_for_each_client(tmp_path: Path) -> None:
    path = tmp_path / "password"
    kafka = KafkaSettings(security_protocol="SASL_SSL", sasl_username="worker", sasl_password_file=path)
    for password in ("first", "second"):
        path.write_text(f"{password}\n", encoding="utf-8")
        options = client_options(kafka)
        assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("worker", password)
        assert options["sasl_mechanism"] == "SCRAM-SHA-512"
    path.unlink()
    with pytest.raises(ConfigurationError, match="sasl_password_file"):
        client_options(kafka)


@pytest.mark.parametrize(
    ("cause", "what", "fix"),
    [
        (kafka_errors.SaslAuthenticationFailed("no"), "wrong user or password for worker", "kafka.sasl_username"),
        (kafka_errors.UnsupportedSaslMechanismError("no"), "does not offer SCRAM-SHA-512", "kafka.sasl_mechanism"),
        (kafka_errors.IllegalSaslStateError("no"), "expects no SASL", "kafka.security_protocol"),
        (kafka_errors.ClusterAuthorizationFailedError("no"), "may not write", "WRITE"),
        (kafka_errors.TopicAuthorizationFailedError("no"), "not authorized", "Grant"),
        (kafka_errors.KafkaConnectionError("Connection at k:1 closed"), "closes the connection", "security_protocol"),
        (ConnectionResetError(), "closes the connection", "security_protocol"),
        (_unverified(62), "another host name", "subjectAltName"),
        (_unverified(10), "expired", "Renew"),
        (_unverified(19), "not signed by the system's authorities", "kafka.ssl_ca_file"),
        (_tls("WRONG_VERSION_NUMBER"), "does not speak TLS", "kafka.security_protocol"),
        (_tls("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "refuses our certificate", "kafka.ssl_cert_file"),
        (socket.gaierror(-2, "Name or service not known"), "does not resolve", "kafka.bootstrap_servers"),
        (ConnectionRefusedError(111, "refused"), "nothing listens", "Start Kafka"),
        (TimeoutError(), "no answer in time", "firewalls"),
        (OSError(113, "No route to host"), "No route to host", "network"),
    ],
)
def test_each_cause_is_told_with_its_fix(cause: BaseException, what: str, fix: str) -> None:
    bare = kafka_errors.KafkaConnectionError("Unable to bootstrap from [('kafka-1', 9093, 0)]")
    message = explain_connection_error(bare, [cause], SASL)
    assert message.startswith("Kafka at kafka-1:9093 (SASL_SSL): ")
    assert what in message
    assert fix in message
    assert "hunter2" not in message


def test_the_most_telling_cause_wins_over_a_broker_that_is_merely_down() -> None:
    causes = [ConnectionRefusedError(111, "refused"), kafka_errors.SaslAuthenticationFailed("no")]
    assert "wrong user or password" in explain_connection_error(TimeoutError(), causes, SASL)


def test_without_any_cause_the_message_still_says_what_to_check() -> None:
    assert "no broker answers" in explain_connection_error(kafka_errors.KafkaConnectionError("x"), [], SASL)


async def test_an_unreachable_port_is_explained_once_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    kafka = KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}")
    assert "nothing listens there" in await _failure(kafka)
    assert not [record for record in caplog.records if record.name.startswith("aiokafka")]
    assert logging.getLogger("aiokafka").propagate


async def test_tls_to_a_listener_without_tls_is_told_as_such() -> None:
    async with _listener(lambda writer: writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        kafka = KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}", security_protocol="SSL")
        assert "does not speak TLS" in await _failure(kafka)


async def test_a_listener_that_hangs_up_is_told_as_such() -> None:
    async with _listener(lambda writer: None) as port:
        assert "closes the connection" in await _failure(KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}"))


async def _failure(kafka: KafkaSettings) -> str:
    producer = AIOKafkaProducer(**client_options(kafka), request_timeout_ms=5000)
    try:
        with pytest.raises(UnreachableError) as caught, explained(kafka):
            await producer.start()
    finally:
        await producer.stop()
    return str(caught.value)


@asynccontextmanager
async def _listener(answer: Callable[[asyncio.StreamWriter], None]) -> AsyncIterator[int]:
    """A port that reads a little, answers, and hangs up."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        answer(writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
