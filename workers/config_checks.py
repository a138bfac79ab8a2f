"""What settings name must also exist and work: files, certificates, the policy. Read before a worker starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from workers.config import Loaded, setting_keys
from workers.errors import ConfigurationError
from workers.policy_file import PolicyFile
from workers.transport.connection import client_options


def problems_of(loaded: Loaded) -> list[str]:
    """Return what is wrong with what the settings name: key, origin, what, and what to do; empty when all is well."""
    found = [problem for key in setting_keys() if (problem := _file_problem(loaded, key))]
    if not found:
        kafka, policy = loaded.settings.kafka, loaded.settings.policy
        found += _refusal(lambda: client_options(kafka))
        found += _refusal(lambda: PolicyFile(policy.file))
    return found


def value_of(loaded: Loaded, key: str) -> object:
    """Return the value behind ``section.name``."""
    section, _, name = key.partition(".")
    return getattr(getattr(loaded.settings, section), name)


def _file_problem(loaded: Loaded, key: str) -> str | None:
    path = value_of(loaded, key)
    if not isinstance(path, Path):
        return None
    place = f"{key} ({loaded.origins[key]}): {path}"
    if key == "worker.datadir":
        nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        usable = nearest.is_dir() and os.access(nearest, os.W_OK)
        return None if usable else f"{place} cannot be written to. Name a folder that the worker may write to."
    if not path.is_file():
        return f"{place} is no file. Mount it, or correct the path."
    return None if os.access(path, os.R_OK) else f"{place} may not be read. Let the worker's user read it."


def _refusal(use: Callable[[], object]) -> list[str]:
    try:
        use()
    except ConfigurationError as error:
        return [str(error)]
    return []
