"""The kinds of state writes: one closed table.

Source: docs/concepts/state-writes.md, "Kinds".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from workers.keys import encode_key


class ScopeType(StrEnum):
    """What a state write belongs to."""

    CONVERSATION = "conversation"
    DEFINITION = "definition"
    CONFIG = "config"
    MEMORY = "memory"


class Kind(NamedTuple):
    """A kind of state write: its name, the payload record it must carry (None where it carries none), its effect."""

    name: str
    payload: str | None
    effect: str


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("conversation_started", "state", "Anchors a new conversation with full counts."),
        Kind("conversation_snapshot", "state", "Anchors a conversation with full counts."),
        Kind("fact_written", None, "Adds 1 to the facts."),
        Kind("fact_deleted", None, "Takes 1 from the facts."),
        Kind("fact_expired", None, "Takes 1 from the facts."),
        Kind("fact_updated", None, "Leaves the counts alone."),
        Kind("history_appended", None, "Changes the history count."),
        Kind("history_truncated", None, "Changes the history count."),
        Kind("summary_rebuilt", None, "Adds 1 to the summary depth, or sets it to depth_after."),
        Kind("summary_cleared", None, "Sets the summary depth to 0."),
        Kind("memory_approved", "memory", "Changes the active memories of the scope."),
        Kind("memory_superseded", "memory", "Changes the active memories of the scope."),
        Kind("memory_expired", "memory", "Changes the active memories of the scope."),
        Kind("memory_imported", "memory", "Changes the active memories of the scope."),
        Kind("memory_migrated", "memory", "Changes the active memories of the scope."),
        Kind("memory_erased", "memory", "Changes the active memories of the scope."),
        Kind("definition_activated", "activation", "Activates a version of a definition."),
        Kind("definition_retired", "activation", "Retires a version of a definition."),
        Kind("conversation_repinned", "pin", "Moves a conversation to another version of its definition."),
        Kind("state_shape_migrated", "state", "Sets shape and counts."),
        Kind("moderation_changed", "change", "Records a change of the moderation configuration."),
        Kind("model_changed", "change", "Records a change of the model."),
        Kind("conversation_erased", None, "Empties the state of the conversation."),
    )
}


def scope_key(write: Mapping[str, Any]) -> bytes:
    """Return the key that a valid ``write`` must carry: its conversation's, or that of its other scope."""
    tenant, scope_type, scope_id = write["tenant"], write["scope_type"], write["scope_id"]
    if scope_type == ScopeType.CONVERSATION:
        return encode_key(tenant, scope_id)
    if scope_type == ScopeType.MEMORY:
        memory = write["memory"]
        return encode_key(tenant, "mem", memory["scope"] if memory is not None else "", scope_id)
    return encode_key(tenant, "def" if scope_type == ScopeType.DEFINITION else "cfg", scope_id)
