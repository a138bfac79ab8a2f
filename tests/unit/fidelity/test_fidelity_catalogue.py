"""The texts: every code has its own, and the file that other languages read is the catalogue."""

from __future__ import annotations

from workers.processing.fidelity import IssueCode, Level
from workers.processing.fidelity.catalogue import CATALOGUE, Kind, codes_json, codes_of
from workers.resources import resource_folder


def test_the_published_codes_are_generated_from_the_catalogue() -> None:
    published = (resource_folder("schemas") / "fidelity" / "codes.json").read_text(encoding="utf-8")
    assert published == codes_json(), "write codes_json() to schemas/fidelity/codes.json"


def test_every_level_and_issue_has_its_texts() -> None:
    assert codes_of(Kind.LEVEL) == tuple(Level)
    assert codes_of(Kind.ISSUE) == tuple(IssueCode)


def test_only_gaps_have_an_impact() -> None:
    assert {entry.kind for entry in CATALOGUE.values() if entry.impact is not None} == {Kind.GAP}
    assert all(CATALOGUE[code].impact is not None for code in codes_of(Kind.GAP))


def test_every_text_is_whole_and_no_reason_is_told_twice() -> None:
    for entry in CATALOGUE.values():
        assert entry.label
        assert entry.reason.endswith("."), entry.code
        assert entry.fix.endswith("."), entry.code
    reasons = [entry.reason for entry in CATALOGUE.values()]
    assert len(set(reasons)) == len(reasons)
