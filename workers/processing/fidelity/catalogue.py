"""Every text of replay fidelity, by code: what it is called, why it matters, and what the producer can do.

``schemas/fidelity/codes.json`` is generated from here (`codes_json`) and ships the same texts to every language.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final, NamedTuple

from workers.processing.fidelity.gap_texts import GAPS
from workers.processing.fidelity.levels import Impact, IssueCode, Level


class Kind(StrEnum):
    """What a code stands for."""

    LEVEL = "level"
    GAP = "gap"
    CAVEAT = "caveat"
    FINDING = "finding"
    ISSUE = "issue"


class Entry(NamedTuple):
    """The texts of one code; ``impact`` is None where the code by itself takes nothing away from the level."""

    code: str
    kind: Kind
    impact: Impact | None
    label: str
    reason: str
    fix: str


RULES_EDITION: Final = "replay-runtime-2/1"
"""Contract and edition of the grading rules; rises whenever equal input may give another report."""

IMPACTS: Final = {
    Impact.BLOCKS_REPLAY: "Without this the reply cannot be replayed at all.",
    Impact.REDUCES_CONTROL: "A replay runs, but something that shaped the reply is out of its control.",
    Impact.PREVENTS_EXACTNESS: "A controlled replay runs, but nothing proves that it gives the same reply.",
}
"""What each impact means, in one sentence."""

_LEVELS: Final = (
    (
        Level.EXACT,
        "Exact",
        "Everything that shaped the reply is recorded and proven, so a replay must give the same reply.",
        "Nothing is missing.",
    ),
    (
        Level.CONTROLLED,
        "Controlled",
        "A replay can be run under the recorded conditions, but it may word the reply differently.",
        "Close the gaps that prevent exactness; the determinism of the model is usually the last of them.",
    ),
    (
        Level.PARTIAL,
        "Partial",
        "A replay can be run, but some of the conditions behind the reply are unknown and have to be assumed.",
        "Close the gaps that reduce control first; each names the evidence to record.",
    ),
    (
        Level.UNREPLAYABLE,
        "Unreplayable",
        "The reply cannot be replayed: without what is missing there is nothing to run, or no safe way to run it.",
        "Close the gaps that block replay first: the model's identity, the input, and isolation from live effects.",
    ),
)

_CAVEATS: Final = (
    (
        "not_exact",
        "Not exact",
        "A replay at this level does not prove what was said: another wording is no sign of an error.",
        "Compare meaning, not wording; or close the gaps.",
    ),
    (
        "seed_without_guarantee",
        "Seed without guarantee",
        "A seed is recorded, but the model does not guarantee that a seed repeats the reply.",
        "Do not rely on the seed alone.",
    ),
    (
        "hash_only_evidence",
        "Evidence by hash alone",
        "Some evidence exists only as a hash: it can confirm a candidate, it cannot be run.",
        "Keep the value where a replay has to run it; a hash is enough where it only has to be recognised.",
    ),
)

_FINDINGS: Final = (
    (
        "digest_mismatch",
        "Value and digest differ",
        "The sha256 beside a value is the digest neither of its text nor of its canonical JSON (RFC 8785).",
        "Hash the RFC 8785 form of the value that is sent, after redaction, not before.",
    ),
    (
        "call_error_hash_only",
        "Error of a call by hash alone",
        "A call failed, and only a hash of its error was kept.",
        "Capture the error as a value, redacted where needed.",
    ),
    (
        "call_error_unavailable",
        "Error of a call not captured",
        "A call failed, and its error was not captured.",
        "Capture the error as a value where the call is made.",
    ),
    (
        "call_error_unproven",
        "Error of a call not observed",
        "A call failed, and its error was declared, mapped or of unknown provenance.",
        "Capture the error at run time and mark it observed.",
    ),
    (
        "model_mismatch",
        "Two models named",
        "The fingerprint names another model than the manifest.",
        "Fill model.name and the fingerprint's model_id from the same response.",
    ),
    (
        "duplicate_call_id",
        "Call id used twice",
        "Two calls carry the same id, so their evidence cannot be told apart.",
        "Give every call of a reply an id of its own.",
    ),
    (
        "duplicate_tool_name",
        "Tool name used twice",
        "Two definitions carry the same name, so a call does not say which of them it means.",
        "List every tool once.",
    ),
)

_ISSUES: Final = (
    (
        IssueCode.MISSING,
        "Required field missing",
        "A field that the contract requires is not there.",
        "Send the field; where the evidence does not exist, an artifact says so as absent or unavailable.",
    ),
    (
        IssueCode.UNKNOWN_FIELD,
        "Unknown field",
        "The contract does not have this field here; every object is closed.",
        "Remove the field, or correct its spelling; an artifact has only the fields of its own form.",
    ),
    (
        IssueCode.WRONG_TYPE,
        "Wrong type",
        "The value has another type than the contract says; null is never allowed outside an artifact's value.",
        "Send the type of the contract; leave out what is missing instead of sending null.",
    ),
    (
        IssueCode.EMPTY_TEXT,
        "Empty text",
        "A text has no character.",
        "Leave the field out (Avro: send null), or send the text.",
    ),
    (
        IssueCode.BAD_ENUM,
        "Value outside its list",
        "The value is not one of those that the contract lists for this field.",
        "Use a listed value in exactly its spelling; tools are executed, retrieval is rerun.",
    ),
    (
        IssueCode.BAD_LITERAL,
        "Wrong constant",
        "The field has one allowed value, and this is another.",
        'Send format "engram.replay-runtime", version 2 as a number, algorithm "sha256".',
    ),
    (
        IssueCode.BAD_TIMESTAMP,
        "Malformed time",
        "The time is not a real date in the form YYYY-MM-DDTHH:MM[:SS[.d...]]Z.",
        "Send UTC with a capital Z and no offset.",
    ),
    (
        IssueCode.BAD_DIGEST,
        "Malformed digest",
        "A digest is exactly 64 hexadecimal digits.",
        "Send the bare digits of a SHA-256: no prefix, no white space.",
    ),
    (
        IssueCode.BAD_NUMBER,
        "Number out of range",
        "A number is too large for a double.",
        "Send numbers of that size as text.",
    ),
    (
        IssueCode.BAD_JSON,
        "Not JSON",
        "The text is not JSON in UTF-8 without a byte order mark; NaN and Infinity are not JSON.",
        "Serialize with a JSON library that follows RFC 8259.",
    ),
    (
        IssueCode.TOO_DEEP,
        "Nested too deep",
        "A value nests more than 128 arrays and objects.",
        "Flatten the value, or send it as text or by its hash.",
    ),
)

CATALOGUE: Final = {
    entry.code: entry
    for entry in (
        *(Entry(code.value, Kind.LEVEL, None, *texts) for code, *texts in _LEVELS),
        *(Entry(code, Kind.GAP, impact, *texts) for code, impact, *texts in GAPS),
        *(Entry(code, Kind.CAVEAT, None, *texts) for code, *texts in _CAVEATS),
        *(Entry(code, Kind.FINDING, None, *texts) for code, *texts in _FINDINGS),
        *(Entry(code.value, Kind.ISSUE, None, *texts) for code, *texts in _ISSUES),
    )
}
"""Every code with its texts, in the order in which they are told."""


def codes_of(kind: Kind) -> tuple[str, ...]:
    """Return the closed codes of one kind, in catalogue order."""
    return tuple(entry.code for entry in CATALOGUE.values() if entry.kind is kind)


def codes_json() -> str:
    """Return the catalogue as the text of ``schemas/fidelity/codes.json``."""
    codes = {
        entry.code: {
            "kind": entry.kind.value,
            "label": entry.label,
            "impact": entry.impact.value if entry.impact else None,
            "reason": entry.reason,
            "fix": entry.fix,
        }
        for entry in CATALOGUE.values()
    }
    impacts = {impact.value: meaning for impact, meaning in IMPACTS.items()}
    return json.dumps({"rules": RULES_EDITION, "impacts": impacts, "codes": codes}, indent=2, ensure_ascii=False) + "\n"
