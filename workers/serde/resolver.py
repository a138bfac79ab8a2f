"""Resolve schema references once. Interface settled; see the class."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

from workers.reasons import Rejection
from workers.serde.admission import WriterSchema
from workers.serde.limits import Limits
from workers.serde.registry import SchemaRegistry
from workers.serde.wire_format import SchemaRef


class CachingResolver:
    """Resolves schema references of one subject: asked once, kept for ever."""

    def __init__(
        self, registry: SchemaRegistry, subject: str, limits: Limits, clock: Callable[[], float] = monotonic
    ) -> None: ...

    def cached(self, ref: SchemaRef) -> WriterSchema | Rejection | None:
        """Return what is already known of ``ref``, None where the registry must be asked."""
        raise NotImplementedError

    async def resolve(self, refs: Iterable[SchemaRef]) -> dict[SchemaRef, WriterSchema | Rejection]:
        """Resolve all of ``refs``.

        Raises:
            UnreachableError: the registry gave no final answer for one of them (`SchemaPendingError` within the grace).
        """
        raise NotImplementedError
