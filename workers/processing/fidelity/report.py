"""Grading: from a valid manifest to its level, the evidence it lacks, and the caveats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from workers.processing.fidelity.catalogue import CATALOGUE
from workers.processing.fidelity.levels import Impact, Level
from workers.processing.fidelity.manifest import RuntimeManifest
from workers.processing.fidelity.rules import RULES, Gap, Rule, Sweep, is_value
from workers.processing.fidelity.sweep import sweep

_WORST_FIRST: Final = (
    (Impact.BLOCKS_REPLAY, Level.UNREPLAYABLE),
    (Impact.REDUCES_CONTROL, Level.PARTIAL),
    (Impact.PREVENTS_EXACTNESS, Level.CONTROLLED),
)


@dataclass(frozen=True, slots=True)
class Report:
    """The grade of one manifest; it depends on the manifest alone."""

    manifest_id: str
    level: Level
    missing_evidence: tuple[Gap, ...]
    caveats: tuple[str, ...]

    @property
    def deterministic(self) -> bool:
        """Tell whether a replay must give the same reply: exactly at the level ``exact``."""
        return self.level is Level.EXACT

    @property
    def summary(self) -> str:
        """Return the one sentence that explains the level."""
        return CATALOGUE[self.level].reason

    def as_dict(self) -> dict[str, Any]:
        """Return the report in its JSON form, with the texts of each code."""
        return {
            "manifestId": self.manifest_id,
            "level": self.level.value,
            "deterministic": self.deterministic,
            "summary": self.summary,
            "missingEvidence": [
                {
                    "field": gap.field,
                    "label": CATALOGUE[gap.code].label,
                    "impact": gap.impact.value,
                    "reason": CATALOGUE[gap.code].reason,
                    "code": gap.code,
                }
                for gap in self.missing_evidence
            ],
            "caveats": list(self.caveats),
        }


def grade(manifest: RuntimeManifest, rules: Sequence[Rule | Sweep] = RULES) -> Report:
    """Grade a valid manifest by ``rules``.

    A gap whose field and impact are already listed is dropped, so that the first code wins.

    Source: docs/concepts/replay-fidelity.md, "Levels".
    """
    codes: dict[tuple[str, Impact], str] = {}
    for rule in rules:
        for field, impact, code in rule.gaps(manifest):
            codes.setdefault((field, impact), code)
    level = _level({impact for _, impact in codes})
    return Report(
        manifest_id=manifest.id,
        level=level,
        missing_evidence=tuple(Gap(field, impact, code) for (field, impact), code in codes.items()),
        caveats=_caveats(manifest, level),
    )


def _level(impacts: set[Impact]) -> Level:
    return next((level for impact, level in _WORST_FIRST if impact in impacts), Level.EXACT)


def _caveats(manifest: RuntimeManifest, level: Level) -> tuple[str, ...]:
    conditions = (
        ("not_exact", level is not Level.EXACT),
        ("seed_without_guarantee", is_value(manifest.model.seed) and manifest.model.determinism != "guaranteed"),
        ("hash_only_evidence", any(artifact.capture == "hash" for _, artifact in sweep(manifest))),
    )
    return tuple(code for code, holds in conditions if holds)
