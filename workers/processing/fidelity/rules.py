"""The 35 rules of replay fidelity, in the order of their specification: the only statement of them.

A rule names the field whose evidence falls short, what that takes away, when it fires, and the code that says why.
Read `RULES` line by line against docs/concepts/replay-fidelity.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from workers.processing.fidelity.levels import Impact
from workers.processing.fidelity.manifest import Artifact, RuntimeManifest
from workers.processing.fidelity.sweep import sweep

Condition = Callable[[RuntimeManifest], bool]


class Gap(NamedTuple):
    """One piece of evidence that falls short."""

    field: str
    impact: Impact
    code: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule about one field; ``where`` says in which manifests it is asked at all."""

    number: int
    field: str
    impact: Impact
    fires: Condition
    code: str | Callable[[RuntimeManifest], str]
    where: Condition | None = None

    def gaps(self, manifest: RuntimeManifest) -> Iterator[Gap]:
        """Yield this rule's gap if it fires."""
        if (self.where is None or self.where(manifest)) and self.fires(manifest):
            yield Gap(self.field, self.impact, self.code if isinstance(self.code, str) else self.code(manifest))


@dataclass(frozen=True, slots=True)
class ArtifactRule:
    """One rule about every artifact."""

    number: int
    impact: Impact
    fires: Callable[[Artifact], bool]
    code: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """Rules asked of each artifact in turn, before the next artifact."""

    rules: tuple[ArtifactRule, ...]

    def gaps(self, manifest: RuntimeManifest) -> Iterator[Gap]:
        """Yield the gaps of all artifacts; the field is the artifact's."""
        for field, artifact in sweep(manifest):
            for rule in self.rules:
                if rule.fires(artifact):
                    yield Gap(field, rule.impact, rule.code)


def is_value(artifact: Artifact) -> bool:
    """Tell whether the evidence itself was kept."""
    return artifact.capture == "value"


def is_recorded(artifact: Artifact) -> bool:
    """Tell whether the evidence was kept, or it is recorded that there was none."""
    return artifact.capture in ("value", "absent")


def is_known(artifact: Artifact) -> bool:
    """Tell whether anything reliable is known about the evidence, were it only its hash."""
    return artifact.capture != "unavailable" and artifact.provenance != "unknown"


def has_unknown_provenance(artifact: Artifact) -> bool:
    """Tell whether nobody knows where the evidence comes from (rule 11); nothing is asked of what is unavailable."""
    return artifact.capture != "unavailable" and artifact.provenance == "unknown"


def is_not_observed(artifact: Artifact) -> bool:
    """Tell whether the evidence was mapped or, unless it is an absence, declared (rule 12)."""
    return artifact.capture != "unavailable" and (
        artifact.provenance == "mapped" or (artifact.provenance == "declared" and artifact.capture != "absent")
    )


def _source_is_unknown(m: RuntimeManifest) -> bool:
    return m.source.provenance == "unknown" or m.source.capture_method == "unknown"


def _any_effect(m: RuntimeManifest, state: str) -> bool:
    effects = m.side_effects
    return state in (effects.isolation, effects.network, effects.filesystem, effects.external_services)


def _has_unmatched_call(m: RuntimeManifest) -> bool:
    names = {tool.name for tool in m.tools.definitions}
    return any(call.tool_name not in names for call in m.tools.calls)


def _tools_used(m: RuntimeManifest) -> bool:
    return m.tools.replay_mode != "not_used"


def _tools_replayed(m: RuntimeManifest) -> bool:
    return m.tools.replay_mode in ("execute", "recorded_outputs")


def _tools_executed(m: RuntimeManifest) -> bool:
    return m.tools.replay_mode == "execute"


def _tools_recorded(m: RuntimeManifest) -> bool:
    return m.tools.replay_mode == "recorded_outputs"


def _retrieval_used(m: RuntimeManifest) -> bool:
    return m.retrieval.replay_mode != "not_used"


def _retrieval_replayed(m: RuntimeManifest) -> bool:
    return m.retrieval.replay_mode in ("rerun", "recorded_outputs")


def _retrieval_rerun(m: RuntimeManifest) -> bool:
    return m.retrieval.replay_mode == "rerun"


def _retrieval_recorded(m: RuntimeManifest) -> bool:
    return m.retrieval.replay_mode == "recorded_outputs"


def _input_code(m: RuntimeManifest) -> str:
    return "input_hash_only" if m.prompts.input.capture == "hash" else "input_not_captured"


def _parameters_code(m: RuntimeManifest) -> str:
    return "parameters_hash_only" if m.model.parameters.capture == "hash" else "parameters_unavailable"


def _model_determinism_code(m: RuntimeManifest) -> str:
    return f"model_determinism_{m.model.determinism}"


_B, _R, _X = Impact.BLOCKS_REPLAY, Impact.REDUCES_CONTROL, Impact.PREVENTS_EXACTNESS

# fmt: off
RULES: Final[tuple[Rule | Sweep, ...]] = (
    Rule(1, "model.provider", _B, lambda m: m.model.provider is None, "model_provider_missing"),
    Rule(2, "model.name", _B, lambda m: m.model.name is None, "model_name_missing"),
    Rule(3, "prompts.input", _B, lambda m: not is_value(m.prompts.input), _input_code),
    Rule(4, "model.parameters", _R, lambda m: not is_recorded(m.model.parameters), _parameters_code),
    Rule(5, "prompts.instructions", _X,
         lambda m: not (is_known(m.prompts.system) and is_known(m.prompts.developer)), "instructions_unknown"),
    Rule(6, "source.traceId", _R, lambda m: m.source.trace_id is None, "trace_id_missing"),
    Rule(7, "source.provenance", _R, _source_is_unknown, "source_provenance_unknown"),
    Rule(8, "source.provenance", _X,
         lambda m: not _source_is_unknown(m) and m.source.provenance != "observed", "source_not_observed"),
    Rule(9, "source.captureMethod", _X, lambda m: m.source.capture_method in ("adapter", "manual"),
         "capture_not_native"),
    Rule(10, "source.sourceHash", _X, lambda m: m.source.source_hash is None, "source_hash_missing"),
    Sweep((
        ArtifactRule(11, _R, has_unknown_provenance, "artifact_provenance_unknown"),
        ArtifactRule(12, _X, is_not_observed, "artifact_not_observed"),
    )),
    Rule(13, "environment.codeVersion", _R, lambda m: m.environment.code_version is None, "code_version_missing"),
    Rule(14, "environment.runtime", _R, lambda m: m.environment.runtime is None, "runtime_missing"),
    Rule(15, "environment.dependencyLockHash", _R,
         lambda m: m.environment.dependency_lock_hash is None, "dependency_lock_missing"),
    Rule(16, "environment.configurationHash", _R,
         lambda m: m.environment.configuration_hash is None, "configuration_hash_missing"),
    Rule(17, "environment.containerImageDigest", _X,
         lambda m: m.environment.container_image_digest is None, "image_digest_missing"),
    Rule(18, "tools.replayMode", _R, lambda m: m.tools.replay_mode == "unknown", "tool_mode_unknown", _tools_used),
    Rule(19, "tools.definitions", _R,
         lambda m: not m.tools.definitions or not all(is_value(tool.definition) for tool in m.tools.definitions),
         "tool_definitions_incomplete", _tools_replayed),
    Rule(20, "tools.definitions", _R, _has_unmatched_call, "tool_definition_unmatched", _tools_replayed),
    Rule(21, "tools.calls", _R, lambda m: m.tools.calls_complete is not True, "tool_calls_incomplete",
         _tools_replayed),
    Rule(22, "tools.inputs", _R, lambda m: not all(is_recorded(call.input) for call in m.tools.calls),
         "tool_inputs_incomplete", _tools_replayed),
    Rule(23, "tools.outputs", _R, lambda m: not all(is_recorded(call.output) for call in m.tools.calls),
         "tool_outputs_incomplete", _tools_recorded),
    Rule(24, "tools.outputs", _X, lambda m: not all(is_known(call.output) for call in m.tools.calls),
         "tool_outputs_unknown", _tools_executed),
    Rule(25, "tools.determinism", _X, lambda m: m.tools.determinism != "guaranteed",
         "tool_determinism_unproven", _tools_executed),
    Rule(26, "retrieval.replayMode", _R, lambda m: m.retrieval.replay_mode == "unknown",
         "retrieval_mode_unknown", _retrieval_used),
    Rule(27, "retrieval.configuration", _R, lambda m: not is_value(m.retrieval.configuration),
         "retrieval_configuration_missing", _retrieval_replayed),
    Rule(28, "retrieval.corpus", _R,
         lambda m: not m.retrieval.corpus or (m.retrieval.corpus.version is None and m.retrieval.corpus.hash is None),
         "corpus_identity_missing", _retrieval_replayed),
    Rule(29, "retrieval.output", _R, lambda m: not is_recorded(m.retrieval.output),
         "retrieval_output_incomplete", _retrieval_recorded),
    Rule(30, "retrieval.output", _X, lambda m: not is_known(m.retrieval.output),
         "retrieval_output_unknown", _retrieval_rerun),
    Rule(31, "retrieval.determinism", _X, lambda m: m.retrieval.determinism != "guaranteed",
         "retrieval_determinism_unproven", _retrieval_rerun),
    Rule(32, "sideEffects.isolation", _B, lambda m: _any_effect(m, "live"), "side_effects_live"),
    Rule(33, "sideEffects.isolation", _R, lambda m: not _any_effect(m, "live") and _any_effect(m, "unknown"),
         "side_effects_unknown"),
    Rule(34, "model.determinism", _X, lambda m: m.model.determinism != "guaranteed", _model_determinism_code),
    Rule(35, "model.seed", _X,
         lambda m: not is_recorded(m.model.seed) or m.model.seed.provenance == "unknown", "seed_not_reconstructable"),
)
# fmt: on
