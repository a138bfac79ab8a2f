"""The policy file: read at the start, watched between batches, never half applied.

Source: docs/policy.md, "Changing the policy".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from workers.errors import ConfigurationError
from workers.processing.policy import Policy

MAX_BYTES: Final = 262_144
"""Largest policy file."""
POLL_SECONDS: Final = 1.0
"""The file is looked at no more often than this."""

_logger = logging.getLogger(__name__)


class Reload(StrEnum):
    """What became of an edit."""

    APPLIED = "applied"
    REFUSED = "refused"


class _Signature(NamedTuple):
    """What tells an edit. Follows links: a ConfigMap is updated by turning a link to another folder."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


def utc_today() -> date:
    """Return the day it is, UTC."""
    return datetime.now(UTC).date()


class PolicyFile:
    """The policy in force. One thread polls; `current` may be called from any."""

    __slots__ = ("_clock", "_looked_at", "_path", "_policy", "_signature", "_today")

    def __init__(
        self,
        path: Path | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], date] = utc_today,
    ) -> None:
        """Load ``path``; None stands for no file: the defaults, for good.

        ``clock`` is monotonic, in seconds; ``today`` is the day in UTC.

        Raises:
            ConfigurationError: the file is missing, unreadable or wrong; the message says what and where.
        """
        self._path = path
        self._clock = clock
        self._today = today
        self._looked_at = clock()
        # The signature is taken before reading: an edit in between is seen at the next look.
        self._signature = _signature_of(path) if path else None
        self._policy = load_policy(path, today()) if path else Policy()

    def current(self) -> Policy:
        """Return the policy in force."""
        return self._policy

    def poll(self) -> Reload | None:
        """Apply an edit if there is one; call it between batches. None: nothing to do, or looked within a second.

        A broken edit, or a file that has gone, is refused once and logged as an error; what was in force stays.
        """
        if self._path is None or self._clock() - self._looked_at < POLL_SECONDS:
            return None
        self._looked_at = self._clock()
        signature = _signature_of(self._path)
        if signature == self._signature:
            return None
        self._signature = signature
        before = self._policy.version
        try:
            self._policy = load_policy(self._path, self._today())
        except ConfigurationError as error:
            problem = str(error)
        else:
            _logger.info("policy %s applied: version %s replaces %s", self._path, self._policy.version, before)
            return Reload.APPLIED
        _logger.error("policy edit refused, version %s stays in force: %s", before, problem)
        return Reload.REFUSED


def load_policy(path: Path, today: date) -> Policy:
    """Return the policy in the file ``path``, as of ``today`` (UTC).

    Raises:
        ConfigurationError: the file is missing, unreadable or wrong; the message says what and where.
    """
    return Policy.from_data(_parse(_read(path), path), str(path), today)


def _signature_of(path: Path) -> _Signature | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return _Signature(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _read(path: Path) -> str:
    if not path.is_file():
        raise ConfigurationError(f"policy {path}: there is no such file; correct `policy.file` or put it there")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"policy {path}: cannot be read ({error.strerror}); correct its permissions") from None
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"policy {path}: is larger than {MAX_BYTES} bytes; shorten it")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"policy {path}: is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _parse(text: str, path: Path) -> object:
    try:
        return _StrictLoader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the file"
        raise ConfigurationError(f"policy {path}: {place}: {error.problem}; correct the YAML") from None
    except yaml.YAMLError:
        raise ConfigurationError(f"policy {path}: holds a character that YAML forbids; remove it") from None
    except RecursionError:
        raise ConfigurationError(f"policy {path}: is nested too deeply; a policy needs four levels") from None
    except ValueError:
        raise ConfigurationError(f"policy {path}: holds an impossible date or number; correct or quote it") from None


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML without aliases, which a few lines can unfold into gigabytes, and without repeated keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.get_mark()
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed; write the value out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen = set[str]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key must be text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, "this key stands here twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)
