"""From raw records to decoded ones: frames, schemas, payloads; what cannot be decoded gets its rejection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from workers.reasons import Rejection
from workers.records import RawRecord
from workers.serde.admission import WriterSchema
from workers.serde.decoder import decode
from workers.serde.limits import Limits
from workers.serde.resolver import CachingResolver
from workers.serde.wire_format import SCHEMA_ID_HEADER, Frame, SchemaRef, Tombstone, parse


class Decoded(NamedTuple):
    """A record of our own schema and the schema it was written with."""

    value: dict[str, Any]
    writer: WriterSchema
    payload: bytes


Parsed = Frame | Tombstone | Rejection
Ending = Decoded | Tombstone | Rejection


class RecordDecoder:
    """Decodes records of one input topic."""

    def __init__(self, resolver: CachingResolver, limits: Limits, bare_schema: SchemaRef | None = None) -> None:
        self._resolver = resolver
        self._limits = limits
        self.bare_schema = bare_schema
        """Schema of values that carry no frame at all; None where every value must have one."""

    def frames(self, records: Iterable[RawRecord]) -> list[Parsed]:
        """Split each value into schema reference and payload, without asking anyone."""
        frames: list[Parsed] = []
        limit = self._limits.record_bytes
        # Most records carry the prefix of the one before and nothing that could overrule it.
        prefix, ref = None, cast("SchemaRef", 0)
        for record in records:
            value = record.value
            if value is not None and value[:5] == prefix and len(value) <= limit and not _names_schema(record.headers):
                frames.append(Frame(ref, value[5:]))
                continue
            frame = parse(record, self._limits, bare_schema=self.bare_schema)
            frames.append(frame)
            if value is not None and isinstance(frame, Frame) and len(value) - len(frame.payload) == 5:
                prefix, ref = value[:5], frame.schema_id
        return frames

    async def writers(self, parsed: Sequence[Parsed]) -> dict[SchemaRef, WriterSchema | Rejection]:
        """Return the admitted schema, or the rejection, of every reference in ``parsed``.

        Raises:
            UnreachableError: the registry gave no final answer for one of them.
        """
        return await self._resolver.resolve({frame.schema_id for frame in parsed if isinstance(frame, Frame)})

    def decode(self, parsed: Parsed, writers: dict[SchemaRef, WriterSchema | Rejection]) -> Ending:
        """Return what ``parsed`` holds."""
        if not isinstance(parsed, Frame):
            return parsed
        writer = writers[parsed.schema_id]
        if isinstance(writer, Rejection):
            return writer
        value = decode(parsed, writer, self._limits)
        return value if isinstance(value, Rejection) else Decoded(value, writer, parsed.payload)


def _names_schema(headers: Sequence[tuple[str, bytes | None]]) -> bool:
    return bool(headers) and any(name == SCHEMA_ID_HEADER for name, _ in headers)
