"""A column of manifests taken apart: what validity, shape and findings are read from.

Columns of one type are stacked, since a hundred small columns cost more than a few long ones.

Source: the record ReplayManifest of the turns schema, whose order of fields this follows.
"""

from __future__ import annotations

from collections.abc import Mapping
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

EFFECTS: Final = ("isolation", "network", "filesystem", "external_services")


class Artifacts(NamedTuple):
    """All artifacts of a batch, stacked: the single ones, each for all rows; definitions, inputs, outputs and errors.

    ``owners`` holds the row of each. Errors that are not there are not in the stack.
    """

    captures: Codes
    provenances: Codes
    sha256: pa.StringArray
    reason: pa.StringArray
    value: pa.StringArray
    owners: Positions
    singles: Mapping[str, slice]
    definitions: slice
    inputs: slice
    outputs: slice
    errors: slice


class Tools(NamedTuple):
    """The items of the tool boundary, their artifacts apart. ``present`` holds where both lists are there."""

    present: Mask
    definition_owners: Positions
    definition_names: pa.StringArray
    call_owners: Positions
    call_ids: pa.StringArray
    tool_names: pa.StringArray


class Stack(NamedTuple):
    """Columns of strings, stacked, each for all rows."""

    texts: Texts
    places: Mapping[str, slice]

    def present(self, name: str) -> Mask:
        """Return where the column ``name`` has a text."""
        return self.texts.present[self.places[name]]


@dataclass(frozen=True, slots=True)
class Manifests:
    """The manifests of ``rows`` turns. Where one is not ``present``, everything in it is null.

    ``digests`` and ``texts`` hold the single texts; model names are there a second time.
    """

    rows: int
    present: Mask
    version: Numbers
    captured_at: Texts
    enums: Mapping[str, Codes]
    digests: Stack
    texts: Stack
    environment: Mask
    runtime: Mask
    notes: Items
    model_provider: pa.StringArray
    model_name: pa.StringArray
    tools: Tools
    artifacts: Artifacts


def read_manifests(manifest: pa.StructArray) -> Manifests:
    """Take the column ``manifest`` of the projected table apart."""
    version, identity, captured_at, source, effects, environment, model, retrieval, tools, prompts = fields(manifest)
    provenance, method, trace_id, span_id, source_provider, source_format, source_hash = fields(source)
    *effect_columns, notes = fields(effects)
    code_version, runtime, lock, environment_configuration, image = fields(environment)
    runtime_name, runtime_version = fields(runtime)
    determinism, provider, name, parameters, seed = fields(model)
    retrieval_mode, retrieval_determinism, corpus, configuration, output = fields(retrieval)
    corpus_version, corpus_hash = fields(corpus)
    tools_mode, calls_complete, tools_determinism, definitions, calls = fields(tools)
    system, developer, prompt = fields(prompts)
    definitions_there, calls_there = present(definitions), present(calls)
    defined, called = items(definitions), items(calls)
    definition_name, definition = fields(defined.array)
    call_id, tool_name, call_input, call_output, error = fields(called.array)
    enums = {
        "source_provenance": provenance,
        "capture_method": method,
        **dict(zip(EFFECTS, effect_columns, strict=True)),
        "model_determinism": determinism,
        "retrieval_mode": retrieval_mode,
        "retrieval_determinism": retrieval_determinism,
        "tools_mode": tools_mode,
        "calls_complete": calls_complete,
        "tools_determinism": tools_determinism,
    }
    digests = {
        "source_hash": source_hash,
        "dependency_lock_hash": lock,
        "configuration_hash": environment_configuration,
        "corpus_hash": corpus_hash,
    }
    others = {
        "id": identity,
        "trace_id": trace_id,
        "span_id": span_id,
        "source_provider": source_provider,
        "source_format": source_format,
        "code_version": code_version,
        "runtime_name": runtime_name,
        "runtime_version": runtime_version,
        "container_image_digest": image,
        "model_provider": provider,
        "model_name": name,
        "corpus_version": corpus_version,
    }
    return Manifests(
        rows=len(manifest),
        present=present(manifest),
        version=numbers(version),
        captured_at=texts(captured_at),
        enums=dict(zip(enums, codes(pa.concat_arrays(enums.values())).reshape(len(enums), -1), strict=True)),
        digests=_stack(digests),
        texts=_stack(others),
        environment=present(environment),
        runtime=present(runtime),
        notes=items(notes),
        model_provider=provider,
        model_name=name,
        tools=Tools(
            definitions_there & calls_there, defined.owners, definition_name, called.owners, call_id, tool_name
        ),
        artifacts=_artifacts(
            [prompt, system, developer, parameters, seed, configuration, output],
            [(definition, defined.owners), (call_input, called.owners), (call_output, called.owners)],
            (error.drop_null(), called.owners[present(error)]),
        ),
    )


def _stack(columns: Mapping[str, pa.StringArray]) -> Stack:
    places = _places([len(column) for column in columns.values()])
    return Stack(texts(pa.concat_arrays(columns.values())), dict(zip(columns, places, strict=True)))


def _artifacts(
    singles: list[pa.StructArray],
    listed: list[tuple[pa.StructArray, Positions]],
    errors: tuple[pa.StructArray, Positions],
) -> Artifacts:
    every_row = np.arange(len(singles[0]))
    columns = [*singles, *(artifact for artifact, _ in (*listed, errors))]
    owners = np.concatenate([*[every_row] * len(singles), *(rows for _, rows in (*listed, errors))])
    capture, provenance, sha256, reason, value = fields(pa.concat_arrays(columns))
    places = _places([len(column) for column in columns])
    named = dict(zip(SINGLES, places, strict=False))
    return Artifacts(codes(capture), codes(provenance), sha256, reason, value, owners, named, *places[len(SINGLES) :])


def _places(lengths: list[int]) -> list[slice]:
    ends = np.cumsum(lengths).tolist()
    return [slice(end - length, end) for length, end in zip(lengths, ends, strict=True)]
