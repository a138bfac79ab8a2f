"""The Avro form of a manifest (record ReplayManifest of the turns schema), to and from the same model.

Names and nesting are those of the JSON form. What differs: ``format`` and ``algorithm`` are implied, missing is null,
an artifact is one record for all its forms, its ``value`` is a JSON text, and callsComplete has three symbols.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from workers.errors import EngramError
from workers.processing.fidelity.canonical import canonical
from workers.processing.fidelity.issues import ARTIFACT_KEYS, Issues
from workers.processing.fidelity.jsontext import Json
from workers.processing.fidelity.leaves import CONTRACT, Unlisted, ValueText
from workers.processing.fidelity.manifest import ArtifactBase, Closed, RuntimeManifest, Tools, ValueArtifact
from workers.processing.fidelity.parsing import validate

_FROM_SYMBOL: Final[Mapping[object, bool]] = {"complete": True, "incomplete": False}
_TO_SYMBOL: Final[Mapping[bool | str, str]] = {True: "complete", False: "incomplete", "unknown": "unknown"}


class NotRepresentableError(EngramError, ValueError):
    """A manifest holds text that Avro cannot hold; the message names the field."""


def parse_avro(record: Mapping[str, Any]) -> RuntimeManifest | Issues:
    """Read a manifest as it was decoded with its *writer's* schema, unprojected.

    A field that the contract does not know is an ``unknown_field`` unless it is null, an unknown symbol is a
    ``bad_enum``. Returns the manifest, or all issues in the order of the contract, with the paths of the JSON form.

    Source: engram.replay-runtime v2, the Avro form.
    """
    return validate(_root(record))


def to_avro(manifest: RuntimeManifest) -> dict[str, Any]:
    """Return the record that `parse_avro` reads as the same manifest; values become canonical JSON text.

    Raises:
        NotRepresentableError: a text outside an artifact's value holds a lone surrogate.
    """
    record = _object(manifest, "")
    del record["format"]
    return record


def _root(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = _present(record)
    fields["format"] = Unlisted() if "format" in fields else CONTRACT
    for key in ("source", "sideEffects"):
        _replace(fields, key, _present)
    _replace(fields, "environment", _environment)
    for key in ("prompts", "model"):
        _replace(fields, key, _with_artifacts)
    _replace(fields, "retrieval", _retrieval)
    _replace(fields, "tools", _tools)
    return fields


def _replace(fields: dict[str, Any], key: str, read: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    found = fields.get(key)
    if isinstance(found, dict):
        fields[key] = read(found)


def _present(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}


def _environment(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = _present(record)
    _replace(fields, "runtime", _present)
    return fields


def _retrieval(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = _with_artifacts(record)
    _replace(fields, "corpus", _present)
    return fields


def _tools(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = _present(record)
    for key in ("definitions", "calls"):
        items = fields.get(key)
        if isinstance(items, list):
            fields[key] = [_with_artifacts(item) if isinstance(item, dict) else item for item in items]
    if "callsComplete" in fields:
        fields["callsComplete"] = _calls_complete(fields["callsComplete"])
    return fields


def _calls_complete(symbol: object) -> bool | str | None:
    if not isinstance(symbol, str):
        return None
    return _FROM_SYMBOL.get(symbol, symbol)


def _with_artifacts(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _artifact(value) if key in ARTIFACT_KEYS and isinstance(value, dict) else value
        for key, value in record.items()
        if value is not None
    }


def _artifact(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = _present(record)
    if "value" in fields:
        fields["value"] = ValueText(fields["value"])
    if "algorithm" in fields:
        if fields.get("capture") == "hash":
            fields["algorithm"] = Unlisted()
    elif fields.get("capture") == "hash":
        fields["algorithm"] = "sha256"
    return fields


def _avro(value: object, path: str) -> object:
    if isinstance(value, ArtifactBase):
        return _artifact_record(value, path)
    if isinstance(value, Closed):
        return _object(value, path)
    if isinstance(value, tuple):
        return [_avro(item, f"{path}/{index}") for index, item in enumerate(value)]
    return _utf8(value, path) if isinstance(value, str) else value


def _object(model: Closed, path: str) -> dict[str, Any]:
    fields = ((field.alias or name, getattr(model, name)) for name, field in type(model).model_fields.items())
    record = {key: _avro(value, f"{path}/{key}") for key, value in fields}
    if isinstance(model, Tools):
        record["callsComplete"] = _TO_SYMBOL[model.calls_complete]
    return record


def _artifact_record(artifact: ArtifactBase, path: str) -> dict[str, Any]:
    reason = getattr(artifact, "reason", None)
    return {
        "capture": artifact.capture,
        "provenance": artifact.provenance,
        "sha256": getattr(artifact, "sha256", None),
        "reason": None if reason is None else _utf8(reason, f"{path}/reason"),
        "value": _value_text(artifact.value) if isinstance(artifact, ValueArtifact) else None,
    }


def _value_text(value: Json) -> str:
    exact = canonical(value.parsed)
    return json.dumps(value.parsed, separators=(",", ":")) if exact is None else exact.decode("utf-8")


def _utf8(text: str, path: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise NotRepresentableError(
            f"{path}: the text holds a lone surrogate, which Avro strings cannot; replace it before sending"
        ) from None
    return text
