"""Contradictions inside the manifests of a batch: which rows may have one, and how digests compare."""

from __future__ import annotations

from functools import cache, lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from workers.processing.columns import specimens
from workers.processing.columns.grade import by_form
from workers.processing.columns.leaves import MAX_REMEMBERED
from workers.processing.columns.manifests import Manifests
from workers.processing.columns.reading import Coded, Mask, Positions, coded, groups, joint, present, rows_of
from workers.processing.fidelity.findings import DigestOutcome, find, is_another_model
from workers.processing.fidelity.manifest import Artifact

_VALUE: Final = specimens.CAPTURES.index("value")


class DigestChecks(NamedTuple):
    """Digests that were compared with the values beside them: the row of each, and its outcome."""

    rows: list[int]
    outcomes: list[DigestOutcome]


def contradictory(manifests: Manifests, checks: DigestChecks) -> Mask:
    """Return the rows that have a finding other than `another_model`."""
    tools, stack = manifests.tools, manifests.artifacts
    found = _repeated(tools.call_owners, tools.call_ids, manifests.rows)
    found |= _repeated(tools.definition_owners, tools.definition_names, manifests.rows)
    errors = _findings_of_errors()[stack.captures[stack.errors], stack.provenances[stack.errors]]
    found |= rows_of(stack.owners[stack.errors], errors, manifests.rows)
    for row, outcome in zip(*checks, strict=True):
        found[row] |= outcome is DigestOutcome.MISMATCH
    return found


def check_digests(manifests: Manifests, valid: Mask) -> DigestChecks:
    """Compare the digests of ``valid`` manifests with the values beside them."""
    stack = manifests.artifacts
    chosen = np.flatnonzero(present(stack.sha256) & (stack.captures == _VALUE))
    chosen = chosen[valid[stack.owners[chosen]]]
    if not len(chosen):
        return DigestChecks([], [])
    pairs = zip(stack.value.take(chosen).to_pylist(), stack.sha256.take(chosen).to_pylist(), strict=True)
    return DigestChecks(stack.owners[chosen].tolist(), [_outcome(text, digest) for text, digest in pairs])


def another_model(manifests: Manifests, model_ids: Coded, known: Mask) -> Mask:
    """Return the ``known`` rows whose fingerprint names a model that is not the manifest's."""
    columns = (model_ids, coded(manifests.model_provider), coded(manifests.model_name))
    of_row, first = groups(joint([(column.codes, len(column.values)) for column in columns]))
    answers = [is_another_model(*(column.values[column.codes[row]] for column in columns)) for row in first.tolist()]
    return known & np.array(answers, np.bool_)[of_row]


def _repeated(owners: Positions, names: pa.StringArray, rows: int) -> Mask:
    """Return the rows in which a name occurs twice."""
    found = np.zeros(rows, np.bool_)
    if len(owners) > 1:
        codes, values = coded(names)
        keys = np.sort(owners * len(values) + codes)
        found[keys[1:][keys[1:] == keys[:-1]] // len(values)] = True
    return found


@cache
def _findings_of_errors() -> Mask:
    """Return, by capture and provenance, whether the error of a call is a finding."""
    return by_form(_is_finding)


def _is_finding(artifact: Artifact) -> bool:
    error = specimens.artifact(artifact.capture, artifact.provenance)
    calls = [specimens.call("call", "tool", error=error)]
    return bool(find(specimens.read_manifest(tools={"calls": calls}), None).found)


def _outcome(text: str, digest: str) -> DigestOutcome:
    return _remembered_outcome(text, digest) if len(text) <= MAX_REMEMBERED else _checked(text, digest)


def _checked(text: str, digest: str) -> DigestOutcome:
    if sha256(text.encode()).hexdigest() == digest.lower():
        return DigestOutcome.MATCH
    seed = specimens.artifact("value", value=text, sha256=digest)
    [outcome] = find(specimens.read_manifest(model={"seed": seed}), None).digests
    return outcome


_remembered_outcome = lru_cache(maxsize=1_024)(_checked)
