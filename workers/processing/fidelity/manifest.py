"""The runtime manifest: what one reply recorded about how it came to be (contract engram.replay-runtime v2).

Fields stand in the order of the contract, which is the order of issues. Optional fields default to None without
accepting it: an explicit null is an error.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, PlainValidator, Tag
from pydantic.alias_generators import to_camel

from workers.processing.fidelity import leaves
from workers.processing.fidelity.jsontext import Json

Text = Annotated[str, PlainValidator(leaves.text)]
OptionalText = Annotated[str | None, PlainValidator(leaves.text)]
Digest = Annotated[str, PlainValidator(leaves.digest)]
OptionalDigest = Annotated[str | None, PlainValidator(leaves.digest)]

Provenance = Literal["observed", "declared", "mapped", "unknown"]
Determinism = Literal["guaranteed", "best_effort", "not_guaranteed", "unknown"]
CaptureMethod = Literal["native", "export", "adapter", "manual", "unknown"]
ToolMode = Literal["not_used", "execute", "recorded_outputs", "unknown"]
CallsComplete = bool | Literal["unknown"]
RetrievalMode = Literal["not_used", "rerun", "recorded_outputs", "unknown"]

FORMS: Final = frozenset({"value", "hash", "absent", "unavailable"})
"""What an artifact's ``capture`` may be."""


class Closed(BaseModel):
    """An object of the contract: nothing but its own keys, no coercion, no change after it was read."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True
    )


class ArtifactBase(Closed):
    """What every form of evidence says: in which form it was captured, and where it comes from."""

    capture: Literal["value", "hash", "absent", "unavailable"]
    provenance: Provenance


class ValueArtifact(ArtifactBase):
    """Evidence kept as it was."""

    capture: Literal["value"]
    value: Annotated[Json, PlainValidator(leaves.json_value)]
    sha256: OptionalDigest = None


class HashArtifact(ArtifactBase):
    """Evidence of which only the digest was kept."""

    capture: Literal["hash"]
    algorithm: Annotated[str, PlainValidator(leaves.literal("sha256"))]
    sha256: Digest


class AbsentArtifact(ArtifactBase):
    """Evidence that there was nothing."""

    capture: Literal["absent"]
    reason: Text


class UnavailableArtifact(ArtifactBase):
    """Something was there, and was not captured."""

    capture: Literal["unavailable"]
    reason: Text


class UnformedArtifact(ArtifactBase):
    """What has no valid form: it never validates, and reports only what does not depend on the form."""

    model_config = ConfigDict(extra="ignore")


def _form(candidate: object) -> str:
    capture = candidate.get("capture") if isinstance(candidate, dict) else None
    return capture if isinstance(capture, str) and capture in FORMS else "unformed"


Artifact = Annotated[
    Annotated[ValueArtifact, Tag("value")]
    | Annotated[HashArtifact, Tag("hash")]
    | Annotated[AbsentArtifact, Tag("absent")]
    | Annotated[UnavailableArtifact, Tag("unavailable")]
    | Annotated[UnformedArtifact, Tag("unformed")],
    Discriminator(_form),
]


class Source(Closed):
    """Where the manifest itself comes from."""

    trace_id: OptionalText = None
    span_id: OptionalText = None
    provider: OptionalText = None
    format: OptionalText = None
    source_hash: OptionalDigest = None
    provenance: Provenance
    capture_method: CaptureMethod


class Prompts(Closed):
    """What the model was told."""

    input: Artifact
    system: Artifact
    developer: Artifact


class Model(Closed):
    """Which model answered, and how it was set."""

    provider: OptionalText = None
    name: OptionalText = None
    parameters: Artifact
    seed: Artifact
    determinism: Determinism


class ToolDefinition(Closed):
    """One tool as it was offered to the model."""

    name: Text
    definition: Artifact


class ToolCall(Closed):
    """One call of a tool."""

    call_id: Text
    tool_name: Text
    input: Artifact
    output: Artifact
    error: Annotated[Artifact | None, BeforeValidator(leaves.not_null)] = None


class Tools(Closed):
    """The tool boundary."""

    replay_mode: ToolMode
    definitions: Annotated[tuple[ToolDefinition, ...], Field(strict=False)]
    calls: Annotated[tuple[ToolCall, ...], Field(strict=False)]
    calls_complete: Annotated[CallsComplete, PlainValidator(leaves.calls_complete)]
    determinism: Determinism


class Corpus(Closed):
    """Which body of text was searched."""

    version: OptionalText = None
    hash: OptionalDigest = None


class Retrieval(Closed):
    """The retrieval boundary."""

    replay_mode: RetrievalMode
    configuration: Artifact
    output: Artifact
    corpus: Annotated[Corpus | None, BeforeValidator(leaves.not_null)] = None
    determinism: Determinism


class Runtime(Closed):
    """What executed the code."""

    name: Text
    version: Text


class Environment(Closed):
    """Code, dependencies and configuration of the process."""

    code_version: OptionalText = None
    runtime: Annotated[Runtime | None, BeforeValidator(leaves.not_null)] = None
    dependency_lock_hash: OptionalDigest = None
    configuration_hash: OptionalDigest = None
    container_image_digest: OptionalText = None


class SideEffects(Closed):
    """What the reply could touch outside itself."""

    isolation: Literal["none", "isolated", "recorded_and_stubbed", "live", "unknown"]
    network: Literal["none", "blocked", "recorded_and_stubbed", "live", "unknown"]
    filesystem: Literal["none", "sandboxed", "recorded_and_stubbed", "live", "unknown"]
    external_services: Literal["none", "stubbed", "recorded_and_stubbed", "live", "unknown"]
    notes: Annotated[tuple[Text, ...] | None, Field(strict=False), BeforeValidator(leaves.not_null)] = None


class RuntimeManifest(Closed):
    """One valid manifest; build it with `parse_json` or `parse_avro`."""

    format: Annotated[str, PlainValidator(leaves.literal(leaves.CONTRACT))]
    version: Annotated[int, PlainValidator(leaves.version)]
    id: Text
    captured_at: Annotated[str, PlainValidator(leaves.timestamp)]
    source: Source
    prompts: Prompts
    model: Model
    tools: Tools
    retrieval: Retrieval
    environment: Environment
    side_effects: SideEffects
