"""A small manifest for each shape: what the reference grades in place of all manifests that look like it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from workers.processing.columns import specimens
from workers.processing.columns.shape import facts_of
from workers.processing.fidelity import RuntimeManifest

_TOOL = "tool"


class Kind(IntEnum):
    """What an artifact of the tool boundary is."""

    DEFINITION = 0
    INPUT = 1
    OUTPUT = 2


class Bearer(NamedTuple):
    """An artifact whose gap bears a name, by the codes of its capture and provenance."""

    kind: Kind
    capture: int
    provenance: int


def witness(code: int) -> RuntimeManifest:
    """Return a valid manifest of the shape ``code``.

    Raises:
        ValueError: no manifest has this shape.
    """
    return specimens.read_valid(witness_record(code))


def witness_record(code: int, bearers: Sequence[Bearer] = ()) -> dict[str, Any]:
    """Return the manifest of `witness` in the Avro form; errors are the same.

    It also has ``bearers``, in an order in which the definitions come first; the name of each is its `placeholder`.
    Their forms must be among those that the shape tells of, or the manifest has another shape.
    """
    facts = facts_of(code)
    _refuse_impossible(facts)
    record = specimens.manifest(
        source=_source(facts),
        sideEffects=_effects(facts),
        environment=_environment(facts),
        model=_model(facts),
        retrieval=_retrieval(facts),
        tools=_tools(facts),
        prompts={name: _artifact(facts[name]) for name in ("system", "developer", "input")},
    )
    for place, bearer in enumerate(bearers):
        _add(record["tools"], bearer, placeholder(place), _tool_called(facts))
    return record


def placeholder(place: int) -> str:
    """Return the name of the bearer at ``place``, which no field without it contains."""
    return f"{{{place}}}"


def _refuse_impossible(facts: dict[str, int]) -> None:
    in_calls = ("input_hash", "input_unavailable", "output_hash", "output_unavailable")
    if facts["capture_method"] >= len(specimens.CAPTURE_METHODS):
        raise ValueError("no capture method has this code")
    if facts["no_definitions"]:
        if facts["definition_hash"] or facts["definition_missing"]:
            raise ValueError("the form of a definition is told where there is none")
        if not facts["unmatched_call"] and any(facts[name] for name in in_calls):
            raise ValueError("without definitions every call is unmatched")


def _artifact(form: int) -> dict[str, Any]:
    provenance, capture = divmod(form, len(specimens.CAPTURES))
    return specimens.artifact(specimens.CAPTURES[capture], specimens.PROVENANCES[provenance])


def _if(fact: int, value: object) -> object:
    return value if fact else None


def _guaranteed(fact: int) -> str:
    return "guaranteed" if fact else "unknown"


def _source(facts: dict[str, int]) -> dict[str, Any]:
    return {
        "provenance": specimens.PROVENANCES[facts["source_provenance"]],
        "captureMethod": specimens.CAPTURE_METHODS[facts["capture_method"]],
        "traceId": _if(facts["trace_id"], "trace"),
        "sourceHash": _if(facts["source_hash"], specimens.DIGEST),
    }


def _effects(facts: dict[str, int]) -> dict[str, Any]:
    return {
        "isolation": "live" if facts["any_live"] else "none",
        "network": "unknown" if facts["any_unknown"] else "none",
    }


def _environment(facts: dict[str, int]) -> dict[str, Any]:
    return {
        "codeVersion": _if(facts["code_version"], "1"),
        "runtime": _if(facts["runtime"], {"name": "runtime", "version": "1"}),
        "dependencyLockHash": _if(facts["dependency_lock_hash"], specimens.DIGEST),
        "configurationHash": _if(facts["configuration_hash"], specimens.DIGEST),
        "containerImageDigest": _if(facts["container_image_digest"], "image"),
    }


def _model(facts: dict[str, int]) -> dict[str, Any]:
    return {
        "determinism": specimens.DETERMINISMS[facts["model_determinism"]],
        "provider": _if(facts["model_provider"], "provider"),
        "name": _if(facts["model_name"], "model"),
        "parameters": _artifact(facts["parameters"]),
        "seed": _artifact(facts["seed"]),
    }


def _retrieval(facts: dict[str, int]) -> dict[str, Any]:
    return {
        "replayMode": specimens.RETRIEVAL_MODES[facts["retrieval_mode"]],
        "determinism": _guaranteed(facts["retrieval_guaranteed"]),
        "corpus": _if(facts["corpus_identity"], {"version": "1", "hash": None}),
        "configuration": _artifact(facts["configuration"]),
        "output": _artifact(facts["output"]),
    }


def _tools(facts: dict[str, int]) -> dict[str, Any]:
    return {
        "replayMode": specimens.TOOL_MODES[facts["tools_mode"]],
        "callsComplete": "complete" if facts["calls_complete"] else "unknown",
        "determinism": _guaranteed(facts["tools_guaranteed"]),
        "definitions": _definitions(facts),
        "calls": _calls(facts),
    }


def _definitions(facts: dict[str, int]) -> list[dict[str, Any]]:
    if facts["no_definitions"]:
        return []
    forms = {"value": 1, "hash": facts["definition_hash"], "unavailable": facts["definition_missing"]}
    held = [form for form, there in forms.items() if there]
    return [{"name": f"{_TOOL}{n}", "definition": specimens.artifact(form)} for n, form in enumerate(held)]


def _calls(facts: dict[str, int]) -> list[dict[str, Any]]:
    """Return at most one call for each fact; all of them are unmatched where one must be."""
    tool = _tool_called(facts)
    forms = [
        (end, form) for end in ("input", "output") for form in ("hash", "unavailable") if facts[f"{end}_{form}"]
    ] or [("input", "value")] * facts["unmatched_call"]
    return [specimens.call(f"call{n}", tool, **{end: specimens.artifact(form)}) for n, (end, form) in enumerate(forms)]


def _tool_called(facts: dict[str, int]) -> str:
    return "another" if facts["unmatched_call"] else f"{_TOOL}0"


def _add(tools: dict[str, Any], bearer: Bearer, name: str, tool: str) -> None:
    artifact = specimens.artifact(specimens.CAPTURES[bearer.capture], specimens.PROVENANCES[bearer.provenance])
    if bearer.kind is Kind.DEFINITION:
        tools["definitions"].append({"name": name, "definition": artifact})
    else:
        tools["calls"].append(specimens.call(name, tool, **{bearer.kind.name.lower(): artifact}))
