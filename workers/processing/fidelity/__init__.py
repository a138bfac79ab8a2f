"""Replay fidelity of one runtime manifest: read it, grade it, look for contradictions.

The rules stand in `rules` and nowhere else; every text stands in `catalogue`.
"""

from workers.processing.fidelity.avro_form import NotRepresentableError, parse_avro, to_avro
from workers.processing.fidelity.catalogue import CATALOGUE, RULES_EDITION
from workers.processing.fidelity.issues import Issue, Issues
from workers.processing.fidelity.levels import Impact, IssueCode, Level
from workers.processing.fidelity.manifest import RuntimeManifest
from workers.processing.fidelity.parsing import parse_json
from workers.processing.fidelity.report import Report, grade
from workers.processing.fidelity.rules import RULES, Gap

__all__ = [
    "CATALOGUE",
    "RULES",
    "RULES_EDITION",
    "Gap",
    "Impact",
    "Issue",
    "IssueCode",
    "Issues",
    "Level",
    "NotRepresentableError",
    "Report",
    "RuntimeManifest",
    "grade",
    "parse_avro",
    "parse_json",
    "to_avro",
]
