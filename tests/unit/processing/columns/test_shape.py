"""The shape of a manifest and its witness."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from column_tables import manifest_type, manifests_of
from fidelity_manifests import artifact, call, edited, exact, manifests, parsed
from hypothesis import HealthCheck, given, settings

from workers.processing.columns import specimens
from workers.processing.columns.manifests import read_manifests
from workers.processing.columns.named import read_named
from workers.processing.columns.reading import everywhere
from workers.processing.columns.shape import BITS, LAYOUT, code_of, facts_of, shape
from workers.processing.columns.valid import valid
from workers.processing.columns.witness import witness
from workers.processing.fidelity import RuntimeManifest, grade, parse_avro, to_avro
from workers.serde.avro_schema import EnumType, Node, RecordType, UnionType


def possible_codes(seed: int, count: int) -> list[int]:
    rng, codes = Random(seed), list[int]()
    while len(codes) < count:
        code = rng.getrandbits(BITS)
        try:
            witness(code)
        except ValueError:
            continue
        codes.append(code)
    return codes


def shapes_of(manifests_held: list[RuntimeManifest]) -> list[int]:
    read = read_manifests(manifests_of([to_avro(manifest) for manifest in manifests_held]))
    assert valid(read).all()
    found: list[int] = shape(read).tolist()
    return found


def test_a_shape_has_sixty_two_bits_and_takes_a_code_apart_without_loss() -> None:
    assert BITS == 62
    for code in possible_codes(1, 20):
        assert code_of(facts_of(code)) == code


def test_the_witness_of_any_shape_has_that_shape() -> None:
    codes = possible_codes(2, 400)
    assert shapes_of([witness(code) for code in codes]) == codes


def test_every_form_of_artifact_under_every_mode_and_determinism_finds_its_way_back() -> None:
    base = facts_of(shapes_of([parsed(exact())])[0])
    singles = [fact.name for fact in LAYOUT if fact.bits == 4]
    codes = [
        code_of(
            base
            | dict.fromkeys(singles, form)
            | {"tools_mode": mode, "retrieval_mode": mode, "model_determinism": determinism}
        )
        for form, mode, determinism in product(range(16), range(4), range(4))
    ]
    assert shapes_of([witness(code) for code in codes]) == codes


@pytest.mark.parametrize(
    "facts",
    [
        {"capture_method": 5},
        {"no_definitions": 1, "definition_hash": 1},
        {"no_definitions": 1, "unmatched_call": 0, "output_hash": 1},
    ],
)
def test_a_shape_that_no_manifest_has_is_refused(facts: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"code|told|unmatched"):
        witness(code_of(facts_of(possible_codes(3, 1)[0]) | facts))
    with pytest.raises(ValueError, match="62 bits"):
        witness(1 << BITS)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(manifests())
def test_a_manifest_has_the_grade_of_its_witness_unless_a_gap_bears_a_name(document: dict[str, object]) -> None:
    manifest = parsed(document)
    read = read_manifests(manifests_of([to_avro(manifest)]))
    report = grade(manifest)
    named = [gap for gap in report.missing_evidence if gap.field.startswith(("tools.definitions.", "tools.calls."))]
    assert bool(read_named(read, everywhere(1))) is bool(named)
    if not named:
        expected = grade(witness(int(shape(read)[0])))
        assert (expected.level, expected.missing_evidence, expected.caveats) == (
            report.level,
            report.missing_evidence,
            report.caveats,
        )


def test_a_call_matches_definitions_of_its_own_manifest_alone() -> None:
    first = edited(exact(), {"tools.calls": [call("c", "theirs")]})
    second = edited(exact(), {"tools.definitions": [{"name": "theirs", "definition": artifact("value")}]})
    assert [facts_of(code)["unmatched_call"] for code in shapes_of([parsed(first), parsed(second)])] == [1, 1]


def test_the_symbols_of_specimens_are_those_of_the_schema_in_its_order() -> None:
    found: dict[str, tuple[str, ...]] = {}

    def collect(node: Node, name: str = "") -> None:
        if isinstance(node, RecordType):
            for entry in node.fields:
                collect(entry.type, f"{name}.{entry.name}")
        elif isinstance(node, UnionType):
            collect(node.branches[-1], name)
        elif isinstance(node, EnumType):
            found[name] = tuple(node.symbols)

    collect(manifest_type())
    assert found[".source.provenance"] == found[".model.seed.provenance"] == specimens.PROVENANCES
    assert found[".source.captureMethod"] == specimens.CAPTURE_METHODS
    assert found[".model.seed.capture"] == specimens.CAPTURES
    assert found[".model.determinism"] == specimens.DETERMINISMS
    assert found[".retrieval.replayMode"] == specimens.RETRIEVAL_MODES
    assert found[".tools.replayMode"] == specimens.TOOL_MODES
    assert found[".tools.callsComplete"] == specimens.CALLS_COMPLETE
    effects = [symbols for name, symbols in found.items() if name.startswith(".sideEffects.")]
    assert {symbols[3:] for symbols in effects} == {("live", "unknown")}
    assert len(effects) == 4


def test_an_empty_batch_has_no_shapes() -> None:
    read = read_manifests(manifests_of([]))
    assert len(shape(read)) == len(valid(read)) == 0


def test_where_there_is_no_manifest_there_is_no_valid_one() -> None:
    read = read_manifests(manifests_of([None, to_avro(parsed(exact())), None]))
    assert valid(read).tolist() == [False, True, False]
    assert isinstance(parse_avro(to_avro(parsed(exact()))), RuntimeManifest)
    assert np.unique(shape(read)).size > 1
