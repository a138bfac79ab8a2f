"""From JSON to a valid manifest, or to everything that is wrong with it."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from workers.processing.fidelity.issues import Issue, Issues, issues_of
from workers.processing.fidelity.jsontext import JsonRefusedError, loads
from workers.processing.fidelity.levels import IssueCode
from workers.processing.fidelity.manifest import RuntimeManifest

# The validator gives up on an object with a key that is not UTF-8, so such keys travel in disguise.
_DISGUISE: Final = "\x00key:"
_DEEPEST_OBJECT: Final = 6


def parse_json(document: str | bytes) -> RuntimeManifest | Issues:
    """Read a manifest in its JSON form (UTF-8 without BOM when given as bytes).

    Returns the manifest, or all issues in the order of the contract. Never raises on any input text.

    Source: engram.replay-runtime v2, the JSON form.
    """
    try:
        text = document.decode("utf-8") if isinstance(document, bytes) else document
        return validate(loads(text))
    except UnicodeDecodeError:
        return (Issue("", IssueCode.BAD_JSON),)
    except JsonRefusedError as error:
        return (Issue("", error.code),)


def validate(value: object) -> RuntimeManifest | Issues:
    """Judge a parsed manifest: the model, or all issues."""
    try:
        return RuntimeManifest.model_validate(value)
    except ValidationError as error:
        lines = _lines(error)
        if not any(line["type"] == "string_unicode" for line in lines):
            return issues_of(lines)
    try:
        return RuntimeManifest.model_validate(_disguised(value, _DEEPEST_OBJECT))
    except ValidationError as error:
        return tuple(Issue(_unmasked(issue.path), issue.code) for issue in issues_of(_lines(error)))


def _lines(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False)


def _disguised(value: object, depth: int) -> object:
    if depth == 0:
        return value
    if isinstance(value, list):
        return [_disguised(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {
            _disguised_key(key): item if key == "value" else _disguised(item, depth - 1) for key, item in value.items()
        }
    return value


def _disguised_key(key: str) -> str:
    if key.startswith(_DISGUISE) or not _is_utf8(key):
        return _DISGUISE + key.encode("utf-8", "surrogatepass").decode("latin-1")
    return key


def _unmasked(path: str) -> str:
    start = path.rfind("/" + _DISGUISE)
    if start < 0:
        return path
    key = path[start + 1 + len(_DISGUISE) :]
    return path[: start + 1] + key.encode("latin-1").decode("utf-8", "surrogatepass")


def _is_utf8(key: str) -> bool:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
