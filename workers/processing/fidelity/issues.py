"""What makes a manifest invalid: JSON Pointers with closed codes, read from the model's validation errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pydantic_core import ErrorDetails

from workers.processing.fidelity.levels import IssueCode

ARTIFACT_KEYS: Final = frozenset(
    {"input", "system", "developer", "parameters", "seed", "configuration", "output", "definition", "error"}
)
"""Keys under which the contract has an artifact; the validator puts the artifact's form behind them."""

_LITERAL_ERRORS: Final = frozenset({"literal_error", "string_unicode"})
_OWN_CODES: Final = frozenset(IssueCode)


class Issue(NamedTuple):
    """One defect: where (RFC 6901 pointer) and which; never a value of the manifest."""

    path: str
    code: IssueCode


Issues = tuple[Issue, ...]
"""All defects of one manifest in the order of the contract, unknown keys last in their object, one per path."""


def issues_of(lines: Iterable[ErrorDetails]) -> Issues:
    """Return the issues behind the ``lines`` of a validation error, one per path, in their order."""
    by_path: dict[str, IssueCode] = {}
    for line in lines:
        by_path.setdefault(pointer(_without_forms(line["loc"])), _code(line["type"], line["input"]))
    return tuple(Issue(path, code) for path, code in by_path.items())


def pointer(location: Iterable[str | int]) -> str:
    """Return the JSON Pointer (RFC 6901) of a location; the root is the empty text."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def _without_forms(location: tuple[str | int, ...]) -> list[str | int]:
    path: list[str | int] = []
    after_artifact = False
    for part in location:
        if after_artifact:
            after_artifact = False
            continue
        path.append(part)
        after_artifact = part in ARTIFACT_KEYS
    return path


def _code(kind: str, received: object) -> IssueCode:
    if kind in _OWN_CODES:
        return IssueCode(kind)
    if kind == "extra_forbidden":
        return IssueCode.UNKNOWN_FIELD
    if kind in _LITERAL_ERRORS and isinstance(received, str):
        return IssueCode.BAD_ENUM
    return IssueCode.WRONG_TYPE
