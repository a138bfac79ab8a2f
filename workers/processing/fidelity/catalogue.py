"""Every text of replay fidelity, by code: what it is called, why it matters, and what the producer can do.

``schemas/fidelity/codes.json`` is generated from here (`codes_json`) and ships the same texts to every language.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final, NamedTuple

from workers.processing.fidelity.levels import Impact, IssueCode, Level


class Kind(StrEnum):
    """What a code stands for."""

    LEVEL = "level"
    GAP = "gap"
    CAVEAT = "caveat"
    FINDING = "finding"
    ISSUE = "issue"


class Entry(NamedTuple):
    """The texts of one code; ``impact`` is None where the code by itself takes nothing away from the level."""

    code: str
    kind: Kind
    impact: Impact | None
    label: str
    reason: str
    fix: str


RULES_EDITION: Final = "replay-runtime-2/1"
"""Contract and edition of the grading rules; rises whenever equal input may give another report."""

IMPACTS: Final = {
    Impact.BLOCKS_REPLAY: "Without this the reply cannot be replayed at all.",
    Impact.REDUCES_CONTROL: "A replay runs, but something that shaped the reply is out of its control.",
    Impact.PREVENTS_EXACTNESS: "A controlled replay runs, but nothing proves that it gives the same reply.",
}
"""What each impact means, in one sentence."""

_B, _R, _X = Impact.BLOCKS_REPLAY, Impact.REDUCES_CONTROL, Impact.PREVENTS_EXACTNESS

_LEVELS: Final = (
    (
        Level.EXACT,
        "Exact",
        "Everything that shaped the reply is recorded and proven, so a replay must give the same reply.",
        "Nothing is missing.",
    ),
    (
        Level.CONTROLLED,
        "Controlled",
        "A replay can be run under the recorded conditions, but it may word the reply differently.",
        "Close the gaps that prevent exactness; the determinism of the model is usually the last of them.",
    ),
    (
        Level.PARTIAL,
        "Partial",
        "A replay can be run, but some of the conditions behind the reply are unknown and have to be assumed.",
        "Close the gaps that reduce control first; each names the evidence to record.",
    ),
    (
        Level.UNREPLAYABLE,
        "Unreplayable",
        "The reply cannot be replayed: without what is missing there is nothing to run, or no safe way to run it.",
        "Close the gaps that block replay first: the model's identity, the input, and isolation from live effects.",
    ),
)

_GAPS: Final = (
    (
        "model_provider_missing",
        _B,
        "Model provider",
        "The manifest does not say who served the model, so there is nobody to ask again.",
        "Set model.provider to the service that answered the request.",
    ),
    (
        "model_name_missing",
        _B,
        "Model name",
        "The manifest does not say which model answered.",
        "Set model.name to the name under which the model was requested, dated where the provider dates it.",
    ),
    (
        "input_hash_only",
        _B,
        "Model input",
        "Only a hash of the input was kept: it can confirm an input, it cannot be sent to a model.",
        "Capture prompts.input as a value, or keep the input where it can be found by its hash.",
    ),
    (
        "input_not_captured",
        _B,
        "Model input",
        "The input that the model received was not kept.",
        "Capture prompts.input as a value at the moment the request is sent.",
    ),
    (
        "parameters_hash_only",
        _R,
        "Model parameters",
        "Only a hash of the parameters was kept, so a replay has to guess temperature, limits and the like.",
        "Capture model.parameters as a value; parameters are small and rarely sensitive.",
    ),
    (
        "parameters_unavailable",
        _R,
        "Model parameters",
        "The parameters of the request were not captured, so a replay has to guess them.",
        "Capture model.parameters as a value, or as absent when the request had none.",
    ),
    (
        "instructions_unknown",
        _X,
        "System and developer instructions",
        "The system or developer instructions were not captured, or nobody knows where the record of them comes from.",
        "Capture both prompts as a value, a hash or absent, with the provenance of the capture.",
    ),
    (
        "trace_id_missing",
        _R,
        "Trace id",
        "No trace id ties the manifest to the request, so the surrounding events cannot be found.",
        "Set source.traceId to the trace id of the request.",
    ),
    (
        "source_provenance_unknown",
        _R,
        "Source of the manifest",
        "Nobody knows how this manifest came about, so what it states cannot be weighed.",
        "Set source.provenance and source.captureMethod where the manifest is built.",
    ),
    (
        "source_not_observed",
        _X,
        "Source of the manifest",
        "The manifest was declared or mapped from other records instead of being observed at run time.",
        "Build the manifest in the process that makes the request, while it makes it.",
    ),
    (
        "capture_not_native",
        _X,
        "Capture method",
        "The manifest was captured by an adapter or by hand, which may drop or reshape what happened.",
        "Capture natively in the runtime, or export the runtime's own record.",
    ),
    (
        "source_hash_missing",
        _X,
        "Hash of the source record",
        "Without a hash of the record behind it, the manifest cannot be checked against that record.",
        "Set source.sourceHash to the SHA-256 of the record that the manifest was made from.",
    ),
    (
        "artifact_provenance_unknown",
        _R,
        "Provenance of an artifact",
        "Nobody knows where this piece of evidence comes from, so it may not be what was really used.",
        "Set the artifact's provenance where it is captured.",
    ),
    (
        "artifact_not_observed",
        _X,
        "Provenance of an artifact",
        "This piece of evidence was declared or mapped, not observed, so it may differ from what was really used.",
        "Capture the artifact at run time and mark it observed.",
    ),
    (
        "code_version_missing",
        _R,
        "Code version",
        "It is unknown which version of the code built the request.",
        "Set environment.codeVersion to the commit or release of the running code.",
    ),
    (
        "runtime_missing",
        _R,
        "Runtime",
        "It is unknown which language runtime, in which version, executed the code.",
        "Set environment.runtime to the name and version of the runtime.",
    ),
    (
        "dependency_lock_missing",
        _R,
        "Dependency lock",
        "Without the hash of the dependency lock, a replay may run with other libraries.",
        "Set environment.dependencyLockHash to the SHA-256 of the lock file, at build time.",
    ),
    (
        "configuration_hash_missing",
        _R,
        "Configuration",
        "Without a hash of the configuration, a replay may run with other settings and nobody would notice.",
        "Set environment.configurationHash to the SHA-256 of the effective configuration.",
    ),
    (
        "image_digest_missing",
        _X,
        "Container image",
        "Without the image digest, a replay cannot prove that it runs in the same system environment.",
        "Set environment.containerImageDigest to the digest of the running image.",
    ),
    (
        "tool_mode_unknown",
        _R,
        "Replay mode of tools",
        "It is unknown whether tools took part, so neither leaving them out nor running them is right.",
        "Set tools.replayMode; not_used when the reply used no tool.",
    ),
    (
        "tool_definitions_incomplete",
        _R,
        "Tool definitions",
        "The definitions that the model was offered are missing, or not all of them were kept as values.",
        "Capture the definition of every tool that was offered, as a value.",
    ),
    (
        "tool_definition_unmatched",
        _R,
        "Tool definitions",
        "A call names a tool for which there is no definition.",
        "List every tool that is called under tools.definitions, spelled exactly as in the call.",
    ),
    (
        "tool_calls_incomplete",
        _R,
        "List of tool calls",
        "The list of calls is incomplete, or nobody vouches that it is complete.",
        "Record every call, failed ones too, and then set tools.callsComplete to true (Avro: complete).",
    ),
    (
        "tool_inputs_incomplete",
        _R,
        "Inputs of tool calls",
        "The input of a call was not kept, so the call can be neither repeated nor recognised.",
        "Capture each call's input as a value, or as absent when it had none.",
    ),
    (
        "tool_outputs_incomplete",
        _R,
        "Outputs of tool calls",
        "A replay from recorded outputs needs them all, and one was not kept.",
        "Capture each call's output as a value, or as absent when it had none.",
    ),
    (
        "tool_outputs_unknown",
        _X,
        "Outputs of tool calls",
        "A replay that runs the tools again cannot be compared with an output that nobody knows.",
        "Capture each call's output, at least as a hash, with its provenance.",
    ),
    (
        "tool_determinism_unproven",
        _X,
        "Determinism of tools",
        "The tools are run again, and nothing guarantees that they return the same.",
        "Guarantee it in tools.determinism if it is true; else replay from recorded outputs.",
    ),
    (
        "retrieval_mode_unknown",
        _R,
        "Replay mode of retrieval",
        "It is unknown whether retrieval took part, so neither leaving it out nor running it is right.",
        "Set retrieval.replayMode; not_used when nothing was searched.",
    ),
    (
        "retrieval_configuration_missing",
        _R,
        "Retrieval configuration",
        "How the search was configured was not kept as a value.",
        "Capture retrieval.configuration as a value: query, filters, limits, ranking.",
    ),
    (
        "corpus_identity_missing",
        _R,
        "Searched corpus",
        "It is unknown which state of the corpus was searched.",
        "Set retrieval.corpus.version or retrieval.corpus.hash.",
    ),
    (
        "retrieval_output_incomplete",
        _R,
        "Retrieval output",
        "A replay from recorded results needs them, and they were not kept.",
        "Capture retrieval.output as a value, or as absent when nothing was found.",
    ),
    (
        "retrieval_output_unknown",
        _X,
        "Retrieval output",
        "A replay that searches again cannot be compared with a result that nobody knows.",
        "Capture retrieval.output, at least as a hash, with its provenance.",
    ),
    (
        "retrieval_determinism_unproven",
        _X,
        "Determinism of retrieval",
        "The search is run again, and nothing guarantees that it finds the same.",
        "Guarantee it in retrieval.determinism if it is true; else replay from recorded results.",
    ),
    (
        "side_effects_live",
        _B,
        "Isolation of side effects",
        "The run touched live systems: a replay would act on the world again.",
        "Run what is to be replayable isolated, sandboxed and stubbed, and say so in sideEffects.",
    ),
    (
        "side_effects_unknown",
        _R,
        "Isolation of side effects",
        "It is unknown whether the run was isolated, so a replay may act on the world.",
        "Set all four members of sideEffects to what was really in force.",
    ),
    (
        "model_determinism_unknown",
        _X,
        "Determinism of the model",
        "Nothing is known about whether the model repeats itself.",
        "Set model.determinism to what the provider promises.",
    ),
    (
        "model_determinism_best_effort",
        _X,
        "Determinism of the model",
        "The provider only tries to repeat itself, so equal requests may get other replies.",
        "Nothing, unless the provider offers a guaranteed mode: controlled is then the best level there is.",
    ),
    (
        "model_determinism_not_guaranteed",
        _X,
        "Determinism of the model",
        "The model is known not to repeat itself.",
        "Nothing, unless the provider offers a guaranteed mode: controlled is then the best level there is.",
    ),
    (
        "seed_not_reconstructable",
        _X,
        "Seed",
        "The seed was not kept in a form that a replay could use, or its provenance is unknown.",
        "Capture model.seed as a value, or as absent when none was sent.",
    ),
)

_CAVEATS: Final = (
    (
        "not_exact",
        "Not exact",
        "A replay at this level does not prove what was said: another wording is no sign of an error.",
        "Compare meaning, not wording; or close the gaps.",
    ),
    (
        "seed_without_guarantee",
        "Seed without guarantee",
        "A seed is recorded, but the model does not guarantee that a seed repeats the reply.",
        "Do not rely on the seed alone.",
    ),
    (
        "hash_only_evidence",
        "Evidence by hash alone",
        "Some evidence exists only as a hash: it can confirm a candidate, it cannot be run.",
        "Keep the value where a replay has to run it; a hash is enough where it only has to be recognised.",
    ),
)

_FINDINGS: Final = (
    (
        "digest_mismatch",
        "Value and digest differ",
        "The sha256 beside a value is the digest neither of its text nor of its canonical JSON (RFC 8785).",
        "Hash the RFC 8785 form of the value that is sent, after redaction, not before.",
    ),
    (
        "call_error_hash_only",
        "Error of a call by hash alone",
        "A call failed, and only a hash of its error was kept.",
        "Capture the error as a value, redacted where needed.",
    ),
    (
        "call_error_unavailable",
        "Error of a call not captured",
        "A call failed, and its error was not captured.",
        "Capture the error as a value where the call is made.",
    ),
    (
        "call_error_unproven",
        "Error of a call not observed",
        "A call failed, and its error was declared, mapped or of unknown provenance.",
        "Capture the error at run time and mark it observed.",
    ),
    (
        "model_mismatch",
        "Two models named",
        "The fingerprint names another model than the manifest.",
        "Fill model.name and the fingerprint's model_id from the same response.",
    ),
    (
        "duplicate_call_id",
        "Call id used twice",
        "Two calls carry the same id, so their evidence cannot be told apart.",
        "Give every call of a reply an id of its own.",
    ),
    (
        "duplicate_tool_name",
        "Tool name used twice",
        "Two definitions carry the same name, so a call does not say which of them it means.",
        "List every tool once.",
    ),
)

_ISSUES: Final = (
    (
        IssueCode.MISSING,
        "Required field missing",
        "A field that the contract requires is not there.",
        "Send the field; where the evidence does not exist, an artifact says so as absent or unavailable.",
    ),
    (
        IssueCode.UNKNOWN_FIELD,
        "Unknown field",
        "The contract does not have this field here; every object is closed.",
        "Remove the field, or correct its spelling; an artifact has only the fields of its own form.",
    ),
    (
        IssueCode.WRONG_TYPE,
        "Wrong type",
        "The value has another type than the contract says; null is never allowed outside an artifact's value.",
        "Send the type of the contract; leave out what is missing instead of sending null.",
    ),
    (
        IssueCode.EMPTY_TEXT,
        "Empty text",
        "A text has no character.",
        "Leave the field out (Avro: send null), or send the text.",
    ),
    (
        IssueCode.BAD_ENUM,
        "Value outside its list",
        "The value is not one of those that the contract lists for this field.",
        "Use a listed value in exactly its spelling; tools are executed, retrieval is rerun.",
    ),
    (
        IssueCode.BAD_LITERAL,
        "Wrong constant",
        "The field has one allowed value, and this is another.",
        'Send format "engram.replay-runtime", version 2 as a number, algorithm "sha256".',
    ),
    (
        IssueCode.BAD_TIMESTAMP,
        "Malformed time",
        "The time is not a real date in the form YYYY-MM-DDTHH:MM[:SS[.d...]]Z.",
        "Send UTC with a capital Z and no offset.",
    ),
    (
        IssueCode.BAD_DIGEST,
        "Malformed digest",
        "A digest is exactly 64 hexadecimal digits.",
        "Send the bare digits of a SHA-256: no prefix, no white space.",
    ),
    (
        IssueCode.BAD_NUMBER,
        "Number out of range",
        "A number is too large for a double.",
        "Send numbers of that size as text.",
    ),
    (
        IssueCode.BAD_JSON,
        "Not JSON",
        "The text is not JSON in UTF-8 without a byte order mark; NaN and Infinity are not JSON.",
        "Serialize with a JSON library that follows RFC 8259.",
    ),
    (
        IssueCode.TOO_DEEP,
        "Nested too deep",
        "A value nests more than 128 arrays and objects.",
        "Flatten the value, or send it as text or by its hash.",
    ),
)

CATALOGUE: Final = {
    entry.code: entry
    for entry in (
        *(Entry(code.value, Kind.LEVEL, None, *texts) for code, *texts in _LEVELS),
        *(Entry(code, Kind.GAP, impact, *texts) for code, impact, *texts in _GAPS),
        *(Entry(code, Kind.CAVEAT, None, *texts) for code, *texts in _CAVEATS),
        *(Entry(code, Kind.FINDING, None, *texts) for code, *texts in _FINDINGS),
        *(Entry(code.value, Kind.ISSUE, None, *texts) for code, *texts in _ISSUES),
    )
}
"""Every code with its texts, in the order in which they are told."""


def codes_of(kind: Kind) -> tuple[str, ...]:
    """Return the closed codes of one kind, in catalogue order."""
    return tuple(entry.code for entry in CATALOGUE.values() if entry.kind is kind)


def codes_json() -> str:
    """Return the catalogue as the text of ``schemas/fidelity/codes.json``."""
    codes = {
        entry.code: {
            "kind": entry.kind.value,
            "label": entry.label,
            "impact": entry.impact.value if entry.impact else None,
            "reason": entry.reason,
            "fix": entry.fix,
        }
        for entry in CATALOGUE.values()
    }
    impacts = {impact.value: meaning for impact, meaning in IMPACTS.items()}
    return json.dumps({"rules": RULES_EDITION, "impacts": impacts, "codes": codes}, indent=2, ensure_ascii=False) + "\n"
