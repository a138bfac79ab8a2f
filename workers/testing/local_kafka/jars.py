"""Where the jars of Apache Kafka come from: Maven, once, into the user's cache."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from workers.errors import ConfigurationError, UnreachableError

KAFKA_VERSION: Final = "4.3.1"

_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

# Kafka logs through slf4j and its pom names no binding: without the last one the broker's log stays empty.
_ARTIFACTS: Final = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)


def say_on_stderr(message: str) -> None:
    """Write one line of progress."""
    click.echo(message, err=True)


def cache_folder() -> Path:
    """Return the folder of this Kafka version's jars, inside ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "engram-stream" / f"kafka-{KAFKA_VERSION}"


def kafka_jars(say: Callable[[str], None] = say_on_stderr) -> Path:
    """Return the folder with the jars; fetch them with Maven when it is not there yet.

    Processes that come at the same time wait for the one that fetches. The folder appears complete or not at all.

    Raises:
        ConfigurationError: the jars are not cached and there is no ``mvn``.
        UnreachableError: Maven could not fetch them.
    """
    folder = cache_folder()
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            _fetch(folder, say)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path, say: Callable[[str], None]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigurationError(
            f"mvn is not on the PATH, and it has to fetch Apache Kafka {KAFKA_VERSION} into {folder} once; install it "
            "with `apt-get install --no-install-recommends maven` (macOS: `brew install maven`)"
        )
    say(f"fetching Apache Kafka {KAFKA_VERSION} with Maven, once, about 55 MB, into {folder}")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as name:
        workspace = Path(name)
        (workspace / "pom.xml").write_text(_pom(), encoding="utf-8")
        command = [
            maven, "--batch-mode", "--file", str(workspace / "pom.xml"), f"{_PLUGIN}:copy-dependencies",
            "-DincludeScope=runtime", f"-DoutputDirectory={workspace / 'jars'}",
        ]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            tail = "\n".join(line for line in done.stdout.splitlines() if "ERROR" in line)[:2000]
            raise UnreachableError(
                f"mvn could not fetch Apache Kafka {KAFKA_VERSION} (exit {done.returncode}); "
                f"check the network and the mirrors of ~/.m2/settings.xml\n{tail}"
            )
        (workspace / "jars").rename(folder)
    say(f"fetched {sum(1 for _ in folder.glob('*.jar'))} jars")


def _pom() -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in _ARTIFACTS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>engram</groupId><artifactId>local-kafka</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
