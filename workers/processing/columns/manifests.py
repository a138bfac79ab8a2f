"""A column of manifests taken apart: what validity, shape and findings are read from.

Source: the record ReplayManifest of the turns schema, whose order of fields this follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from workers.processing.columns.reading import (
    Codes,
    Items,
    Mask,
    Numbers,
    Positions,
    Texts,
    codes,
    fields,
    items,
    numbers,
    present,
    texts,
)

SINGLES: Final = ("input", "system", "developer", "parameters", "seed", "configuration", "output")
"""The artifacts that each manifest has once, in the order in which they are stacked."""


class ArtifactPart(NamedTuple):
    """The texts of artifacts of one origin, and where these stand in the stack."""

    place: slice
    sha256: pa.StringArray
    reason: pa.StringArray
    value: pa.StringArray


class Artifacts(NamedTuple):
    """All artifacts of a batch, stacked: the single ones, each for all rows; definitions, inputs, outputs and errors.

    ``forms`` holds the codes of capture and provenance; ``owners`` the row of each artifact. Errors that are not there
    are not in the stack.
    """

    captures: Codes
    provenances: Codes
    owners: Positions
    parts: tuple[ArtifactPart, ...]

    def single(self, name: str, rows: int) -> slice:
        """Return where the artifacts ``name``, one of `SINGLES`, stand."""
        at = SINGLES.index(name)
        return slice(at * rows, (at + 1) * rows)

    @property
    def definitions(self) -> slice:
        """Where definitions of tools stand."""
        return self.parts[-4].place

    @property
    def inputs(self) -> slice:
        """Where inputs of calls stand."""
        return self.parts[-3].place

    @property
    def outputs(self) -> slice:
        """Where outputs of calls stand."""
        return self.parts[-2].place

    @property
    def errors(self) -> slice:
        """Where errors of calls stand."""
        return self.parts[-1].place


class Source(NamedTuple):
    """Where manifests come from."""

    provenance: Codes
    capture_method: Codes
    trace_id: Texts
    span_id: Texts
    provider: Texts
    format: Texts
    source_hash: Texts


class Environment(NamedTuple):
    """Code, dependencies and configuration."""

    present: Mask
    code_version: Texts
    runtime: Mask
    runtime_name: Texts
    runtime_version: Texts
    dependency_lock_hash: Texts
    configuration_hash: Texts
    container_image_digest: Texts


class Retrieval(NamedTuple):
    """The retrieval boundary, its artifacts apart."""

    mode: Codes
    determinism: Codes
    corpus_version: Texts
    corpus_hash: Texts


class Tools(NamedTuple):
    """The tool boundary, its artifacts apart. ``present`` holds where both lists are there."""

    mode: Codes
    calls_complete: Codes
    determinism: Codes
    present: Mask
    definition_owners: Positions
    definition_names: pa.StringArray
    call_owners: Positions
    call_ids: pa.StringArray
    tool_names: pa.StringArray


@dataclass(frozen=True, slots=True)
class Manifests:
    """The manifests of ``rows`` turns. Where one is not ``present``, everything in it is null."""

    rows: int
    present: Mask
    version: Numbers
    id: pa.StringArray
    captured_at: Texts
    source: Source
    effects: tuple[Codes, ...]
    notes: Items
    environment: Environment
    model_determinism: Codes
    model_provider: pa.StringArray
    model_name: pa.StringArray
    retrieval: Retrieval
    tools: Tools
    artifacts: Artifacts


def read_manifests(manifest: pa.StructArray) -> Manifests:
    """Take the column ``manifest`` of the projected table apart."""
    version, identity, captured_at, source, effects, environment, model, retrieval, tools, prompts = fields(manifest)
    *effect_codes, notes = fields(effects)
    determinism, provider, name, parameters, seed = fields(model)
    retrieval_mode, retrieval_determinism, corpus, configuration, output = fields(retrieval)
    corpus_version, corpus_hash = fields(corpus)
    mode, complete, tool_determinism, definitions, calls = fields(tools)
    system, developer, prompt = fields(prompts)
    defined, called = items(definitions), items(calls)
    definition_name, definition = fields(defined.array)
    call_id, tool_name, call_input, call_output, error = fields(called.array)
    return Manifests(
        rows=len(manifest),
        present=present(manifest),
        version=numbers(version),
        id=identity,
        captured_at=texts(captured_at),
        source=_source(source),
        effects=tuple(codes(effect) for effect in effect_codes),
        notes=items(notes),
        environment=_environment(environment),
        model_determinism=codes(determinism),
        model_provider=provider,
        model_name=name,
        retrieval=Retrieval(
            codes(retrieval_mode), codes(retrieval_determinism), texts(corpus_version), texts(corpus_hash)
        ),
        tools=Tools(
            codes(mode),
            codes(complete),
            codes(tool_determinism),
            present(definitions) & present(calls),
            defined.owners,
            definition_name,
            called.owners,
            call_id,
            tool_name,
        ),
        artifacts=_stack(
            [prompt, system, developer, parameters, seed, configuration, output],
            (definition, defined.owners),
            (call_input, called.owners),
            (call_output, called.owners),
            (error.drop_null(), called.owners[present(error)]),
        ),
    )


def _source(source: pa.StructArray) -> Source:
    provenance, method, *held = fields(source)
    return Source(codes(provenance), codes(method), *(texts(text) for text in held))


def _environment(environment: pa.StructArray) -> Environment:
    code_version, runtime, lock, configuration, image = fields(environment)
    name, version = fields(runtime)
    return Environment(
        present(environment),
        texts(code_version),
        present(runtime),
        texts(name),
        texts(version),
        texts(lock),
        texts(configuration),
        texts(image),
    )


def _stack(singles: list[pa.StructArray], *listed: tuple[pa.StructArray, Positions]) -> Artifacts:
    every_row = np.arange(len(singles[0]))
    captures, provenances, parts, start = [], [], [], 0
    for artifact in (*singles, *(array for array, _ in listed)):
        capture, provenance, sha256, reason, value = fields(artifact)
        captures.append(codes(capture))
        provenances.append(codes(provenance))
        parts.append(ArtifactPart(slice(start, start + len(artifact)), sha256, reason, value))
        start += len(artifact)
    owners = np.concatenate([*[every_row] * len(singles), *(owners for _, owners in listed)])
    return Artifacts(np.concatenate(captures), np.concatenate(provenances), owners, tuple(parts))
