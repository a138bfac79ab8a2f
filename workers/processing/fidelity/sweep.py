"""The order in which a manifest's artifacts are visited."""

from __future__ import annotations

from collections.abc import Iterator

from workers.processing.fidelity.manifest import Artifact, RuntimeManifest


def sweep(manifest: RuntimeManifest, *, errors: bool = False) -> Iterator[tuple[str, Artifact]]:
    """Yield (field, artifact): the seven single artifacts, then tool definitions, then each call's input and output.

    Names and call ids go into the field as they are. Modes are ignored: the artifacts of an unused boundary count too.
    With ``errors``, a call's error follows its output; grading does not look at errors.

    Source: docs/concepts/replay-fidelity.md, "Rules".
    """
    yield "prompts.input", manifest.prompts.input
    yield "prompts.system", manifest.prompts.system
    yield "prompts.developer", manifest.prompts.developer
    yield "model.parameters", manifest.model.parameters
    yield "model.seed", manifest.model.seed
    yield "retrieval.configuration", manifest.retrieval.configuration
    yield "retrieval.output", manifest.retrieval.output
    for tool in manifest.tools.definitions:
        yield f"tools.definitions.{tool.name}", tool.definition
    for call in manifest.tools.calls:
        yield f"tools.calls.{call.call_id}.input", call.input
        yield f"tools.calls.{call.call_id}.output", call.output
        if errors and call.error is not None:
            yield f"tools.calls.{call.call_id}.error", call.error
