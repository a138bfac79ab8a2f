"""State writes of the generated deployment, as records of the ``state-writes`` schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from workers.keys import encode_key
from workers.testing.traffic.fleet import Definition

_OPTIONAL: Final = (
    "seq",
    "piece",
    "item_id",
    "item_digest",
    "count_after",
    "depth_after",
    "expires_at",
    "cause",
    "activation",
    "state",
    "pin",
    "change",
    "memory",
)
_SCOPE_KEYS: Final = {"definition": "def", "config": "cfg", "memory": "mem"}


def state_write(
    record_id: str, kind: str, t_e: int, scope: Mapping[str, str], writer: Mapping[str, str], **fields: object
) -> dict[str, Any]:
    """Return one state write with every field of the schema; ``scope`` holds tenant, scope_type and scope_id."""
    if unknown := fields.keys() - set(_OPTIONAL):
        raise TypeError(f"no such field: {sorted(unknown)}")
    return {
        "record_id": record_id,
        **scope,
        "kind": kind,
        "t_e": t_e,
        "writer": {"region": None, "build_id": None, "instance_id": None, "path": None} | dict(writer),
        **dict.fromkeys(_OPTIONAL),
        **fields,
    }


def activation(tenant: str, definition: Definition, service: str, at: int) -> dict[str, Any]:
    """Return the activation of the newest version of ``definition`` for one tenant, effective at once."""
    payload = {
        "activation_id": f"act-{definition.id}-{definition.versions[-1]}",
        "definition_id": definition.id,
        "version": definition.versions[-1],
        "effective_at": at,
        "tenants": [],
        "units": [{"service": service, "region": None}],
        "policy": "full",
        "weights": [],
        "stages": [],
        "grace_s": 300,
        "cache_ttl_s": None,
        "previous_versions": list(definition.versions[:-1]),
        "labels": [],
    }
    scope = {"tenant": tenant, "scope_type": "definition", "scope_id": definition.id}
    writer = {"service": "definition-registry"}
    return state_write(
        f"w-{tenant}-{payload['activation_id']}", "definition_activated", at, scope, writer, activation=payload
    )


def key_of(write: Mapping[str, Any]) -> bytes:
    """Return the record key of a state write: its scope."""
    if write["scope_type"] == "conversation":
        return encode_key(write["tenant"], write["scope_id"])
    return encode_key(write["tenant"], _SCOPE_KEYS[write["scope_type"]], write["scope_id"])
