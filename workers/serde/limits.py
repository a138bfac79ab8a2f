"""Upper bounds of what the workers take in; past one of them a record or a schema is refused, never truncated.

Source: docs/limits.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one topic.

    ``record_bytes`` counts the framed, uncompressed value. ``collection_items`` bounds one array or map,
    ``record_items`` all of a record together. ``schema_*`` bound a writer's schema at admission: its JSON text in
    bytes, how many ids of one subject are held, how deep it nests, and how many values its types describe, one item
    per collection and every branch of a union (named types counted at every use).
    """

    record_bytes: int = 1_048_576
    collection_items: int = 10_000
    record_items: int = 100_000
    schema_bytes: int = 262_144
    schema_ids: int = 256
    schema_depth: int = 32
    schema_nodes: int = 10_000


TURN_LIMITS: Final = Limits(record_bytes=1_000_000)
"""The bounds of ``turns``."""
