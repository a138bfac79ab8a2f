"""Field rules of decoded records: what is dead-lettered although it decodes.

A missing or odd part of a fingerprint or a manifest is never a reason; it is judged later.

Source: docs/producer-guide.md, "Limits" and "Ids"; docs/reasons.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from workers.processing.state_write_kinds import KINDS, ScopeType
from workers.reasons import Reason, Rejection

MAX_ID: Final = 200
MAX_USER_KEY: Final = 200
MAX_TEXT: Final = 1_000
MAX_CONTENT_TEXT: Final = 200_000
MAX_MEMORIES: Final = 200
MAX_EVENTS: Final = 500
"""Limits in characters and items; content texts are the texts of messages, memories and events."""

_STAGE: Final = "validate"
_TENANT: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SCOPE_TYPES: Final = frozenset(ScopeType)
_TURN_TEXTS: Final = ("provider_id",)
_PRODUCER_TEXTS: Final = ("service", "region", "build_id", "instance_id", "sdk", "sdk_version", "path")
_SNAPSHOT_TEXTS: Final = ("ref", "sha256")
_PART_TEXTS: Final = ("ref", "sha256")
_MEMORY_TEXTS: Final = ("id", "store", "sha256")
_EVENT_TEXTS: Final = ("type", "ref")


def is_tenant(value: str) -> bool:
    """Whether ``value`` may name a tenant: 1 to 64 of ``A-Z a-z 0-9 . _ -``."""
    return _TENANT.fullmatch(value) is not None


def is_id(value: str) -> bool:
    """Whether ``value`` may be a conversation or turn id: 1 to 200 characters, none of them a control character."""
    return 1 <= len(value) <= MAX_ID and _CONTROL.search(value) is None


def validate_turn(turn: Mapping[str, Any]) -> Rejection | None:
    """Return why the decoded turn is dead-lettered, None where it is processed."""
    if not is_tenant(turn["tenant"]):
        return _invalid("tenant")
    for name in ("conversation_id", "turn_id"):
        if not is_id(turn[name]):
            return _invalid(name)
    if turn["assembled_at"] is None and turn["completed_at"] is None:
        return Rejection(Reason.MISSING_EVENT_TIME, _STAGE)
    over = next(_over_limit(turn), None)
    if over is not None:
        return Rejection(Reason.LIMIT_EXCEEDED, _STAGE, over)
    snapshot = turn["snapshot"]
    if snapshot is not None and snapshot["ref"] is not None and snapshot["expires_at"] is None:
        return _invalid("snapshot.expires_at")
    return None


def validate_state_write(write: Mapping[str, Any]) -> Rejection | None:
    """Return why the decoded state write is dead-lettered, None where it is processed."""
    if not is_tenant(write["tenant"]):
        return _invalid("tenant")
    for name in ("record_id", "scope_id"):
        if not write[name]:
            return _invalid(name)
    if write["scope_type"] not in _SCOPE_TYPES:
        return _invalid("scope_type")
    if write["scope_type"] == ScopeType.CONVERSATION and not is_id(write["scope_id"]):
        return _invalid("scope_id")
    kind = KINDS.get(write["kind"])
    if kind is None:
        return Rejection(Reason.UNKNOWN_KIND, _STAGE, "kind")
    if write["seq"] is not None and write["seq"] < 1:
        return _invalid("seq")
    if kind.payload is not None and write[kind.payload] is None:
        return _invalid(kind.payload)
    return None


def _invalid(field: str) -> Rejection:
    return Rejection(Reason.INVALID_RECORD, _STAGE, field)


def _over_limit(turn: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a turn that are over their limit; fingerprint and manifest have limits of their own."""
    yield from _long(turn, ("user_key",), MAX_USER_KEY)
    yield from _long(turn, _TURN_TEXTS, MAX_TEXT)
    yield from _long(turn["producer"], _PRODUCER_TEXTS, MAX_TEXT, "producer.")
    if turn["snapshot"] is not None:
        yield from _long(turn["snapshot"], _SNAPSHOT_TEXTS, MAX_TEXT, "snapshot.")
    if turn["content"] is not None:
        yield from _content_over_limit(turn["content"])


def _content_over_limit(content: Mapping[str, Any]) -> Iterator[str]:
    if len(content["memories"]) > MAX_MEMORIES:
        yield "content.memories"
    if len(content["events"]) > MAX_EVENTS:
        yield "content.events"
    for name in ("user_message", "reply"):
        if content[name] is not None:
            yield from _long(content[name], ("text",), MAX_CONTENT_TEXT, f"content.{name}.")
            yield from _long(content[name], _PART_TEXTS, MAX_TEXT, f"content.{name}.")
    for memory in content["memories"]:
        yield from _long(memory, ("text",), MAX_CONTENT_TEXT, "content.memories.")
        yield from _long(memory, _MEMORY_TEXTS, MAX_TEXT, "content.memories.")
    for event in content["events"]:
        yield from _long(event, ("data",), MAX_CONTENT_TEXT, "content.events.")
        yield from _long(event, _EVENT_TEXTS, MAX_TEXT, "content.events.")


def _long(record: Mapping[str, Any], names: tuple[str, ...], limit: int, prefix: str = "") -> Iterator[str]:
    for name in names:
        value = record[name]
        if value is not None and len(value) > limit:
            yield prefix + name
