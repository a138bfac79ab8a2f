"""The shape of a manifest: the facts that its grade depends on, in 62 bits. Facts only; the rules stand elsewhere.

Valid manifests with one code have one grade, unless a gap bears the name of a tool or a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workers.processing.columns import specimens
from workers.processing.columns.manifests import SINGLES, Manifests
from workers.processing.columns.reading import Codes, Mask, coded_together, present, rows_of

Shapes = NDArray[np.uint64]


class Fact(NamedTuple):
    """One fact and its width in bits."""

    name: str
    bits: int


LAYOUT: Final = (
    Fact("source_provenance", 2),
    Fact("capture_method", 3),
    Fact("trace_id", 1),
    Fact("source_hash", 1),
    Fact("input", 4),
    Fact("system", 4),
    Fact("developer", 4),
    Fact("model_provider", 1),
    Fact("model_name", 1),
    Fact("parameters", 4),
    Fact("seed", 4),
    Fact("model_determinism", 2),
    Fact("retrieval_mode", 2),
    Fact("configuration", 4),
    Fact("output", 4),
    Fact("retrieval_guaranteed", 1),
    Fact("corpus_identity", 1),
    Fact("code_version", 1),
    Fact("runtime", 1),
    Fact("dependency_lock_hash", 1),
    Fact("configuration_hash", 1),
    Fact("container_image_digest", 1),
    Fact("any_live", 1),
    Fact("any_unknown", 1),
    Fact("tools_mode", 2),
    Fact("calls_complete", 1),
    Fact("tools_guaranteed", 1),
    Fact("no_definitions", 1),
    Fact("definition_hash", 1),
    Fact("definition_missing", 1),
    Fact("unmatched_call", 1),
    Fact("input_hash", 1),
    Fact("input_unavailable", 1),
    Fact("output_hash", 1),
    Fact("output_unavailable", 1),
)
"""The facts from the lowest bit up. Those of four bits are artifacts: capture, then provenance above it."""

BITS: Final = sum(fact.bits for fact in LAYOUT)

_HASH, _ABSENT, _UNAVAILABLE = (specimens.CAPTURES.index(name) for name in ("hash", "absent", "unavailable"))
_GUARANTEED: Final = specimens.DETERMINISMS.index("guaranteed")
_COMPLETE: Final = specimens.CALLS_COMPLETE.index("complete")
_LIVE: Final = 3
_UNKNOWN: Final = 4
"""Codes that the four kinds of side effects share."""


def shape(manifests: Manifests) -> Shapes:
    """Return the code of each manifest; where one is not valid, it means nothing."""
    facts = {**_single_facts(manifests), **_artifact_facts(manifests), **_tool_facts(manifests)}
    code = np.zeros(manifests.rows, np.uint64)
    shift = 0
    for name, bits in LAYOUT:
        code |= facts[name].astype(np.uint64) << np.uint64(shift)
        shift += bits
    return code


def facts_of(code: int) -> dict[str, int]:
    """Return the facts of one code."""
    facts, rest = {}, code
    for name, bits in LAYOUT:
        facts[name] = rest & ((1 << bits) - 1)
        rest >>= bits
    if rest:
        raise ValueError(f"a shape has {BITS} bits, this code has more")
    return facts


def code_of(facts: Mapping[str, int]) -> int:
    """Return the code of ``facts``, one for each of `LAYOUT`."""
    code = shift = 0
    for name, bits in LAYOUT:
        code |= facts[name] << shift
        shift += bits
    return code


def _single_facts(m: Manifests) -> dict[str, Codes | Mask]:
    source, environment = m.source, m.environment
    return {
        "source_provenance": source.provenance,
        "capture_method": source.capture_method,
        "trace_id": source.trace_id.present,
        "source_hash": source.source_hash.present,
        "model_provider": present(m.model_provider),
        "model_name": present(m.model_name),
        "model_determinism": m.model_determinism,
        "retrieval_mode": m.retrieval.mode,
        "retrieval_guaranteed": m.retrieval.determinism == _GUARANTEED,
        "corpus_identity": m.retrieval.corpus_version.present | m.retrieval.corpus_hash.present,
        "code_version": environment.code_version.present,
        "runtime": environment.runtime,
        "dependency_lock_hash": environment.dependency_lock_hash.present,
        "configuration_hash": environment.configuration_hash.present,
        "container_image_digest": environment.container_image_digest.present,
        "any_live": _any_effect(m, _LIVE),
        "any_unknown": _any_effect(m, _UNKNOWN),
        "tools_mode": m.tools.mode,
        "calls_complete": m.tools.calls_complete == _COMPLETE,
        "tools_guaranteed": m.tools.determinism == _GUARANTEED,
    }


def _artifact_facts(m: Manifests) -> dict[str, Codes]:
    stack = m.artifacts
    forms = stack.captures + len(specimens.CAPTURES) * stack.provenances
    return {name: forms[stack.single(name, m.rows)] for name in SINGLES}


def _tool_facts(m: Manifests) -> dict[str, Mask]:
    stack, tools, rows = m.artifacts, m.tools, m.rows
    definitions, inputs, outputs = (
        stack.captures[place] for place in (stack.definitions, stack.inputs, stack.outputs)
    )
    defined, called = tools.definition_owners, tools.call_owners
    return {
        "no_definitions": ~rows_of(defined, np.ones(len(defined), np.bool_), rows),
        "definition_hash": rows_of(defined, definitions == _HASH, rows),
        "definition_missing": rows_of(defined, (definitions == _ABSENT) | (definitions == _UNAVAILABLE), rows),
        "unmatched_call": rows_of(called, _unmatched(m), rows),
        "input_hash": rows_of(called, inputs == _HASH, rows),
        "input_unavailable": rows_of(called, inputs == _UNAVAILABLE, rows),
        "output_hash": rows_of(called, outputs == _HASH, rows),
        "output_unavailable": rows_of(called, outputs == _UNAVAILABLE, rows),
    }


def _unmatched(m: Manifests) -> Mask:
    """Return which calls are of a tool that their own manifest does not define."""
    tools = m.tools
    if not len(tools.call_owners):
        return np.zeros(0, np.bool_)
    names, called, count = coded_together(tools.definition_names, tools.tool_names)
    return ~np.isin(tools.call_owners * count + called, tools.definition_owners * count + names)


def _any_effect(m: Manifests, code: int) -> Mask:
    found = np.zeros(m.rows, np.bool_)
    for effect in m.effects:
        found |= effect == code
    return found
