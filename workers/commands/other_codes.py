"""Words that records and verdicts carry beside the codes of fidelity, so that ``fidelity explain`` knows them too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from workers import reasons
from workers.processing.fidelity.verdict import Status
from workers.processing.fingerprint import COMPLETE_STATES
from workers.processing.policy_reference import STATES
from workers.reasons_reference import PAGE as REASONS_PAGE

COMPLETENESS_PAGE: Final = "docs/concepts/completeness.md"
FIDELITY_PAGE: Final = "docs/concepts/replay-fidelity.md"

STATUSES: Final[Mapping[Status, tuple[str, str | None]]] = {
    Status.GRADED: ("The manifest was read and graded; level and gaps of the verdict say the rest.", None),
    Status.NO_MANIFEST: (
        "The turn carries no manifest, so its replay is not graded.",
        "Send a manifest with the turn.",
    ),
    Status.MANIFEST_INVALID: (
        "The manifest breaks its contract, so it is not graded.",
        "See manifest_issues of the verdict; each has a place and a code to explain.",
    ),
}
"""What each status of grading means, and what the producer can do, None where nothing is to be done."""


class OtherCode(NamedTuple):
    """The texts of one word; ``reason_class`` is that of a dead letter's reason, None for all others."""

    code: str
    kind: str
    reason_class: str | None
    meaning: str
    fix: str | None
    page: str


def other_codes() -> dict[str, OtherCode]:
    """Return the reasons of dead letters, the states of completeness and the statuses of grading, by their words."""
    found = [
        OtherCode(entry.reason, "dead-letter reason", entry.reason_class.value, entry.meaning, entry.fix, REASONS_PAGE)
        for entry in reasons.CATALOGUE.values()
    ]
    for state, when in STATES.items():
        effect = "complete" if state in COMPLETE_STATES else "incomplete"
        meaning = f"A part of the fingerprint: {when.replace('`', '')}. Counts as {effect}."
        found.append(OtherCode(state, "completeness state", None, meaning, None, COMPLETENESS_PAGE))
    for status, (meaning, fix) in STATUSES.items():
        found.append(OtherCode(status, "grading status", None, meaning, fix, FIDELITY_PAGE))
    return {entry.code: entry for entry in found}
