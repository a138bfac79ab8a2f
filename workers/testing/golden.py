"""Golden payloads: records as JSON, and beside each the bytes it is written as, for each version of a subject.

They lie in ``schemas/<subject>/golden/v<N>``: ``<name>.json`` and, without a frame, ``<name>.avro``.
``python -m workers.testing.golden`` writes the bytes of versions that are not released; those of released versions are
never written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from workers.resources import resource_folder
from workers.serde.encoder import Encoder
from workers.serde.schemas import SUBJECTS, load, load_ids, versions


class Golden(NamedTuple):
    """One golden payload: a record of ``subject`` in ``version``; ``path`` is the file of its bytes."""

    subject: str
    version: int
    name: str
    record: dict[str, Any]
    path: Path

    @property
    def payload(self) -> bytes:
        """The bytes as they were written."""
        return self.path.read_bytes()

    def encode(self) -> bytes:
        """Return the bytes that the record is written as today."""
        return Encoder(load(self.subject, self.version), 0).payload(self.record)


def golden_payloads(root: Path | None = None) -> Iterator[Golden]:
    """Yield all golden payloads, by subject, version and name."""
    folder = root or resource_folder("schemas")
    for subject in SUBJECTS:
        for version in versions(subject, folder):
            for path in sorted((folder / subject / "golden" / f"v{version}").glob("*.json")):
                record = json.loads(path.read_text(encoding="utf-8"))
                yield Golden(subject, version, path.stem, record, path.with_suffix(".avro"))


def main() -> None:
    """Write the bytes of the versions that are not released."""
    ids = load_ids()
    for golden in golden_payloads():
        if ids[golden.subject][golden.version].sha256 is None:
            golden.path.write_bytes(golden.encode())
            click.echo(f"wrote {golden.path}", err=True)


if __name__ == "__main__":
    main()
