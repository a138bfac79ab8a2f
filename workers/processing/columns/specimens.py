"""Small manifests in the Avro form, on which the reference is asked what holds for all that look alike."""

from __future__ import annotations

from typing import Any, Final

from workers.processing.fidelity import RuntimeManifest, parse_avro

CAPTURES: Final = ("value", "hash", "absent", "unavailable")
PROVENANCES: Final = ("observed", "declared", "mapped", "unknown")
DETERMINISMS: Final = ("guaranteed", "best_effort", "not_guaranteed", "unknown")
CAPTURE_METHODS: Final = ("native", "export", "adapter", "manual", "unknown")
TOOL_MODES: Final = ("not_used", "execute", "recorded_outputs", "unknown")
RETRIEVAL_MODES: Final = ("not_used", "rerun", "recorded_outputs", "unknown")
CALLS_COMPLETE: Final = ("complete", "incomplete", "unknown")
"""Symbols of the turns schema in its order: the code of a symbol in a column is its position."""

DIGEST: Final = "0" * 64
_FORMS: Final = {
    "value": {"value": "0"},
    "hash": {"sha256": DIGEST},
    "absent": {"reason": "none"},
    "unavailable": {"reason": "none"},
}


def artifact(capture: str, provenance: str = "observed", **form: str | None) -> dict[str, Any]:
    """Return an artifact of a valid form; fields in ``form`` replace its own."""
    return {
        "capture": capture,
        "provenance": provenance,
        "sha256": None,
        "reason": None,
        "value": None,
        **_FORMS[capture],
        **form,
    }


def call(name: str, tool: str, **artifacts: dict[str, Any] | None) -> dict[str, Any]:
    """Return a call of ``tool`` with observed values."""
    return {
        "callId": name,
        "toolName": tool,
        "input": artifact("value"),
        "output": artifact("value"),
        "error": None,
        **artifacts,
    }


def manifest(**sections: dict[str, Any]) -> dict[str, Any]:
    """Return a valid manifest without any gap; ``sections`` replace single fields of its records."""
    plain: dict[str, Any] = {
        "version": 2,
        "id": "specimen",
        "capturedAt": "2000-01-01T00:00Z",
        "source": {
            "provenance": "observed",
            "captureMethod": "native",
            "traceId": "trace",
            "spanId": None,
            "provider": None,
            "format": None,
            "sourceHash": DIGEST,
        },
        "sideEffects": {
            "isolation": "none",
            "network": "none",
            "filesystem": "none",
            "externalServices": "none",
            "notes": None,
        },
        "environment": {
            "codeVersion": "1",
            "runtime": {"name": "runtime", "version": "1"},
            "dependencyLockHash": DIGEST,
            "configurationHash": DIGEST,
            "containerImageDigest": "image",
        },
        "model": {
            "determinism": "guaranteed",
            "provider": "provider",
            "name": "model",
            "parameters": artifact("value"),
            "seed": artifact("value"),
        },
        "retrieval": {
            "replayMode": "not_used",
            "determinism": "guaranteed",
            "corpus": {"version": "1", "hash": None},
            "configuration": artifact("value"),
            "output": artifact("value"),
        },
        "tools": {
            "replayMode": "not_used",
            "callsComplete": "complete",
            "determinism": "guaranteed",
            "definitions": [{"name": "tool", "definition": artifact("value")}],
            "calls": [],
        },
        "prompts": {
            "system": artifact("value"),
            "developer": artifact("value"),
            "input": artifact("value"),
        },
    }
    return plain | {name: plain[name] | fields for name, fields in sections.items()}


def read_manifest(**sections: dict[str, Any]) -> RuntimeManifest:
    """Return `manifest` as the reference reads it; it must be valid."""
    return read_valid(manifest(**sections))


def read_valid(record: dict[str, Any]) -> RuntimeManifest:
    """Return a manifest that was made to be valid as the reference reads it."""
    read = parse_avro(record)
    if not isinstance(read, RuntimeManifest):
        raise TypeError("a manifest made by the column path is not valid; correct workers.processing.columns")
    return read
