"""JSON as the manifest contract has it: stricter than Python's on numbers, open on text, bounded in depth."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Final, NoReturn

from workers.processing.fidelity.levels import IssueCode

MAX_VALUE_NESTING: Final = 128
"""Containers that may be nested in an artifact's ``value``."""

MAX_TEXT_NESTING: Final = 512
"""Containers that may be nested in any text we parse: well below the interpreter's recursion limit, so that the
outcome depends on the text and never on how deep the caller's stack is."""

# An integer longer than this is beyond every double; int() would refuse, or take quadratic time on, much longer ones.
_MAX_INTEGER_CHARACTERS: Final = 400

# Below this size float() cannot overflow, and needs no try.
_SAFELY_FINITE: Final = 10**300

# A string, also one that is never closed, or a bracket. Possessive, so that hostile text costs linear time.
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{]|[\]}]', re.DOTALL)

# An integer of no more characters is below every overflow.
_SAFE_INTEGER_CHARACTERS: Final = 300


class JsonRefusedError(ValueError):
    """A text is not JSON by the contract; ``code`` says in which way, the message never quotes the text."""

    def __init__(self, code: IssueCode) -> None:
        super().__init__(code.value)
        self.code = code


@dataclass(frozen=True, slots=True)
class Json:
    """One JSON value, with the text it came as where it came as a text of its own."""

    parsed: object
    text: str | None = field(default=None, compare=False)


def loads(text: str) -> object:
    """Parse one JSON text; of duplicate keys the last wins, lone surrogates stay, numbers are not yet judged.

    Raises:
        JsonRefusedError: ``bad_json``, or ``too_deep`` beyond `MAX_TEXT_NESTING`.

    Source: engram.replay-runtime v2, the JSON form.
    """
    if text.count("[") + text.count("{") > MAX_TEXT_NESTING and _nesting(text) > MAX_TEXT_NESTING:
        raise JsonRefusedError(IssueCode.TOO_DEEP)
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise JsonRefusedError(IssueCode.TOO_DEEP) from None
    except ValueError:
        raise JsonRefusedError(IssueCode.BAD_JSON) from None


def loads_value(text: str) -> Json:
    """Parse the text of an artifact's ``value`` and judge it.

    Raises:
        JsonRefusedError: ``bad_json``, ``bad_number`` or ``too_deep``.
    """
    if text.count("[") + text.count("{") <= MAX_VALUE_NESTING:
        try:
            return Json(_PLAIN_DECODER.decode(text), text)
        except ValueError:
            pass  # what follows tells why, in the order of the contract
    value = loads(text)
    check_value(value)
    return Json(value, text)


def check_value(value: object) -> None:
    """Judge a parsed value: every number a finite double, at most `MAX_VALUE_NESTING` containers nested.

    Raises:
        JsonRefusedError: ``bad_number`` or ``too_deep``, whichever lies less deep.
    """
    level, depth = [value], 0
    while level:
        below: list[object] = []
        holds_container = False
        for item in level:
            if isinstance(item, dict):
                holds_container = True
                below.extend(item.values())
            elif isinstance(item, list):
                holds_container = True
                below.extend(item)
            elif isinstance(item, float | int):
                _check_number(item)
        depth += holds_container
        if depth > MAX_VALUE_NESTING:
            raise JsonRefusedError(IssueCode.TOO_DEEP)
        level = below


def _check_number(number: float) -> None:
    if -_SAFELY_FINITE < number < _SAFELY_FINITE:
        return
    try:
        finite = math.isfinite(float(number))
    except OverflowError:
        finite = False
    if not finite:
        raise JsonRefusedError(IssueCode.BAD_NUMBER)


def _nesting(text: str) -> int:
    depth = deepest = 0
    for token in _STRING_OR_BRACKET.findall(text):
        if token in ("[", "{"):
            depth += 1
            deepest = max(deepest, depth)
        elif token in ("]", "}"):
            depth -= 1
    return deepest


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _MAX_INTEGER_CHARACTERS else float(text)


def _plain_integer(text: str) -> int:
    if len(text) > _SAFE_INTEGER_CHARACTERS:
        raise JsonRefusedError(IssueCode.BAD_NUMBER)
    return int(text)


def _plain_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonRefusedError(IssueCode.BAD_NUMBER)
    return number


def _refuse_constant(_name: str) -> NoReturn:
    raise JsonRefusedError(IssueCode.BAD_JSON)


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse_constant)
_PLAIN_DECODER: Final = json.JSONDecoder(
    parse_int=_plain_integer, parse_float=_plain_float, parse_constant=_refuse_constant
)
"""Takes only what needs no further judgement of its numbers: looking at each costs less than searching all text."""
