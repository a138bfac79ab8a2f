"""A registry whose requests are counted."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from workers.errors import UnreachableError
from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter
from workers.metrics.labels import RegistryOutcome
from workers.serde.registry import SchemaRegistry
from workers.serde.schemas import Schema
from workers.serde.wire_format import SchemaRef

_Answer = TypeVar("_Answer")


class CountedRegistry:
    """Passes every call on to ``registry`` and counts its outcome; a `SchemaRegistry` itself."""

    def __init__(self, registry: SchemaRegistry, exporter: Exporter) -> None:
        self._registry = registry
        self._exporter = exporter

    @property
    def fixed(self) -> bool:
        """Whether the schemas never change while we run."""
        return self._registry.fixed

    async def schema_by_ref(self, ref: SchemaRef) -> str | None:
        """Look up the schema ``ref``."""
        return await self._counted(self._registry.schema_by_ref(ref))

    async def id_of(self, subject: str, schema: Schema) -> int | None:
        """Look up the id of ``schema``."""
        return await self._counted(self._registry.id_of(subject, schema))

    async def register(self, subject: str, schema: Schema) -> int:
        """Register ``schema``."""
        return await self._counted(self._registry.register(subject, schema))

    async def close(self) -> None:
        """Release connections."""
        await self._registry.close()

    async def _counted(self, call: Awaitable[_Answer]) -> _Answer:
        try:
            answer = await call
        except UnreachableError:
            self._exporter.inc(m.REGISTRY_REQUESTS, RegistryOutcome.UNREACHABLE)
            raise
        found = RegistryOutcome.NOT_FOUND if answer is None else RegistryOutcome.FOUND
        self._exporter.inc(m.REGISTRY_REQUESTS, found)
        return answer
