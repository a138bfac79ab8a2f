"""Which manifests of a batch keep their contract. The others go to the reference, which names what is wrong.

Source: engram.replay-runtime v2, the Avro form, as `workers.processing.fidelity.parse_avro` reads it.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.processing.columns import specimens
from workers.processing.columns.leaves import bad_digests, bad_texts, bad_timestamps, bad_values, missing_texts
from workers.processing.columns.manifests import Artifacts, Manifests
from workers.processing.columns.reading import Mask, present, rows_of, texts
from workers.processing.fidelity import RuntimeManifest, parse_avro
from workers.processing.fidelity.leaves import CONTRACT_VERSION

# Place of an artifact's form in the table: capture and provenance, -1 first, then which texts it has.
_CAPTURES: Final = len(specimens.CAPTURES) + 1
_FORMS: Final = _CAPTURES * (len(specimens.PROVENANCES) + 1)


def valid(manifests: Manifests) -> Mask:
    """Return where there is a valid manifest; never true where the reference would report an issue."""
    bad = _bad_fields(manifests) | _bad_items(manifests)
    stack = manifests.artifacts
    wrong = _bad_artifacts(stack)
    if wrong.any():
        bad |= rows_of(stack.owners, wrong, manifests.rows)
    return manifests.present & ~bad


def _bad_fields(m: Manifests) -> Mask:
    source, environment, retrieval, tools = m.source, m.environment, m.retrieval, m.tools
    enums = (
        source.provenance,
        source.capture_method,
        *m.effects,
        m.model_determinism,
        retrieval.mode,
        retrieval.determinism,
        tools.mode,
        tools.calls_complete,
        tools.determinism,
    )
    optional = (
        source.trace_id,
        source.span_id,
        source.provider,
        source.format,
        environment.code_version,
        environment.container_image_digest,
        environment.runtime_name,
        environment.runtime_version,
        retrieval.corpus_version,
        texts(m.model_provider),
        texts(m.model_name),
    )
    digests = (
        source.source_hash,
        environment.dependency_lock_hash,
        environment.configuration_hash,
        retrieval.corpus_hash,
    )
    bad = bad_texts(optional, m.rows) | missing_texts(m.id) | bad_timestamps(m.captured_at)
    bad |= ~m.version.present | (m.version.values != CONTRACT_VERSION)
    bad |= ~environment.present | ~tools.present
    bad |= environment.runtime & ~(environment.runtime_name.present & environment.runtime_version.present)
    for column in enums:
        bad |= column < 0
    for digest in digests:
        bad |= bad_digests(digest)
    return bad


def _bad_items(m: Manifests) -> Mask:
    bad = np.zeros(m.rows, np.bool_)
    for array, owners in (
        (m.notes.array, m.notes.owners),
        (m.tools.definition_names, m.tools.definition_owners),
        (m.tools.call_ids, m.tools.call_owners),
        (m.tools.tool_names, m.tools.call_owners),
    ):
        bad |= rows_of(owners, missing_texts(array), m.rows)
    return bad


def _bad_artifacts(stack: Artifacts) -> Mask:
    form = (stack.captures + 1) + _CAPTURES * (stack.provenances.astype(np.int16) + 1)
    wrong = np.zeros(len(form), np.bool_)
    for place, sha256, reason, value in stack.parts:
        form[place] += _FORMS * present(sha256) + 2 * _FORMS * present(reason) + 4 * _FORMS * present(value)
        if sha256.null_count != len(sha256):
            wrong[place] |= bad_digests(texts(sha256))
        if reason.null_count != len(reason):
            wrong[place] |= texts(reason).is_empty
    bad_text = bad_values(pa.chunked_array([part.value for part in stack.parts]))
    if bad_text is not None:
        for part in stack.parts:
            wrong[part.place] |= pc.is_in(part.value, value_set=bad_text, skip_nulls=True).to_numpy(
                zero_copy_only=False
            )
    return wrong | _bad_forms()[form]


@cache
def _bad_forms() -> Mask:
    """Return the table of forms that no artifact may have: the reference's own answer for each."""
    table = np.ones(8 * _FORMS, np.bool_)
    choices = product(
        enumerate(specimens.CAPTURES, 1),
        enumerate(specimens.PROVENANCES, 1),
        (None, specimens.DIGEST),
        (None, "none"),
        (None, "0"),
    )
    for (capture, captured), (provenance, proven), sha256, reason, value in choices:
        seed = specimens.artifact(captured, proven, sha256=sha256, reason=reason, value=value)
        texts_held = (sha256 is not None) + 2 * (reason is not None) + 4 * (value is not None)
        read = parse_avro(specimens.manifest(model={"seed": seed}))
        table[capture + _CAPTURES * provenance + _FORMS * texts_held] = not isinstance(read, RuntimeManifest)
    return table
