"""The shape of a manifest: the facts that its grade depends on, in 62 bits. Facts only; the rules stand elsewhere.

Valid manifests with one code have one grade, unless a gap bears the name of a tool or a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workers.processing.columns import specimens
from workers.processing.columns.manifests import EFFECTS, Manifests
from workers.processing.columns.reading import Codes, Mask, coded_together, rows_of

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
_SHIFTS: Final = tuple(accumulate((fact.bits for fact in LAYOUT[:-1]), initial=0))
_WEIGHTS: Final = np.array([1 << shift for shift in _SHIFTS], np.uint64)

# Facts that are a column of the same name: its code, or whether there is a text.
_ENUMS: Final = ("source_provenance", "capture_method", "model_determinism", "retrieval_mode", "tools_mode")
_TEXTS: Final = ("trace_id", "model_provider", "model_name", "code_version", "container_image_digest")
_DIGESTS: Final = ("source_hash", "dependency_lock_hash", "configuration_hash")

_HASH, _ABSENT, _UNAVAILABLE = (specimens.CAPTURES.index(name) for name in ("hash", "absent", "unavailable"))
_GUARANTEED: Final = specimens.DETERMINISMS.index("guaranteed")
_COMPLETE: Final = specimens.CALLS_COMPLETE.index("complete")
_LIVE: Final = 3
_UNKNOWN: Final = 4
"""Codes that the four kinds of side effects share."""


def shape(manifests: Manifests) -> Shapes:
    """Return the code of each manifest; where one is not valid, it means nothing."""
    facts = {**_single_facts(manifests), **_artifact_facts(manifests), **_tool_facts(manifests)}
    code: Shapes = _WEIGHTS @ np.stack([facts[name].view(np.uint8) for name, _ in LAYOUT])
    return code


def facts_of(code: int) -> dict[str, int]:
    """Return the facts of one code."""
    if code >> BITS:
        raise ValueError(f"a shape has {BITS} bits, this code has more")
    return {name: code >> shift & ((1 << bits) - 1) for (name, bits), shift in zip(LAYOUT, _SHIFTS, strict=True)}


def code_of(facts: Mapping[str, int]) -> int:
    """Return the code of ``facts``, one for each of `LAYOUT`."""
    return sum(facts[name] << shift for (name, _), shift in zip(LAYOUT, _SHIFTS, strict=True))


def _single_facts(m: Manifests) -> dict[str, Codes | Mask]:
    return {
        **{name: m.enums[name] for name in _ENUMS},
        **{name: m.texts.present(name) for name in _TEXTS},
        **{name: m.digests.present(name) for name in _DIGESTS},
        "runtime": m.runtime,
        "corpus_identity": m.texts.present("corpus_version") | m.digests.present("corpus_hash"),
        "retrieval_guaranteed": m.enums["retrieval_determinism"] == _GUARANTEED,
        "tools_guaranteed": m.enums["tools_determinism"] == _GUARANTEED,
        "calls_complete": m.enums["calls_complete"] == _COMPLETE,
        "any_live": _any_effect(m, _LIVE),
        "any_unknown": _any_effect(m, _UNKNOWN),
    }


def _artifact_facts(m: Manifests) -> dict[str, Codes]:
    stack = m.artifacts
    forms = stack.captures + len(specimens.CAPTURES) * stack.provenances
    return {name: forms[place] for name, place in stack.singles.items()}


def _tool_facts(m: Manifests) -> dict[str, Mask]:
    stack, tools, rows = m.artifacts, m.tools, m.rows
    definitions, inputs, outputs = (stack.captures[place] for place in (stack.definitions, stack.inputs, stack.outputs))
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
    names, called, size = coded_together(tools.definition_names, tools.tool_names)
    return ~np.isin(tools.call_owners * size + called, tools.definition_owners * size + names)


def _any_effect(m: Manifests, code: int) -> Mask:
    found = np.zeros(m.rows, np.bool_)
    for name in EFFECTS:
        found |= m.enums[name] == code
    return found
