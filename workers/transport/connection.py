"""How clients reach Kafka: their options from the settings, secrets read anew, and failures explained.

aiokafka raises a bare ``KafkaConnectionError`` whatever the cause and leaves the cause to its log; `explained` reads it
there, so that a wrong password, authority, host name or port is told as such.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from aiokafka import errors as kafka_errors

from workers.config import KafkaSettings, read_secret, split_servers
from workers.errors import ConfigurationError, UnreachableError

_HOSTNAME_MISMATCH: Final = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_NOT_AUTHORIZED: Final = (kafka_errors.GroupAuthorizationFailedError, kafka_errors.TopicAuthorizationFailedError)
_EXPIRED: Final = frozenset({9, 10})  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Return the keyword arguments by which an aiokafka consumer, producer or admin client reaches Kafka.

    Secrets and certificates are read at each call, so a client made later uses the rotated ones.

    Raises:
        ConfigurationError: a certificate or secret cannot be read.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": list(split_servers(kafka.bootstrap_servers)),
        "security_protocol": kafka.security_protocol,
    }
    if kafka.security_protocol in {"SSL", "SASL_SSL"}:
        options["ssl_context"] = ssl_context(kafka)
    if kafka.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = kafka.sasl_mechanism
        options["sasl_plain_username"] = kafka.sasl_username
        options["sasl_plain_password"] = _sasl_password(kafka)
    return options


def ssl_context(kafka: KafkaSettings) -> ssl.SSLContext:
    """Return a client context: TLS 1.2 or later, certificates required, host names checked.

    Raises:
        ConfigurationError: a certificate, key or its password is missing or wrong.
    """
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificates(context, kafka)
    return context


def _load_certificates(context: ssl.SSLContext, kafka: KafkaSettings) -> None:
    if kafka.ssl_ca_file is not None:
        try:
            context.load_verify_locations(cafile=kafka.ssl_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise _unusable("kafka.ssl_ca_file", kafka.ssl_ca_file, error, "Give the authorities as PEM.") from None
    if kafka.ssl_cert_file is not None:
        password = read_secret(kafka.ssl_key_password, kafka.ssl_key_password_file, "kafka.ssl_key_password_file")
        try:
            # An empty password, unlike None, keeps OpenSSL from asking for one at the terminal.
            context.load_cert_chain(kafka.ssl_cert_file, kafka.ssl_key_file, password or "")
        except (OSError, ssl.SSLError) as error:
            raise _unusable(
                "kafka.ssl_cert_file",
                kafka.ssl_cert_file,
                error,
                "Give certificate and matching key as PEM, and the key's password if it has one.",
            ) from None


def _unusable(key: str, path: object, error: OSError, fix: str) -> ConfigurationError:
    what = "is not usable PEM" if isinstance(error, ssl.SSLError) else f"cannot be read: {error.strerror}"
    return ConfigurationError(f"{key}: {path} {what}. {fix}")


def _sasl_password(kafka: KafkaSettings) -> str | None:
    return read_secret(kafka.sasl_password, kafka.sasl_password_file, "kafka.sasl_password_file")


_HUNG_UP: Final = "the broker closes the connection. Set kafka.security_protocol to the listener's."


class _Causes(logging.Handler):
    """Keeps the exceptions that aiokafka logs while a client starts."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the exception among the arguments of ``record``."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        self.seen += [argument for argument in arguments if isinstance(argument, BaseException)]


@contextmanager
def explained(kafka: KafkaSettings) -> Iterator[None]:
    """Run the start of a client; a failure becomes an UnreachableError that names its cause and the fix.

    aiokafka's own lines about failed connections are kept out of the log meanwhile: the error says the same, once.

    Raises:
        UnreachableError: Kafka does not answer, or refuses us.
    """
    logger = logging.getLogger("aiokafka")
    causes = _Causes()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(causes)
    try:
        yield
    except (kafka_errors.KafkaError, OSError, TimeoutError) as error:
        raise UnreachableError(explain_connection_error(error, causes.seen, kafka)) from error
    finally:
        logger.removeHandler(causes)
        logger.propagate = propagate


def explain_connection_error(error: BaseException, logged: Sequence[BaseException], kafka: KafkaSettings) -> str:
    """Return why Kafka could not be reached and what to do, from the raised ``error`` and those aiokafka ``logged``.

    The most telling cause wins: with several brokers one may refuse the password while another is merely down.
    """
    explanations = [explanation for cause in (*logged, error) if (explanation := _explain(cause, kafka))]
    what = min(explanations, default=(9, "no broker answers. Check that Kafka runs and is reachable from here."))[1]
    return f"Kafka at {kafka.bootstrap_servers} ({kafka.security_protocol}): {what}"


def _explain(cause: BaseException, kafka: KafkaSettings) -> tuple[int, str] | None:
    """Return rank (the lower, the more telling) and explanation of one cause, None when it says nothing."""
    if isinstance(cause, kafka_errors.KafkaError):
        return _explain_kafka(cause, kafka)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return 1, _explain_certificate(cause, kafka)
    if isinstance(cause, ssl.SSLError):
        return _explain_tls(cause)
    if isinstance(cause, socket.gaierror):
        return 4, "the host name does not resolve. Correct kafka.bootstrap_servers, or the name service."
    if isinstance(cause, ConnectionRefusedError):
        return 5, "connection refused: nothing listens there. Start Kafka, or correct kafka.bootstrap_servers."
    if isinstance(cause, ConnectionResetError):  # by a listener that does not understand us, without a text
        return 3, _HUNG_UP
    if isinstance(cause, TimeoutError):
        return 6, "no answer in time. Check firewalls, and that kafka.security_protocol is the listener's."
    return (7, f"{cause.strerror}. Check the network.") if isinstance(cause, OSError) and cause.strerror else None


def _explain_kafka(cause: kafka_errors.KafkaError, kafka: KafkaSettings) -> tuple[int, str] | None:
    if isinstance(cause, kafka_errors.SaslAuthenticationFailed):
        return 1, (
            f"wrong user or password for {kafka.sasl_username} by {kafka.sasl_mechanism}. "
            "Correct kafka.sasl_username and the password, or create the user on the broker."
        )
    if isinstance(cause, kafka_errors.UnsupportedSaslMechanismError):
        return 1, f"the broker does not offer {kafka.sasl_mechanism}. Set kafka.sasl_mechanism to one that it offers."
    if isinstance(cause, kafka_errors.IllegalSaslStateError):
        return 2, "the listener expects no SASL. Set kafka.security_protocol to the listener's."
    if isinstance(cause, kafka_errors.ClusterAuthorizationFailedError):
        return 1, "the user may not write at all. Grant it WRITE on the topics it publishes to."
    if isinstance(cause, _NOT_AUTHORIZED):
        return 1, f"not authorized ({type(cause).__name__}). Grant the user the permissions of the security guide."
    closed = isinstance(cause, kafka_errors.KafkaConnectionError) and "closed" in str(cause).lower()
    if closed:
        return 3, _HUNG_UP
    return None


def _explain_certificate(cause: ssl.SSLCertVerificationError, kafka: KafkaSettings) -> str:
    if cause.verify_code in _HOSTNAME_MISMATCH:
        return (
            "the broker's certificate is for another host name. "
            "Use a name of its subjectAltName in kafka.bootstrap_servers, or reissue the certificate."
        )
    if cause.verify_code in _EXPIRED:
        return "the broker's certificate is expired or not yet valid. Renew it, or correct this machine's clock."
    trusted = kafka.ssl_ca_file or "the system's authorities"
    return f"the broker's certificate is not signed by {trusted}. Set kafka.ssl_ca_file to its authority."


def _explain_tls(cause: ssl.SSLError) -> tuple[int, str]:
    reason = cause.reason or type(cause).__name__
    if reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}:
        return 2, "the listener does not speak TLS. Set kafka.security_protocol to the listener's."
    if "ALERT" in reason:
        return 2, f"the broker refuses our certificate ({reason}). Set kafka.ssl_cert_file and kafka.ssl_key_file."
    return 3, f"TLS fails ({reason}). Check protocol versions and certificates on both sides."
