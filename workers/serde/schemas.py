"""The schemas shipped with the product: one folder per subject, ``v<N>.avsc`` per released version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from workers.errors import ConfigurationError
from workers.resources import resource_folder

Schema: TypeAlias = dict[str, Any]
"""A record schema as parsed JSON."""

SUBJECTS: Final = ("turns", "state-writes", "fidelity", "alerts", "producer-paths")
"""The subject folders, which bear the names of their topics."""


class SchemaIds(NamedTuple):
    """One schema version: its ids where no registry is used, for the prefix form and for the header form.

    ``sha256`` is the `digest` of a released version, whose file never changes again; None while it may.
    """

    id: int
    guid: str
    sha256: str | None = None


def registry_subject(subject: str) -> str:
    """Return the registry's name of the subject whose folder and topic are ``subject``."""
    return f"{subject}-value"


def to_text(schema: Mapping[str, Any]) -> str:
    """Return ``schema`` as the compact JSON text that is registered."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def digest(schema: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hexadecimal, of `to_text`."""
    return hashlib.sha256(to_text(schema).encode()).hexdigest()


def versions(subject: str, root: Path | None = None) -> list[int]:
    """Return the versions of ``subject``, oldest first; ``root`` stands for the shipped folder in tests."""
    folder = (root or resource_folder("schemas")) / subject
    return sorted(int(path.stem[1:]) for path in folder.glob("v*.avsc") if path.stem[1:].isdigit())


def load(subject: str, version: int | None = None, root: Path | None = None) -> Schema:
    """Return the schema of ``subject`` in ``version``, the latest where None.

    Raises:
        ConfigurationError: there is no such subject or version, or the file is no JSON object.
    """
    base = root or resource_folder("schemas")
    known = versions(subject, base)
    if not known or (version is not None and version not in known):
        wanted = "any version" if version is None else f"version {version}"
        raise ConfigurationError(f"schemas/{subject} has not {wanted}; known versions: {known or 'none'}")
    path = base / subject / f"v{version or known[-1]}.avsc"
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigurationError(
            f"{path}: not JSON ({error}). Repair the file or install engram-stream again."
        ) from error
    if not isinstance(schema, dict):
        raise ConfigurationError(f"{path}: not a JSON object. A subject's schema is a record.")
    return schema


def latest(subject: str, root: Path | None = None) -> int:
    """Return the newest version of ``subject``."""
    return versions(subject, root)[-1]


def load_ids(root: Path | None = None) -> Mapping[str, Mapping[int, SchemaIds]]:
    """Return ``schemas/ids.yaml``: by subject folder and version, the ids used without a registry.

    Raises:
        ConfigurationError: the file is missing or not in its form.
    """
    path = (root or resource_folder("schemas")) / "ids.yaml"
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return {
            subject.removesuffix("-value"): {
                int(version): SchemaIds(int(entry["id"]), str(entry["guid"]), entry.get("sha256"))
                for version, entry in entries.items()
            }
            for subject, entries in document.items()
        }
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{path}: expected SUBJECT-value: {{VERSION: {{id: N, guid: UUID}}}} ({type(error).__name__}). Repair it."
        ) from error
