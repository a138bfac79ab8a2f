"""Where schemas are looked up: a Confluent-compatible registry, or the schemas shipped with the product."""

from __future__ import annotations

import asyncio
from typing import Protocol

from workers.config import RegistrySettings, read_secret
from workers.errors import ConfigurationError, UnreachableError
from workers.serde.local_registry import LocalRegistry
from workers.serde.schemas import Schema, load, registry_subject
from workers.serde.wire_format import SchemaRef


class SchemaPendingError(UnreachableError):
    """The registry does not know a schema id yet; within the grace the records that need it wait."""


class SchemaRegistry(Protocol):
    """The three calls the product makes. Each raises `UnreachableError` where the server gives no final answer."""

    @property
    def fixed(self) -> bool:
        """Whether the schemas never change while we run, so that an unknown one is not worth waiting for."""

    async def schema_by_ref(self, ref: SchemaRef) -> str | None:
        """Return the JSON text of the schema ``ref``, None when the registry says that it does not exist."""

    async def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the id of ``schema`` under the subject folder ``subject``, None when it is not registered there."""

    async def register(self, subject: str, schema: Schema) -> int:
        """Register ``schema`` under the subject folder ``subject`` (idempotent) and return its id."""

    async def close(self) -> None:
        """Release connections."""


def open_registry(settings: RegistrySettings) -> SchemaRegistry:
    """Return the registry of ``settings``: the shipped schemas where no URL is set. Nothing is connected yet."""
    if settings.url is None:
        return LocalRegistry()
    from workers.serde.confluent_registry import ConfluentRegistry, RegistryOptions

    def basic() -> tuple[str, str]:
        password = read_secret(settings.password, settings.password_file, "registry.password_file")
        return settings.username or "", password or ""

    def bearer() -> str:
        return read_secret(settings.bearer_token, settings.bearer_token_file, "registry.bearer_token_file") or ""

    by_token = settings.bearer_token is not None or settings.bearer_token_file is not None
    return ConfluentRegistry(
        RegistryOptions(
            url=str(settings.url),
            timeout_s=settings.timeout,
            basic=basic if settings.username is not None else None,
            bearer=bearer if by_token else None,
            ca_file=settings.ssl_ca_file,
        )
    )


async def output_id(registry: SchemaRegistry, subject: str) -> int:
    """Return the id under which outputs of ``subject`` are written in our latest version.

    Workers never register: who may change a registry is decided elsewhere.

    Raises:
        ConfigurationError: the version is not registered.
        UnreachableError: the registry gave no final answer.
    """
    known = await registry.id_of(subject, await asyncio.to_thread(load, subject))
    if known is None:
        raise ConfigurationError(
            f"the registry does not hold our schema of {registry_subject(subject)}; "
            "run `engram-stream schemas register` first"
        )
    return known
