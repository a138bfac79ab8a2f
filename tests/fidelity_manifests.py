"""Manifests for tests: one that is exact, edits of it, the Avro form through the published schema, and a generator."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Mapping
from typing import Any, Final

import fastavro
from hypothesis import strategies as st

from workers.processing.fidelity import Issues, RuntimeManifest, parse_json
from workers.resources import resource_folder

DIGEST: Final = "a" * 64
REMOVED: Final = object()


def _manifest_schema() -> dict[str, Any]:
    turn = json.loads((resource_folder("schemas") / "turns" / "v1.avsc").read_text(encoding="utf-8"))
    [manifest] = [field["type"][1] for field in turn["fields"] if field["name"] == "manifest"]
    found: dict[str, Any] = {**manifest, "namespace": "engram"}
    return found


MANIFEST_SCHEMA: Final = _manifest_schema()
_PARSED_SCHEMA: Final = fastavro.parse_schema(copy.deepcopy(MANIFEST_SCHEMA))


def artifact(capture: str, provenance: str = "observed", value: Any = 1) -> dict[str, Any]:
    """Return an artifact of one form, JSON form."""
    form: dict[str, dict[str, Any]] = {
        "value": {"value": value},
        "hash": {"algorithm": "sha256", "sha256": DIGEST},
        "absent": {"reason": "there was none"},
        "unavailable": {"reason": "not kept"},
    }
    return {"capture": capture, "provenance": provenance, **form[capture]}


def call(call_id: str = "c", tool: str = "t", **artifacts: Any) -> dict[str, Any]:
    """Return one call of a tool with observed values."""
    return {"callId": call_id, "toolName": tool, "input": artifact("value"), "output": artifact("value"), **artifacts}


def exact(mode: str = "run") -> dict[str, Any]:
    """Return a manifest at level exact which uses tools and retrieval: ``run`` again, or from what is ``recorded``."""
    return {
        "format": "engram.replay-runtime",
        "version": 2,
        "id": "m-1",
        "capturedAt": "2026-07-14T12:00:00.000Z",
        "source": {"traceId": "t", "sourceHash": DIGEST, "provenance": "observed", "captureMethod": "native"},
        "prompts": {"input": artifact("value"), "system": artifact("value"), "developer": artifact("absent")},
        "model": {
            "provider": "p",
            "name": "n",
            "parameters": artifact("value", value={"temperature": 0}),
            "seed": artifact("value", value=7),
            "determinism": "guaranteed",
        },
        "tools": {
            "replayMode": "execute" if mode == "run" else "recorded_outputs",
            "definitions": [{"name": "t", "definition": artifact("value")}],
            "calls": [call()],
            "callsComplete": True,
            "determinism": "guaranteed",
        },
        "retrieval": {
            "replayMode": "rerun" if mode == "run" else "recorded_outputs",
            "configuration": artifact("value"),
            "output": artifact("value"),
            "corpus": {"version": "7"},
            "determinism": "guaranteed",
        },
        "environment": {
            "codeVersion": "1",
            "runtime": {"name": "python", "version": "3"},
            "dependencyLockHash": DIGEST,
            "configurationHash": DIGEST,
            "containerImageDigest": "sha256:1",
        },
        "sideEffects": {
            "isolation": "isolated",
            "network": "blocked",
            "filesystem": "sandboxed",
            "externalServices": "stubbed",
        },
    }


def edited(manifest: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with values set, or `REMOVED`, at dotted paths."""
    copied: dict[str, Any] = copy.deepcopy(dict(manifest))
    for path, value in changes.items():
        *parents, last = path.split(".")
        target: Any = copied
        for parent in parents:
            target = target[int(parent)] if isinstance(target, list) else target[parent]
        if value is REMOVED:
            del target[last]
        else:
            target[int(last) if isinstance(target, list) else last] = value
    return copied


def parsed(manifest: Mapping[str, Any]) -> RuntimeManifest:
    """Parse a manifest that must be valid."""
    result = parse_json(json.dumps(manifest))
    assert isinstance(result, RuntimeManifest), result
    return result


def issues(document: Mapping[str, Any] | str | bytes) -> list[tuple[str, str]]:
    """Parse a manifest that must be invalid; return its issues as (path, code)."""
    result: RuntimeManifest | Issues = parse_json(
        document if isinstance(document, str | bytes) else json.dumps(document)
    )
    assert not isinstance(result, RuntimeManifest), "the manifest is valid"
    return [(path, code.value) for path, code in result]


def through_avro(record: Mapping[str, Any], schema: Any = None) -> dict[str, Any]:
    """Encode and decode a manifest record, by default with the published schema."""
    used = _PARSED_SCHEMA if schema is None else fastavro.parse_schema(copy.deepcopy(schema))
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, used, record, strict_allow_default=True)
    buffer.seek(0)
    decoded: Any = fastavro.schemaless_reader(buffer, used, None)
    assert isinstance(decoded, dict)
    return decoded


_PROVENANCES: Final = st.sampled_from(["observed", "observed", "observed", "declared", "mapped", "unknown"])
_DETERMINISMS: Final = st.sampled_from(["guaranteed", "best_effort", "not_guaranteed", "unknown"])
_NAMES: Final = st.sampled_from(["a", "b", "a.b", "größe", " ", "a/~b", "__proto__", "\U0001f600", "\u2028"])
_TEXTS: Final = st.one_of(_NAMES, st.text(st.characters(codec="utf-8"), min_size=1, max_size=8))
_DIGESTS: Final = st.text("0123456789abcdefABCDEF", min_size=64, max_size=64)
_VALUES: Final = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([10**30, -(2**60), 0.1, 1e300, -0.0]),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=6),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)


def artifacts() -> st.SearchStrategy[dict[str, Any]]:
    """Generate artifacts of every form and provenance."""
    value = st.fixed_dictionaries(
        {"capture": st.just("value"), "provenance": _PROVENANCES, "value": _VALUES}, optional={"sha256": _DIGESTS}
    )
    hashed = st.fixed_dictionaries(
        {
            "capture": st.just("hash"),
            "provenance": _PROVENANCES,
            "algorithm": st.just("sha256"),
            "sha256": _DIGESTS,
        }
    )
    noted = st.fixed_dictionaries(
        {"capture": st.sampled_from(["absent", "unavailable"]), "provenance": _PROVENANCES, "reason": _TEXTS}
    )
    return st.one_of(value, value, hashed, noted)


def _effects(isolated: str) -> st.SearchStrategy[str]:
    return st.sampled_from(["none", isolated, isolated, "recorded_and_stubbed", "live", "unknown"])


def manifests() -> st.SearchStrategy[dict[str, Any]]:
    """Generate valid manifests in the JSON form, names and call ids repeating."""
    modes = ["not_used", "recorded_outputs", "unknown"]
    return st.fixed_dictionaries(
        {
            "format": st.just("engram.replay-runtime"),
            "version": st.sampled_from([2, 2.0]),
            "id": _TEXTS,
            "capturedAt": st.sampled_from(
                ["2000-02-29T00:00Z", "0000-02-29T23:59:59Z", "9999-12-31T00:00:00.123456789Z"]
            ),
            "source": st.fixed_dictionaries(
                {
                    "provenance": _PROVENANCES,
                    "captureMethod": st.sampled_from(["native", "export", "adapter", "manual", "unknown"]),
                },
                optional={
                    "traceId": _TEXTS,
                    "spanId": _TEXTS,
                    "provider": _TEXTS,
                    "format": _TEXTS,
                    "sourceHash": _DIGESTS,
                },
            ),
            "prompts": st.fixed_dictionaries({"input": artifacts(), "system": artifacts(), "developer": artifacts()}),
            "model": st.fixed_dictionaries(
                {"parameters": artifacts(), "seed": artifacts(), "determinism": _DETERMINISMS},
                optional={"provider": _TEXTS, "name": _TEXTS},
            ),
            "tools": st.fixed_dictionaries(
                {
                    "replayMode": st.sampled_from(["execute", *modes]),
                    "definitions": st.lists(
                        st.fixed_dictionaries({"name": _NAMES, "definition": artifacts()}), max_size=3
                    ),
                    "calls": st.lists(
                        st.fixed_dictionaries(
                            {"callId": _NAMES, "toolName": _NAMES, "input": artifacts(), "output": artifacts()},
                            optional={"error": artifacts()},
                        ),
                        max_size=3,
                    ),
                    "callsComplete": st.sampled_from([True, False, "unknown"]),
                    "determinism": _DETERMINISMS,
                }
            ),
            "retrieval": st.fixed_dictionaries(
                {
                    "replayMode": st.sampled_from(["rerun", *modes]),
                    "configuration": artifacts(),
                    "output": artifacts(),
                    "determinism": _DETERMINISMS,
                },
                optional={"corpus": st.fixed_dictionaries({}, optional={"version": _TEXTS, "hash": _DIGESTS})},
            ),
            "environment": st.fixed_dictionaries(
                {},
                optional={
                    "codeVersion": _TEXTS,
                    "runtime": st.fixed_dictionaries({"name": _TEXTS, "version": _TEXTS}),
                    "dependencyLockHash": _DIGESTS,
                    "configurationHash": _DIGESTS,
                    "containerImageDigest": _TEXTS,
                },
            ),
            "sideEffects": st.fixed_dictionaries(
                {
                    "isolation": _effects("isolated"),
                    "network": _effects("blocked"),
                    "filesystem": _effects("sandboxed"),
                    "externalServices": _effects("stubbed"),
                },
                optional={"notes": st.lists(_TEXTS, max_size=2)},
            ),
        }
    )
