"""Gaps that bear names: graded by shape and pattern, with each row's own names put in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from column_tables import manifests_of, turn
from columns_reference import APPEND_MS, Paths
from fidelity_manifests import artifact, call, edited, exact, parsed

from workers.metrics import catalogue as m
from workers.processing.columns import specimens
from workers.processing.columns.grade import judge_witness
from workers.processing.columns.manifests import read_manifests
from workers.processing.columns.named import MAX_BEARERS
from workers.processing.columns.routes import RouteReason
from workers.processing.columns.shape import BITS, facts_of, shape
from workers.processing.columns.tallies import tally
from workers.processing.columns.witness import Bearer, Kind, witness_record
from workers.processing.fidelity import to_avro
from workers.processing.fidelity.verdict import MAX_FIELD_CHARACTERS, Judgement
from workers.serde.columns.layout import layout


def turn_with(changes: dict[str, Any], mode: str = "run") -> dict[str, Any]:
    return turn(manifest=to_avro(parsed(edited(exact(mode), changes))))


def named_turn(name: str, mode: str = "run") -> dict[str, Any]:
    return turn_with({"tools.calls": [call(name, output=artifact("value", "unknown"))]}, mode)


def assert_judged_alike(records: list[dict[str, Any]], routes: dict[int, RouteReason] | None = None) -> None:
    paths = Paths()
    batch = paths.columns(records)
    assert batch.judged.routes == (routes or {})
    for row, (record, verdict) in enumerate(zip(records, batch.verdicts, strict=True)):
        assert verdict == (None if routes and row in routes else paths.reference(record).verdict), row


def _fits(facts: dict[str, int], bearer: Bearer) -> bool:
    """Return whether a manifest with these facts may have ``bearer``."""
    capture = specimens.CAPTURES[bearer.capture]
    if bearer.kind is Kind.DEFINITION:
        told = {"hash": "definition_hash", "absent": "definition_missing", "unavailable": "definition_missing"}
        return not facts["no_definitions"] and bool(facts.get(told.get(capture, ""), 1))
    return (not facts["no_definitions"] or bool(facts["unmatched_call"])) and bool(
        facts.get(f"{bearer.kind.name.lower()}_{capture}", 1)
    )


def test_a_witness_has_its_shape_whatever_bearers_of_its_forms_it_has() -> None:
    rng, records = Random(11), []
    codes: list[int] = []
    every = [Bearer(kind, capture, proven) for kind, capture, proven in product(Kind, range(4), range(4))]
    while len(codes) < 300:
        code = rng.getrandbits(BITS)
        fitting = [bearer for bearer in every if _fits(facts_of(code), bearer)]
        try:
            records.append(witness_record(code, sorted(rng.choices(fitting, k=rng.randrange(6))) if fitting else []))
        except ValueError:
            continue
        codes.append(code)
    assert shape(read_manifests(manifests_of(records))).tolist() == codes


@pytest.mark.parametrize("mode", ["run", "recorded"])
def test_every_form_of_definitions_inputs_and_outputs_is_judged_as_the_reference_does(mode: str) -> None:
    forms = [artifact(*form) for form in product(specimens.CAPTURES, specimens.PROVENANCES)]
    assert_judged_alike(
        [
            turn_with({place: form}, mode)
            for place in ("tools.definitions.0.definition", "tools.calls.0.input", "tools.calls.0.output")
            for form in forms
        ]
    )


def test_names_of_definitions_and_calls_come_in_the_order_of_the_sweep() -> None:
    mapped, unknown = artifact("value", "mapped"), artifact("hash", "unknown")
    tools = [{"name": name, "definition": form} for name, form in (("b", mapped), ("t", unknown), ("a", mapped))]
    calls = [call("z", input=mapped, output=unknown), call("y", output=mapped), call("x", input=unknown)]
    assert_judged_alike([turn_with({}), turn_with({"tools.definitions": tools, "tools.calls": calls}), turn()])


def test_names_that_look_like_placeholders_or_fields_are_only_names() -> None:
    names = ("{0}", "{1}", "{0", "%s", "a.output", "tools.calls.b", "\x00", "ü", "\U0001f600", " ", "seed")
    assert_judged_alike([named_turn(name) for name in names])
    assert_judged_alike([turn_with({"tools.calls": [call(name, input=artifact("value", "mapped")) for name in names]})])


def test_a_field_that_the_reference_cuts_is_left_to_it() -> None:
    longest = MAX_FIELD_CHARACTERS - len("tools.calls..output")
    records = [named_turn(letter * (longest + more)) for letter in "nü\U0001f600" for more in (0, 1)]
    assert_judged_alike(records, dict.fromkeys((1, 3, 5), RouteReason.DYNAMIC))


def test_too_many_bearers_are_left_to_the_reference() -> None:
    records = [
        turn_with({"tools.calls": [call(f"c{n}", input=artifact("value", "mapped")) for n in range(count)]})
        for count in (MAX_BEARERS, MAX_BEARERS + 1, 300)
    ]
    assert_judged_alike(records, dict.fromkeys((1, 2), RouteReason.DYNAMIC))


def test_a_row_that_contradicts_itself_is_left_to_the_reference_for_that() -> None:
    twice = [call("c", input=artifact("value", "mapped"))] * 2
    assert_judged_alike([turn_with({"tools.calls": twice})], {0: RouteReason.FINDINGS})


def test_another_model_is_found_beside_gaps_with_names() -> None:
    record = named_turn("c")
    fields = (field.name for field in layout().field("fingerprint").type)
    record["fingerprint"] = dict.fromkeys(fields) | {"model_id": "other"}
    assert_judged_alike([named_turn("c"), record])


def test_rows_that_differ_in_names_alone_ask_the_reference_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(code: int, bearers: Sequence[Bearer]) -> Judgement:
        asked.append(code)
        return judge_witness(code, bearers)

    monkeypatch.setattr("workers.processing.columns.named.judge_witness", counted)
    form = artifact("hash", "mapped")
    # A pattern that no other test has, since answers are remembered.
    records = [
        turn_with({"tools.calls": [call(f"{name}{n}", input=form, output=form) for n in range(11)]}) for name in "abcd"
    ]
    assert_judged_alike(records)
    assert len(asked) == 1


def test_rows_with_names_are_counted_with_all_others() -> None:
    judged = Paths().columns([turn_with({}), named_turn("a"), named_turn("b"), named_turn("n" * 300)]).judged
    counted = np.array([True, True, False, True])
    counts = tally(judged, counted, [APPEND_MS] * 4).counts
    assert counts[m.FIDELITY_GAPS, ("artifact_provenance_unknown",)] == 1
    assert {labels[1]: n for (metric, labels), n in counts.items() if metric is m.FIDELITY_TURNS} == {
        "exact": 1,
        "partial": 1,
    }
