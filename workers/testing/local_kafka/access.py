"""Who may do what on a local cluster with an authorizer, and the certificate of its secured listener."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from workers.errors import ConfigurationError
from workers.testing.local_kafka.properties import HOST

_TIMEOUT_S: Final = 30.0
_ANY_HOST: Final = "*"
_PATTERN: Final = ResourcePatternType.LITERAL


class AccessControl:
    """Changes the ACLs of a cluster. A change holds a moment after its call returns: wait for its effect."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def allow_all(self, user: str) -> None:
        """Let ``user`` read, write and describe every topic, group and transactional id; a denial overrules it."""
        self._create(
            AclBinding(kind, "*", _PATTERN, f"User:{user}", _ANY_HOST, AclOperation.ALL, AclPermissionType.ALLOW)
            for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
        )

    def deny_write(self, user: str, topic: str) -> None:
        """Refuse writes of ``user`` to ``topic`` from now on."""
        principal, operation = f"User:{user}", AclOperation.WRITE
        self._create(
            [AclBinding(ResourceType.TOPIC, topic, _PATTERN, principal, _ANY_HOST, operation, AclPermissionType.DENY)]
        )

    def allow_write(self, user: str, topic: str) -> None:
        """Take `deny_write` back."""
        principal, operation = f"User:{user}", AclOperation.WRITE
        denial = AclBindingFilter(
            ResourceType.TOPIC, topic, _PATTERN, principal, _ANY_HOST, operation, AclPermissionType.DENY
        )
        _wait(self._admin.delete_acls([denial]))

    def _create(self, bindings: Iterable[AclBinding]) -> None:
        _wait(self._admin.create_acls(list(bindings)))


def _wait(answers: Mapping[Any, Future[Any]]) -> None:
    for answer in answers.values():
        answer.result(timeout=_TIMEOUT_S)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for 127.0.0.1 and localhost; return it, and the PEM of key and certificate.

    Raises:
        ConfigurationError: there is no ``openssl``.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ConfigurationError(
            "openssl is not on the PATH, and it makes the certificate of the secured local Kafka; install it with "
            "`apt-get install --no-install-recommends openssl` (macOS: `brew install openssl`)"
        )
    certificate, key, store = folder / "ca.pem", folder / "key.pem", folder / "keystore.pem"
    command = [
        openssl, "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2",
        "-subj", "/CN=engram-stream local Kafka", "-addext", f"subjectAltName=IP:{HOST},DNS:localhost",
        "-keyout", str(key), "-out", str(certificate),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    store.write_text(key.read_text(encoding="ascii") + certificate.read_text(encoding="ascii"), encoding="ascii")
    store.chmod(0o600)
    return certificate, store
