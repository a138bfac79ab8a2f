"""Replay manifests of generated turns: shapes of evidence whose fidelity level is known beforehand.

The levels follow docs/concepts/replay-fidelity.md; each shape starts from a manifest that replays exactly and takes
something away.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from hashlib import sha256
from random import Random
from typing import Any, Final, NamedTuple

from workers.testing.traffic.fleet import Definition, Service

Manifest = dict[str, Any]
Level = str


class Shape(NamedTuple):
    """One shape of evidence, its fidelity level, its share of turns (relative), and what it changes."""

    name: str
    level: Level
    weight: float
    change: Callable[[Manifest], None]


def digest(text: str) -> str:
    """Return the SHA-256 of ``text`` in hexadecimal."""
    return sha256(text.encode()).hexdigest()


def _artifact(capture: str, provenance: str = "observed", **form: str) -> dict[str, Any]:
    return {"capture": capture, "provenance": provenance, "sha256": None, "reason": None, "value": None} | form


def value(content: object, provenance: str = "observed") -> dict[str, Any]:
    """Return a captured artifact; its JSON text is canonical for the plain strings, integers and objects used here."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return _artifact("value", provenance, value=text)


def _hash(text: str) -> dict[str, Any]:
    return _artifact("hash", sha256=digest(text))


def _absent(reason: str) -> dict[str, Any]:
    return _artifact("absent", reason=reason)


def _exact(service: Service, definition: Definition, version: str, model: tuple[str, str]) -> Manifest:
    """Return a manifest without any gap, for one configuration."""
    identity = f"{service.name}/{service.builds[-1]}"
    return {
        "version": 2,
        "id": "",
        "capturedAt": "",
        "source": {
            "provenance": "observed",
            "captureMethod": "native",
            "traceId": "",
            "spanId": None,
            "provider": model[0],
            "format": None,
            "sourceHash": digest(identity),
        },
        "sideEffects": {
            "isolation": "isolated",
            "network": "blocked",
            "filesystem": "sandboxed",
            "externalServices": "stubbed",
            "notes": None,
        },
        "environment": {
            "codeVersion": service.builds[-1],
            "runtime": {"name": "cpython", "version": "3.12.4"},
            "dependencyLockHash": digest(f"lock {identity}"),
            "configurationHash": digest(f"configuration {identity}"),
            "containerImageDigest": f"sha256:{digest(f'image {identity}')}",
        },
        "model": {
            "determinism": "guaranteed",
            "provider": model[0],
            "name": model[1],
            "parameters": value({"max_tokens": 800, "temperature": 0}),
            "seed": value(1234),
        },
        "retrieval": {
            "replayMode": "not_used",
            "determinism": "guaranteed",
            "corpus": None,
            "configuration": _absent("no retrieval"),
            "output": _absent("no retrieval"),
        },
        "tools": {
            "replayMode": "not_used",
            "callsComplete": "complete",
            "determinism": "guaranteed",
            "definitions": [],
            "calls": [],
        },
        "prompts": {
            "system": value(definition.prompt),
            "developer": value(f"{definition.id}@{version}"),
            "input": value(""),
        },
    }


def _with_retrieval(manifest: Manifest, mode: str, determinism: str = "guaranteed") -> None:
    manifest["retrieval"] = {
        "replayMode": mode,
        "determinism": determinism,
        "corpus": {"version": "harbours-2026-11", "hash": None},
        "configuration": value({"top_k": 4}),
        "output": value(["doc-118", "doc-204"]),
    }


def _with_tool(manifest: Manifest, mode: str, determinism: str = "guaranteed") -> None:
    manifest["tools"] = {
        "replayMode": mode,
        "callsComplete": "complete",
        "determinism": determinism,
        "definitions": [{"name": "search_flights", "definition": value({"type": "function"})}],
        "calls": [
            {
                "callId": "call-1",
                "toolName": "search_flights",
                "input": value({"from": "LIS", "to": "OSL"}),
                "output": value({"fares": [129, 174]}),
                "error": None,
            }
        ],
    }


def _best_effort(manifest: Manifest) -> None:
    manifest["model"]["determinism"] = "best_effort"
    manifest["model"]["seed"] = _absent("the provider takes no seed")


def _exact_tools(manifest: Manifest) -> None:
    _with_tool(manifest, "recorded_outputs")
    _with_retrieval(manifest, "recorded_outputs")


def _retrieval_rerun(manifest: Manifest) -> None:
    _best_effort(manifest)
    _with_retrieval(manifest, "rerun", "best_effort")


def _tools_executed(manifest: Manifest) -> None:
    _best_effort(manifest)
    _with_tool(manifest, "execute", "best_effort")


def _no_image(manifest: Manifest) -> None:
    manifest["environment"]["containerImageDigest"] = None


def _system_hash(manifest: Manifest) -> None:
    manifest["model"]["determinism"] = "not_guaranteed"
    manifest["prompts"]["system"] = _hash("system")


def _adapter(manifest: Manifest) -> None:
    _best_effort(manifest)
    manifest["source"]["captureMethod"] = "adapter"


def _parameters_hash(manifest: Manifest) -> None:
    _best_effort(manifest)
    manifest["model"]["parameters"] = _hash("parameters")


def _bare_environment(manifest: Manifest) -> None:
    _best_effort(manifest)
    manifest["environment"] |= {"dependencyLockHash": None, "configurationHash": None, "runtime": None}


def _tool_output_hash(manifest: Manifest) -> None:
    _best_effort(manifest)
    _with_tool(manifest, "recorded_outputs")
    manifest["tools"]["calls"][0]["output"] = _hash("fares")


def _retrieval_unknown(manifest: Manifest) -> None:
    _best_effort(manifest)
    _with_retrieval(manifest, "unknown", "unknown")


def _side_effects_unknown(manifest: Manifest) -> None:
    _best_effort(manifest)
    manifest["sideEffects"]["network"] = "unknown"


def _no_trace(manifest: Manifest) -> None:
    _best_effort(manifest)
    manifest["source"]["traceId"] = None


def _content_free(manifest: Manifest) -> None:
    _best_effort(manifest)
    manifest["prompts"]["input"] = _hash("input")


def _model_unnamed(manifest: Manifest) -> None:
    _best_effort(manifest)
    manifest["model"]["name"] = None


def _live(manifest: Manifest) -> None:
    _tools_executed(manifest)
    manifest["sideEffects"]["externalServices"] = "live"


SHAPES: Final = (
    Shape("exact_plain", "exact", 3, lambda manifest: None),
    Shape("exact_tools", "exact", 2, _exact_tools),
    Shape("best_effort", "controlled", 22, _best_effort),
    Shape("retrieval_rerun", "controlled", 10, _retrieval_rerun),
    Shape("tools_executed", "controlled", 6, _tools_executed),
    Shape("no_image", "controlled", 4, _no_image),
    Shape("system_hash", "controlled", 4, _system_hash),
    Shape("adapter", "controlled", 4, _adapter),
    Shape("parameters_hash", "partial", 8, _parameters_hash),
    Shape("bare_environment", "partial", 8, _bare_environment),
    Shape("tool_output_hash", "partial", 6, _tool_output_hash),
    Shape("retrieval_unknown", "partial", 5, _retrieval_unknown),
    Shape("side_effects_unknown", "partial", 4, _side_effects_unknown),
    Shape("no_trace", "partial", 2, _no_trace),
    Shape("content_free", "unreplayable", 4, _content_free),
    Shape("model_unnamed", "unreplayable", 1, _model_unnamed),
    Shape("live_side_effects", "unreplayable", 1, _live),
)
UNPROVEN_SHARE: Final = 0.02
"""Share of manifests whose tool calls are unproven: their gaps bear call ids, so no two such turns look alike."""
NO_MANIFEST_SHARE: Final = 0.04


def timestamp_text(milliseconds: int) -> str:
    """Return a time in milliseconds since the epoch in the manifest's notation."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


class ManifestMaker:
    """Draws manifests; the parts that do not vary from turn to turn are built once per configuration."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._cumulative = _cumulate(shape.weight for shape in SHAPES)
        self._built: dict[tuple[str, str, str, str], Manifest] = {}

    def draw(
        self,
        service: Service,
        definition: Definition,
        version: str,
        model: tuple[str, str],
        turn_id: str,
        captured_at: int,
        question: str,
    ) -> tuple[Manifest | None, Level | None]:
        """Return a manifest in the Avro form and its fidelity level; None and None for a turn without one."""
        if self._rng.random() < NO_MANIFEST_SHARE:
            return None, None
        unproven = self._rng.random() < UNPROVEN_SHARE
        shape = self._rng.choices(SHAPES, cum_weights=self._cumulative)[0]
        template = self._template(_UNPROVEN if unproven else shape, service, definition, version, model)
        source, prompts = template["source"], template["prompts"]
        manifest = template | {"id": f"man-{turn_id}", "capturedAt": timestamp_text(captured_at)}
        if source["traceId"] is not None:
            manifest["source"] = source | {"traceId": f"{self._rng.getrandbits(128):032x}"}
        if prompts["input"]["capture"] == "value":
            manifest["prompts"] = prompts | {"input": value(question)}
        if unproven:
            manifest["tools"], level = self._unproven_calls(template["tools"])
            return manifest, level
        return manifest, shape.level

    def _template(
        self, shape: Shape, service: Service, definition: Definition, version: str, model: tuple[str, str]
    ) -> Manifest:
        key = (shape.name, f"{service.name}/{definition.id}", version, model[1])
        if key not in self._built:
            manifest = copy.deepcopy(_exact(service, definition, version, model))
            shape.change(manifest)
            self._built[key] = manifest
        return self._built[key]

    def _unproven_calls(self, tools: Manifest) -> tuple[Manifest, Level]:
        """Return ``tools`` with one to three calls of unproven output; an unknown provenance makes it partial."""
        call = tools["calls"][0]
        provenances = self._rng.choices(("mapped", "unknown"), k=self._rng.randint(1, 3))
        calls = [
            call
            | {
                "callId": f"call-{self._rng.getrandbits(40):010x}",
                "output": call["output"] | {"provenance": provenance},
            }
            for provenance in provenances
        ]
        return tools | {"calls": calls}, "partial" if "unknown" in provenances else "controlled"


_UNPROVEN: Final = Shape("unproven", "", 0, lambda manifest: _with_tool(manifest, "recorded_outputs"))


def _cumulate(weights: Iterable[float]) -> list[float]:
    total, cumulated = 0.0, []
    for weight in weights:
        total += weight
        cumulated.append(total)
    return cumulated
