"""Which manifests are valid: exactly those that the reference reads."""

from __future__ import annotations

from typing import Any

from column_tables import is_odd, manifests_of
from column_turns import mutations
from fidelity_manifests import DIGEST, artifact, call, edited, exact, parsed

from workers.processing.columns.manifests import read_manifests
from workers.processing.columns.named import read_named
from workers.processing.columns.reading import everywhere
from workers.processing.columns.shape import shape
from workers.processing.columns.valid import valid
from workers.processing.columns.witness import witness
from workers.processing.fidelity import RuntimeManifest, grade, parse_avro, to_avro


def full() -> dict[str, Any]:
    """Return a valid manifest in which every field is set and every form of artifact occurs."""
    changes = {
        "source.spanId": "s",
        "source.provider": "p",
        "source.format": "f",
        "sideEffects.notes": ["one", "two"],
        "retrieval.corpus.hash": DIGEST,
        "retrieval.output": artifact("absent"),
        "model.parameters": artifact("unavailable"),
        "model.seed": artifact("hash"),
        "prompts.developer": artifact("value") | {"sha256": DIGEST},
        "tools.calls": [
            call("c", error=artifact("value")),
            call("d", output=artifact("hash"), error=artifact("absent")),
        ],
    }
    return to_avro(parsed(edited(exact(), changes)))


def test_whatever_one_value_of_a_manifest_becomes_it_is_valid_where_the_reference_reads_it() -> None:
    manifests = [manifest for manifest in mutations(full()) if not is_odd(manifest)]
    read = read_manifests(manifests_of(manifests))
    models = [parse_avro(manifest) for manifest in manifests]
    assert valid(read).tolist() == [isinstance(model, RuntimeManifest) for model in models]


def test_whatever_one_value_of_a_manifest_becomes_it_has_the_grade_of_its_witness() -> None:
    models = [model for manifest in mutations(full()) if isinstance(model := parse_avro(manifest), RuntimeManifest)]
    read = read_manifests(manifests_of([to_avro(model) for model in models]))
    named = {found.row for found in read_named(read, everywhere(len(models)))}
    for row, (model, code) in enumerate(zip(models, shape(read).tolist(), strict=True)):
        if row not in named:
            report, expected = grade(model), grade(witness(code))
            assert (report.missing_evidence, report.caveats) == (expected.missing_evidence, expected.caveats)
    assert 0 < len(named) < len(models)
