"""Where schemas are looked up: a Confluent-compatible registry, or the schemas shipped with the product."""

from __future__ import annotations

from typing import Protocol

from workers.errors import UnreachableError
from workers.serde.schemas import Schema
from workers.serde.wire_format import SchemaRef


class SchemaPendingError(UnreachableError):
    """The registry does not know a schema id yet; within the grace the records that need it wait."""


class SchemaRegistry(Protocol):
    """The three calls the product makes. Each raises `UnreachableError` where the server gives no final answer."""

    async def schema_by_ref(self, ref: SchemaRef) -> str | None:
        """Return the JSON text of the schema ``ref``, None when the registry says that it does not exist."""

    async def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the id of ``schema`` under the subject folder ``subject``, None when it is not registered there."""

    async def register(self, subject: str, schema: Schema) -> int:
        """Register ``schema`` under the subject folder ``subject`` (idempotent) and return its id."""

    async def close(self) -> None:
        """Release connections."""
