"""What a valid manifest contradicts, in itself or the turn's fingerprint; a finding never changes the level."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from workers.processing.fidelity.canonical import canonical
from workers.processing.fidelity.manifest import Artifact, RuntimeManifest, ValueArtifact
from workers.processing.fidelity.rules import has_unknown_provenance, is_not_observed
from workers.processing.fidelity.sweep import sweep


class DigestOutcome(StrEnum):
    """Outcome of checking a value against the digest beside it."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNVERIFIABLE = "unverifiable"


class Finding(NamedTuple):
    """One contradiction: its code, and the field where it shows."""

    code: str
    field: str


class Findings(NamedTuple):
    """All findings of one manifest, each (code, field) once, and the outcome of every digest check."""

    found: tuple[Finding, ...]
    digests: tuple[DigestOutcome, ...]


def find(manifest: RuntimeManifest, model_id: str | None) -> Findings:
    """Return what contradicts itself, ordered by code as in the catalogue, then by the sweep.

    ``model_id`` is the fingerprint's, None where it is unknown.

    Source: docs/concepts/replay-fidelity.md, "Findings".
    """
    artifacts = tuple(sweep(manifest, errors=True))
    digests = tuple(_digest_checks(artifacts))
    errors = tuple(_call_errors(manifest))
    found = (
        *(Finding("digest_mismatch", field) for field, outcome in digests if outcome is DigestOutcome.MISMATCH),
        *(Finding("call_error_hash_only", field) for field, error in errors if error.capture == "hash"),
        *(Finding("call_error_unavailable", field) for field, error in errors if error.capture == "unavailable"),
        *(Finding("call_error_unproven", field) for field, error in errors if _is_unproven(error)),
        *_model_mismatch(manifest, model_id),
        *(
            Finding("duplicate_call_id", f"tools.calls.{call_id}")
            for call_id in _repeated(call.call_id for call in manifest.tools.calls)
        ),
        *(
            Finding("duplicate_tool_name", f"tools.definitions.{name}")
            for name in _repeated(tool.name for tool in manifest.tools.definitions)
        ),
    )
    return Findings(tuple(dict.fromkeys(found)), tuple(outcome for _, outcome in digests))


def check_digest(artifact: ValueArtifact) -> DigestOutcome | None:
    """Compare a value with the digest beside it, None where there is no digest.

    The digest may be that of the text as sent (the Avro form has one) or of the canonical form; where neither matches
    and there is no canonical form, nothing is proven either way.
    """
    if artifact.sha256 is None:
        return None
    expected = artifact.sha256.lower()
    text = artifact.value.text
    if text is not None and _sha256(text.encode("utf-8", "surrogatepass")) == expected:
        return DigestOutcome.MATCH
    exact = canonical(artifact.value.parsed)
    if exact is None:
        return DigestOutcome.UNVERIFIABLE
    return DigestOutcome.MATCH if _sha256(exact) == expected else DigestOutcome.MISMATCH


def is_another_model(model_id: str | None, provider: str | None, name: str | None) -> bool:
    """Return whether ``model_id`` is neither ``name`` nor ``provider/name``; what is unknown contradicts nothing."""
    if not model_id or name is None:
        return False
    return model_id not in (name, None if provider is None else f"{provider}/{name}")


def _digest_checks(artifacts: Iterable[tuple[str, Artifact]]) -> Iterator[tuple[str, DigestOutcome]]:
    for field, artifact in artifacts:
        outcome = check_digest(artifact) if isinstance(artifact, ValueArtifact) else None
        if outcome is not None:
            yield field, outcome


def _call_errors(manifest: RuntimeManifest) -> Iterator[tuple[str, Artifact]]:
    for call in manifest.tools.calls:
        if call.error is not None:
            yield f"tools.calls.{call.call_id}.error", call.error


def _is_unproven(error: Artifact) -> bool:
    return has_unknown_provenance(error) or is_not_observed(error)


def _model_mismatch(manifest: RuntimeManifest, model_id: str | None) -> Iterator[Finding]:
    if is_another_model(model_id, manifest.model.provider, manifest.model.name):
        yield Finding("model_mismatch", "model.name")


def _repeated(names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    told: set[str] = set()
    for name in names:
        if name in seen and name not in told:
            told.add(name)
            yield name
        seen.add(name)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
