"""Admission of a writer's schema. Interface settled; see the function."""

from __future__ import annotations

from dataclasses import dataclass

from workers.reasons import Rejection
from workers.serde.limits import Limits
from workers.serde.schemas import Schema
from workers.serde.wire_format import SchemaRef


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """An admitted writer's schema: ``presence`` holds the dotted paths of our fields that the writer supplies."""

    ref: SchemaRef
    presence: frozenset[str]
    unknown_fields: tuple[str, ...]


def admit(schema_text: str, reader: Schema, limits: Limits, ref: SchemaRef) -> WriterSchema | Rejection:
    """Check the schema ``ref`` once against our schema ``reader``."""
    raise NotImplementedError
