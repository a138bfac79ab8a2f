"""Which manifests of a batch keep their contract. The others go to the reference, which names what is wrong.

Source: engram.replay-runtime v2, the Avro form, as `workers.processing.fidelity.parse_avro` reads it.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Final

import numpy as np
import pyarrow.compute as pc

from workers.processing.columns import specimens
from workers.processing.columns.leaves import bad_digests, bad_timestamps, bad_values, missing_texts
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
    texts_held = m.texts.present
    bad = bad_timestamps(m.captured_at)
    bad |= ~m.version.present | (m.version.values != CONTRACT_VERSION)
    bad |= ~(texts_held("id") & m.environment & m.tools.present)
    bad |= m.runtime & ~(texts_held("runtime_name") & texts_held("runtime_version"))
    bad |= _any(m.texts.texts.is_empty, m.rows) | _any(bad_digests(m.digests.texts), m.rows)
    for column in m.enums.values():
        bad |= column < 0
    return bad


def _any(stacked: Mask, rows: int) -> Mask:
    """Return the rows in which one of the stacked columns is marked."""
    found = np.zeros(rows, np.bool_)
    if stacked.any():
        stacked.reshape(-1, rows).any(axis=0, out=found)
    return found


def _bad_items(m: Manifests) -> Mask:
    bad = np.zeros(m.rows, np.bool_)
    for array, owners in (
        (m.notes.array, m.notes.owners),
        (m.tools.definition_names, m.tools.definition_owners),
        (m.tools.call_ids, m.tools.call_owners),
        (m.tools.tool_names, m.tools.call_owners),
    ):
        if len(owners):
            bad[owners[missing_texts(array)]] = True
    return bad


def _bad_artifacts(stack: Artifacts) -> Mask:
    form = (stack.captures + 1) + _CAPTURES * (stack.provenances + 1)
    for place, column in enumerate((stack.sha256, stack.reason, stack.value)):
        form = form + present(column) * np.uint8(_FORMS << place)
    wrong: Mask = _bad_forms()[form] | bad_digests(texts(stack.sha256)) | texts(stack.reason).is_empty
    bad = bad_values(stack.value)
    if bad is not None:
        wrong |= pc.is_in(stack.value, value_set=bad, skip_nulls=True).to_numpy(zero_copy_only=False)
    return wrong


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
