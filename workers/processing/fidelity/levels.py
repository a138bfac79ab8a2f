"""The closed vocabularies of a grade: levels, impacts and the codes of what makes a manifest invalid."""

from __future__ import annotations

from enum import StrEnum


class Level(StrEnum):
    """How far one reply can be replayed, best first."""

    EXACT = "exact"
    CONTROLLED = "controlled"
    PARTIAL = "partial"
    UNREPLAYABLE = "unreplayable"


class Impact(StrEnum):
    """What a piece of missing evidence takes away, worst first."""

    BLOCKS_REPLAY = "blocks_replay"
    REDUCES_CONTROL = "reduces_control"
    PREVENTS_EXACTNESS = "prevents_exactness"


class IssueCode(StrEnum):
    """Why a manifest breaks its contract, and so has no grade."""

    MISSING = "missing"
    UNKNOWN_FIELD = "unknown_field"
    WRONG_TYPE = "wrong_type"
    EMPTY_TEXT = "empty_text"
    BAD_ENUM = "bad_enum"
    BAD_LITERAL = "bad_literal"
    BAD_TIMESTAMP = "bad_timestamp"
    BAD_DIGEST = "bad_digest"
    BAD_NUMBER = "bad_number"
    BAD_JSON = "bad_json"
    TOO_DEEP = "too_deep"
