"""The schemas shipped with the product, in the place of a registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from workers.errors import ConfigurationError
from workers.serde.schemas import Schema, load, load_ids, to_text
from workers.serde.wire_format import SchemaRef


class LocalRegistry:
    """A registry without a server: ``schemas/`` with the ids of ``schemas/ids.yaml``.

    ``root`` stands for the shipped folder in tests.
    """

    fixed = True

    def __init__(self, root: Path | None = None) -> None:
        self._by_ref: dict[SchemaRef, str] = {}
        self._ids: dict[tuple[str, str], int] = {}
        for subject, entries in load_ids(root).items():
            for version, ids in entries.items():
                schema = load(subject, version, root)
                text = to_text(schema)
                self._by_ref[ids.id] = self._by_ref[ids.guid] = text
                self._ids[subject, _canonical(schema)] = ids.id

    async def schema_by_ref(self, ref: SchemaRef) -> str | None:
        """Return the JSON text of the schema ``ref``, None when no shipped schema has that id or GUID."""
        return self._by_ref.get(ref)

    async def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the id of ``schema`` under ``subject``, None when it is no shipped version of it."""
        return self._ids.get((subject, _canonical(schema)))

    async def register(self, subject: str, schema: Schema) -> int:
        """Return the id of ``schema`` under ``subject``: shipped schemas are registered already.

        Raises:
            ConfigurationError: it is not among them.
        """
        known = await self.id_of(subject, schema)
        if known is None:
            raise ConfigurationError(
                f"schemas/{subject} does not hold this schema, and no registry is set to register it in; "
                "set registry.url, or add the version to schemas/ and schemas/ids.yaml"
            )
        return known

    async def close(self) -> None:
        """Release nothing."""


def _canonical(schema: Mapping[str, object]) -> str:
    return json.dumps(schema, sort_keys=True)
