"""Logical types are dropped before fastavro sees a schema: dates then stay raw integers, and no extreme overflows."""

from __future__ import annotations

from typing import Any


def without_logical_types(node: Any) -> Any:  # JSON in, JSON out
    """Return the schema ``node`` (parsed JSON) without any ``logicalType``; field defaults are left alone."""
    if isinstance(node, list):
        return [without_logical_types(branch) for branch in node]
    if not isinstance(node, dict):
        return node
    stripped = {key: value for key, value in node.items() if key not in {"logicalType", "precision", "scale"}}
    for key in ("type", "items", "values"):
        if key in stripped:
            stripped[key] = without_logical_types(stripped[key])
    if isinstance(stripped.get("fields"), list):
        stripped["fields"] = [without_logical_types(field) for field in stripped["fields"]]
    return stripped
