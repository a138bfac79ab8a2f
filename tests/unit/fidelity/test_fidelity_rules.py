"""The 35 rules one by one, their order, and that no change to any of them goes unnoticed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest
from fidelity_manifests import REMOVED, artifact, call, edited, exact, parsed

from workers.processing.fidelity import RULES, Impact, Level, RuntimeManifest, grade, parse_json
from workers.processing.fidelity.catalogue import CATALOGUE, Kind, codes_of
from workers.processing.fidelity.rules import Rule, Sweep

B, R, X = "blocks_replay", "reduces_control", "prevents_exactness"
Gaps = list[tuple[str, str, str]]
DATA: Final = Path(__file__).parents[2] / "conformance" / "data"


def gaps(changes: Mapping[str, Any], mode: str = "run") -> Gaps:
    report = grade(parsed(edited(exact(mode), changes)))
    return [(field, impact.value, code) for field, impact, code in report.missing_evidence]


UNKNOWN_INPUT = artifact("value", "unknown")

# Per line: the rule's number, how the replay runs, what is changed in an exact manifest, and all gaps that follow.
EXAMPLES: Final[tuple[tuple[int, str, dict[str, Any], Gaps], ...]] = (
    (1, "run", {"model.provider": REMOVED}, [("model.provider", B, "model_provider_missing")]),
    (2, "run", {"model.name": REMOVED}, [("model.name", B, "model_name_missing")]),
    (3, "run", {"prompts.input": artifact("hash")}, [("prompts.input", B, "input_hash_only")]),
    (3, "run", {"prompts.input": artifact("absent")}, [("prompts.input", B, "input_not_captured")]),
    (3, "run", {"prompts.input": artifact("unavailable")}, [("prompts.input", B, "input_not_captured")]),
    (4, "run", {"model.parameters": artifact("hash")}, [("model.parameters", R, "parameters_hash_only")]),
    (4, "run", {"model.parameters": artifact("unavailable")}, [("model.parameters", R, "parameters_unavailable")]),
    (4, "run", {"model.parameters": artifact("absent")}, []),
    (5, "run", {"prompts.system": artifact("unavailable")}, [("prompts.instructions", X, "instructions_unknown")]),
    (5, "run", {"prompts.developer": artifact("unavailable")}, [("prompts.instructions", X, "instructions_unknown")]),
    (
        5,
        "run",
        {"prompts.system": artifact("hash", "unknown")},
        [("prompts.instructions", X, "instructions_unknown"), ("prompts.system", R, "artifact_provenance_unknown")],
    ),
    (6, "run", {"source.traceId": REMOVED}, [("source.traceId", R, "trace_id_missing")]),
    (7, "run", {"source.provenance": "unknown"}, [("source.provenance", R, "source_provenance_unknown")]),
    (7, "run", {"source.captureMethod": "unknown"}, [("source.provenance", R, "source_provenance_unknown")]),
    (
        7,
        "run",
        {"source.captureMethod": "unknown", "source.provenance": "mapped"},
        [("source.provenance", R, "source_provenance_unknown")],
    ),
    (8, "run", {"source.provenance": "declared"}, [("source.provenance", X, "source_not_observed")]),
    (8, "run", {"source.provenance": "mapped"}, [("source.provenance", X, "source_not_observed")]),
    (9, "run", {"source.captureMethod": "adapter"}, [("source.captureMethod", X, "capture_not_native")]),
    (9, "run", {"source.captureMethod": "manual"}, [("source.captureMethod", X, "capture_not_native")]),
    (9, "run", {"source.captureMethod": "export"}, []),
    (10, "run", {"source.sourceHash": REMOVED}, [("source.sourceHash", X, "source_hash_missing")]),
    (11, "run", {"prompts.input": UNKNOWN_INPUT}, [("prompts.input", R, "artifact_provenance_unknown")]),
    (
        11,
        "run",
        {"tools.definitions.0.definition": artifact("value", "unknown")},
        [("tools.definitions.t", R, "artifact_provenance_unknown")],
    ),
    (12, "run", {"prompts.input": artifact("value", "declared")}, [("prompts.input", X, "artifact_not_observed")]),
    (12, "run", {"prompts.developer": artifact("absent", "declared")}, []),
    (
        12,
        "run",
        {"prompts.developer": artifact("absent", "mapped")},
        [("prompts.developer", X, "artifact_not_observed")],
    ),
    (
        12,
        "run",
        {"tools.calls.0": call("a.b/c", output=artifact("value", "mapped"))},
        [("tools.calls.a.b/c.output", X, "artifact_not_observed")],
    ),
    (12, "run", {"tools.calls.0": call(error=artifact("hash", "mapped"))}, []),
    (13, "run", {"environment.codeVersion": REMOVED}, [("environment.codeVersion", R, "code_version_missing")]),
    (14, "run", {"environment.runtime": REMOVED}, [("environment.runtime", R, "runtime_missing")]),
    (
        15,
        "run",
        {"environment.dependencyLockHash": REMOVED},
        [("environment.dependencyLockHash", R, "dependency_lock_missing")],
    ),
    (
        16,
        "run",
        {"environment.configurationHash": REMOVED},
        [("environment.configurationHash", R, "configuration_hash_missing")],
    ),
    (
        17,
        "run",
        {"environment.containerImageDigest": REMOVED},
        [("environment.containerImageDigest", X, "image_digest_missing")],
    ),
    (
        18,
        "run",
        {"tools.replayMode": "unknown", "tools.definitions": [], "tools.determinism": "unknown"},
        [("tools.replayMode", R, "tool_mode_unknown")],
    ),
    (
        19,
        "run",
        {"tools.definitions": [], "tools.calls": []},
        [("tools.definitions", R, "tool_definitions_incomplete")],
    ),
    (
        19,
        "run",
        {"tools.definitions.0.definition": artifact("hash")},
        [("tools.definitions", R, "tool_definitions_incomplete")],
    ),
    (20, "run", {"tools.calls.0.toolName": "T"}, [("tools.definitions", R, "tool_definition_unmatched")]),
    (
        20,
        "run",
        {"tools.calls.0.toolName": "T", "tools.definitions.0.definition": artifact("hash")},
        [("tools.definitions", R, "tool_definitions_incomplete")],
    ),
    (21, "run", {"tools.callsComplete": False}, [("tools.calls", R, "tool_calls_incomplete")]),
    (21, "run", {"tools.callsComplete": "unknown"}, [("tools.calls", R, "tool_calls_incomplete")]),
    (
        21,
        "run",
        {"tools.callsComplete": False, "tools.calls.0.toolName": "T"},
        [("tools.definitions", R, "tool_definition_unmatched"), ("tools.calls", R, "tool_calls_incomplete")],
    ),
    (22, "run", {"tools.calls.0.input": artifact("hash")}, [("tools.inputs", R, "tool_inputs_incomplete")]),
    (22, "run", {"tools.calls.0.input": artifact("absent")}, []),
    (23, "recorded", {"tools.calls.0.output": artifact("hash")}, [("tools.outputs", R, "tool_outputs_incomplete")]),
    (23, "recorded", {"tools.calls.0.output": artifact("absent")}, []),
    (24, "run", {"tools.calls.0.output": artifact("unavailable")}, [("tools.outputs", X, "tool_outputs_unknown")]),
    (24, "run", {"tools.calls.0.output": artifact("hash")}, []),
    (25, "run", {"tools.determinism": "best_effort"}, [("tools.determinism", X, "tool_determinism_unproven")]),
    (25, "recorded", {"tools.determinism": "best_effort"}, []),
    (
        26,
        "run",
        {"retrieval.replayMode": "unknown", "retrieval.corpus": REMOVED, "retrieval.determinism": "unknown"},
        [("retrieval.replayMode", R, "retrieval_mode_unknown")],
    ),
    (
        27,
        "run",
        {"retrieval.configuration": artifact("absent")},
        [("retrieval.configuration", R, "retrieval_configuration_missing")],
    ),
    (28, "run", {"retrieval.corpus": REMOVED}, [("retrieval.corpus", R, "corpus_identity_missing")]),
    (28, "run", {"retrieval.corpus": {}}, [("retrieval.corpus", R, "corpus_identity_missing")]),
    (28, "run", {"retrieval.corpus": {"hash": "b" * 64}}, []),
    (
        29,
        "recorded",
        {"retrieval.output": artifact("hash")},
        [("retrieval.output", R, "retrieval_output_incomplete")],
    ),
    (30, "run", {"retrieval.output": artifact("unavailable")}, [("retrieval.output", X, "retrieval_output_unknown")]),
    (30, "run", {"retrieval.output": artifact("hash")}, []),
    (
        31,
        "run",
        {"retrieval.determinism": "unknown"},
        [("retrieval.determinism", X, "retrieval_determinism_unproven")],
    ),
    (31, "recorded", {"retrieval.determinism": "unknown"}, []),
    (32, "run", {"sideEffects.network": "live"}, [("sideEffects.isolation", B, "side_effects_live")]),
    (
        32,
        "run",
        {"sideEffects.network": "live", "sideEffects.isolation": "unknown"},
        [("sideEffects.isolation", B, "side_effects_live")],
    ),
    (33, "run", {"sideEffects.filesystem": "unknown"}, [("sideEffects.isolation", R, "side_effects_unknown")]),
    (34, "run", {"model.determinism": "unknown"}, [("model.determinism", X, "model_determinism_unknown")]),
    (34, "run", {"model.determinism": "best_effort"}, [("model.determinism", X, "model_determinism_best_effort")]),
    (
        34,
        "run",
        {"model.determinism": "not_guaranteed"},
        [("model.determinism", X, "model_determinism_not_guaranteed")],
    ),
    (35, "run", {"model.seed": artifact("unavailable")}, [("model.seed", X, "seed_not_reconstructable")]),
    (35, "run", {"model.seed": artifact("absent")}, []),
)


@pytest.mark.parametrize(("number", "mode", "changes", "expected"), EXAMPLES)
def test_a_rule_fires_with_its_field_impact_and_code(
    number: int, mode: str, changes: dict[str, Any], expected: Gaps
) -> None:
    assert gaps(changes, mode) == expected


def test_every_rule_has_an_example_in_which_it_fires() -> None:
    assert {number for number, _, _, expected in EXAMPLES if expected} == set(range(1, 36))


@pytest.mark.parametrize("mode", ["run", "recorded"])
def test_a_manifest_without_gaps_is_exact_and_deterministic(mode: str) -> None:
    report = grade(parsed(exact(mode)))
    assert (report.level, report.deterministic, report.missing_evidence, report.caveats) == (Level.EXACT, True, (), ())


# The corners that the specification names.


def test_hashed_parameters_of_unknown_provenance_show_only_rule_4() -> None:
    assert gaps({"model.parameters": artifact("hash", "unknown")}) == [("model.parameters", R, "parameters_hash_only")]


def test_a_hashed_and_mapped_seed_shows_only_rule_12() -> None:
    assert gaps({"model.seed": artifact("hash", "mapped")}) == [("model.seed", X, "artifact_not_observed")]


def test_a_seed_of_unknown_provenance_shows_rule_11_then_35() -> None:
    assert gaps({"model.seed": artifact("value", "unknown")}) == [
        ("model.seed", R, "artifact_provenance_unknown"),
        ("model.seed", X, "seed_not_reconstructable"),
    ]


def test_a_hashed_system_prompt_stays_exact_with_its_caveat() -> None:
    report = grade(parsed(edited(exact(), {"prompts.system": artifact("hash")})))
    assert (report.level, report.caveats) == (Level.EXACT, ("hash_only_evidence",))


def test_a_tool_boundary_that_is_not_used_can_lower_the_level() -> None:
    unused = {"tools.replayMode": "not_used", "tools.calls.0.input": artifact("hash", "unknown")}
    report = grade(parsed(edited(exact(), unused)))
    assert report.level is Level.PARTIAL
    assert report.caveats == ("not_exact", "hash_only_evidence")
    assert [gap.field for gap in report.missing_evidence] == ["tools.calls.c.input"]


def test_absent_tool_definitions_fail_rule_19() -> None:
    assert gaps({"tools.definitions.0.definition": artifact("absent")}) == [
        ("tools.definitions", R, "tool_definitions_incomplete")
    ]


def test_a_seed_without_guarantee_is_a_caveat_only_where_the_seed_is_kept() -> None:
    kept = {"model.determinism": "best_effort"}
    assert grade(parsed(edited(exact(), kept))).caveats == ("not_exact", "seed_without_guarantee")
    hashed = {**kept, "model.seed": artifact("hash")}
    assert grade(parsed(edited(exact(), hashed))).caveats == ("not_exact", "hash_only_evidence")


def test_the_artifacts_of_one_boundary_are_swept_in_order_one_after_the_other() -> None:
    definitions = [
        {"name": "t", "definition": artifact("value", "mapped")},
        {"name": "t", "definition": artifact("value", "unknown")},
        {"name": "t", "definition": artifact("value", "declared")},
    ]
    assert gaps({"tools.definitions": definitions, "tools.calls.0.output": artifact("value", "mapped")}) == [
        ("tools.definitions.t", X, "artifact_not_observed"),
        ("tools.definitions.t", R, "artifact_provenance_unknown"),
        ("tools.calls.c.output", X, "artifact_not_observed"),
    ]


@pytest.mark.parametrize("boundary", ["tools", "retrieval"])
def test_an_unused_boundary_is_asked_nothing(boundary: str) -> None:
    careless: dict[str, dict[str, Any]] = {
        "tools": {"tools.definitions": [], "tools.callsComplete": False, "tools.determinism": "unknown"},
        "retrieval": {"retrieval.corpus": REMOVED, "retrieval.determinism": "unknown"},
    }
    assert gaps({f"{boundary}.replayMode": "not_used", **careless[boundary]}) == []


# No change to the rules goes unnoticed.


def numbers(rules: Sequence[Rule | Sweep]) -> list[int]:
    return [
        number
        for rule in rules
        for number in ([rule.number] if isinstance(rule, Rule) else [inner.number for inner in rule.rules])
    ]


def test_the_rules_stand_in_the_order_of_the_specification() -> None:
    assert numbers(RULES) == list(range(1, 36))


@cache
def corpus() -> tuple[tuple[RuntimeManifest, tuple[tuple[str, str, str | None], ...]], ...]:
    """Return manifests with the gaps they must get: the examples with codes, the conformance cases without."""
    found: list[tuple[RuntimeManifest, tuple[tuple[str, str, str | None], ...]]] = [
        (parsed(edited(exact(mode), changes)), tuple(expected)) for _, mode, changes, expected in EXAMPLES
    ]
    for name in ("fidelity-edge-cases.jsonl", "fidelity-cases.jsonl"):
        for line in (DATA / name).read_text(encoding="utf-8").split("\n"):
            case: dict[str, Any] = json.loads(line) if line else {}
            if case.get("valid"):
                manifest = parse_json(case["manifest_json"])
                assert isinstance(manifest, RuntimeManifest)
                found.append((manifest, tuple((field, impact, None) for field, impact in case["missing"])))
    return tuple(found)


def is_noticed(rules: Sequence[Rule | Sweep]) -> bool:
    return any(
        len(graded := grade(manifest, rules).missing_evidence) != len(expected)
        or any(
            (gap.field, gap.impact.value) != (field, impact) or code not in (None, gap.code)
            for gap, (field, impact, code) in zip(graded, expected, strict=True)
        )
        for manifest, expected in corpus()
    )


def replaced(index: int, rule: Rule | Sweep) -> list[Rule | Sweep]:
    return [*RULES[:index], rule, *RULES[index + 1 :]]


def negated(rule: Rule) -> Callable[[RuntimeManifest], bool]:
    def fires(manifest: RuntimeManifest) -> bool:
        return not rule.fires(manifest)

    return fires


def mutants() -> Iterator[tuple[str, list[Rule | Sweep]]]:
    """Yield the rules with one of them changed."""
    for index, rule in enumerate(RULES):
        if isinstance(rule, Sweep):
            first, second = rule.rules
            yield "rule 11 dropped", replaced(index, Sweep((second,)))
            yield "rule 12 dropped", replaced(index, Sweep((first,)))
            yield (
                "rules 11 and 12 swept apart",
                [*RULES[:index], Sweep((first,)), Sweep((second,)), *RULES[index + 1 :]],
            )
            continue
        yield f"rule {rule.number} dropped", [*RULES[:index], *RULES[index + 1 :]]
        yield f"rule {rule.number} negated", replaced(index, dataclasses.replace(rule, fires=negated(rule)))
        for impact in set(Impact) - {rule.impact}:
            yield f"rule {rule.number} {impact}", replaced(index, dataclasses.replace(rule, impact=impact))
        yield f"rule {rule.number} renamed", replaced(index, dataclasses.replace(rule, code="other"))
        yield f"rule {rule.number} moved", replaced(index, dataclasses.replace(rule, field="other"))
        if rule.where is not None and rule.number not in UNGUARDED:
            yield f"rule {rule.number} unguarded", replaced(index, dataclasses.replace(rule, where=None))


# Their guard is implied by what they ask: the mode is unknown.
UNGUARDED: Final = {18, 26}


def test_the_unchanged_rules_agree_with_the_whole_corpus() -> None:
    assert not is_noticed(RULES)


def test_a_change_to_any_rule_is_noticed() -> None:
    assert [name for name, rules in mutants() if not is_noticed(rules)] == []


def test_swapping_any_two_rules_is_noticed_unless_they_are_neighbours_that_never_fire_together() -> None:
    unnoticed = set()
    for first, second in combinations(range(len(RULES)), 2):
        swapped = list(RULES)
        swapped[first], swapped[second] = RULES[second], RULES[first]
        if not is_noticed(swapped):
            unnoticed.add(tuple(numbers([RULES[first], RULES[second]])))
    assert unnoticed == {(7, 8), (18, 19), (23, 24), (26, 27), (29, 30), (32, 33)}


def test_the_catalogue_has_exactly_the_codes_of_the_rules_with_their_impacts() -> None:
    told = dict.fromkeys(code for _, _, _, expected in EXAMPLES for _, _, code in expected)
    assert set(codes_of(Kind.GAP)) == set(told)
    impacts = {code: impact for _, _, _, expected in EXAMPLES for _, impact, code in expected}
    assert {code: CATALOGUE[code].impact for code in told} == impacts
