"""A schema registry on this machine, for tests and the demo: Apicurio, in memory."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from workers.errors import ConfigurationError, EngramError, UnreachableError
from workers.testing.local_kafka import guard
from workers.testing.local_kafka.jars import say_on_stderr
from workers.testing.local_kafka.java import find_java
from workers.testing.local_kafka.ports import free_ports

APICURIO_VERSION: Final = "3.0.9"
"""The newest line that runs on Java 17, as Kafka does."""

_ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{APICURIO_VERSION}:tar.gz:all"
_ARCHIVE: Final = f"apicurio-registry-app-{APICURIO_VERSION}-all.tar.gz"
_JAR: Final = f"apicurio-registry-app-{APICURIO_VERSION}-runner.jar"
# Later versions of the plugin also read the artifact's parent pom, which is not published.
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:2.10"
_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_HOST: Final = "127.0.0.1"
_START_TIMEOUT_S: Final = 90.0
_POLL_S: Final = 0.1
_EXCERPT_BYTES: Final = 4_000


class RegistryStartError(EngramError):
    """The local registry did not come up; the message ends with what its log says."""


class LocalSchemaRegistry:
    """Apicurio on a random port of 127.0.0.1, speaking Confluent's REST interface at ``url``; nothing is stored.

    Use it as a context manager. It dies with the process that started it, however that ends.

    Args:
        say: gets a line of progress where something takes long.
    """

    def __init__(self, say: Callable[[str], None] = say_on_stderr) -> None:
        self._say = say
        self._port = free_ports(1)[0]
        self._guard: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    @property
    def url(self) -> str:
        """Base URL for clients of Confluent's registry."""
        return f"http://{_HOST}:{self._port}/apis/ccompat/v7"

    def start(self) -> Self:
        """Start it and wait until it answers.

        Raises:
            ConfigurationError: no Java, or no Maven to fetch the registry with.
            UnreachableError: Maven could not fetch it.
            RegistryStartError: it did not come up.
        """
        jar = registry_folder(self._say) / _JAR
        self._folder = Path(tempfile.mkdtemp(prefix="engram-registry-"))
        options = (*_OPTIONS, f"-Dquarkus.http.host={_HOST}", f"-Dquarkus.http.port={self._port}")
        command, log = [find_java(), *options, "-jar", str(jar)], self._folder / "registry.log"
        self._guard = subprocess.Popen(
            [sys.executable, "-I", guard.__file__, str(self._folder), str(log), json.dumps([command])],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._wait_until_ready(self._guard)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End it and forget everything registered. May be called again."""
        process, self._guard = self._guard, None
        if process is not None and process.stdin is not None:
            process.stdin.close()  # the guard kills the JVM and removes the folder
            process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RegistryStartError(f"the local registry did not come up; its log ends with:\n{self._log_end()}")
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as response:  # noqa: S310 - our own URL
                return bool(response.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def _log_end(self) -> str:
        log = (self._folder or Path()) / "registry.log"
        return log.read_bytes()[-_EXCERPT_BYTES:].decode(errors="replace") if log.is_file() else ""


def registry_folder(say: Callable[[str], None] = say_on_stderr) -> Path:
    """Return the folder of the unpacked registry; fetch it with Maven when it is not there yet.

    Processes that come at the same time wait for the one that fetches. The folder appears complete or not at all.

    Raises:
        ConfigurationError: it is not cached and there is no ``mvn``.
        UnreachableError: Maven could not fetch it.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    cache = (Path(base) if base else Path.home() / ".cache") / "engram-stream"
    folder = cache / f"apicurio-{APICURIO_VERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(folder, say)
    return folder


def _fetch(folder: Path, say: Callable[[str], None]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigurationError(
            f"mvn is not on the PATH, and it has to fetch Apicurio {APICURIO_VERSION} into {folder} once; install it "
            "with `apt-get install --no-install-recommends maven` (macOS: `brew install maven`)"
        )
    say(f"fetching the registry Apicurio {APICURIO_VERSION} with Maven, once, about 110 MB, into {folder}")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as name:
        workspace = Path(name)
        command = [maven, "--batch-mode", f"{_PLUGIN}:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={name}"]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=name
        )
        archive = workspace / _ARCHIVE
        if done.returncode != 0 or not archive.is_file():
            tail = "\n".join(line for line in done.stdout.splitlines() if "ERROR" in line)[:2000]
            raise UnreachableError(
                f"mvn could not fetch Apicurio {APICURIO_VERSION} (exit {done.returncode}); "
                f"check the network and the mirrors of ~/.m2/settings.xml\n{tail}"
            )
        with tarfile.open(archive) as packed:
            packed.extractall(workspace / "unpacked", filter="data")
        (workspace / "unpacked").rename(folder)
    say("fetched")
