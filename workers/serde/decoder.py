"""Decode one framed payload into a record of our own schema. Interface settled; see the functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.reasons import Rejection
from workers.serde.admission import WriterSchema
from workers.serde.limits import Limits
from workers.serde.wire_format import Frame, SchemaRef

Record = dict[str, Any]


def decode(frame: Frame, writer: WriterSchema, limits: Limits) -> Record | Rejection:
    """Return the payload of ``frame`` by our schema, or why it is refused."""
    raise NotImplementedError


def decode_batch(
    frames: Sequence[Frame], writers: Mapping[SchemaRef, WriterSchema | Rejection], limits: Limits
) -> list[Record | Rejection]:
    """Decode ``frames`` in order; a frame whose writer is a rejection gets that rejection."""
    raise NotImplementedError
