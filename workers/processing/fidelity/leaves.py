"""Validators of the manifest's leaves. Each takes what JSON or Avro delivered and raises a closed issue code."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from pydantic_core import PydanticCustomError

from workers.processing.fidelity.jsontext import Json, JsonRefusedError, check_value, loads_value
from workers.processing.fidelity.levels import IssueCode

CONTRACT: Final = "engram.replay-runtime"
CONTRACT_VERSION: Final = 2

_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?Z"
)
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY: Final = 2


@dataclass(frozen=True, slots=True)
class ValueText:
    """An artifact's ``value`` in the Avro form: one JSON text, not yet parsed (another type is an issue)."""

    text: object


class Unlisted:
    """Stands for a field that the Avro form does not have, although the JSON form does."""


def refusal(code: IssueCode) -> PydanticCustomError:
    """Return the error that the model reports as ``code``."""
    return PydanticCustomError(code.value, "{code}", {"code": code.value})


def text(value: object) -> str:
    """Accept any string of at least one character, untrimmed; pydantic's own type refuses lone surrogates."""
    if not isinstance(value, str):
        raise refusal(IssueCode.WRONG_TYPE)
    if not value:
        raise refusal(IssueCode.EMPTY_TEXT)
    return value


def digest(value: object) -> str:
    """Accept 64 hexadecimal digits; their case is kept."""
    if not isinstance(value, str):
        raise refusal(IssueCode.WRONG_TYPE)
    if not _DIGEST.fullmatch(value):
        raise refusal(IssueCode.BAD_DIGEST)
    return value


def timestamp(value: object) -> str:
    """Accept a UTC time of a real Gregorian date; kept as text, since ``datetime`` has no year 0."""
    if not isinstance(value, str):
        raise refusal(IssueCode.WRONG_TYPE)
    match = _TIMESTAMP.fullmatch(value)
    if match is None or int(match[3]) > _days_in(int(match[1]), int(match[2])):
        raise refusal(IssueCode.BAD_TIMESTAMP)
    return value


def literal(expected: str) -> Callable[[object], str]:
    """Return a validator that accepts exactly ``expected``."""

    def check(value: object) -> str:
        if isinstance(value, Unlisted):
            raise refusal(IssueCode.UNKNOWN_FIELD)
        if not isinstance(value, str):
            raise refusal(IssueCode.WRONG_TYPE)
        if value != expected:
            raise refusal(IssueCode.BAD_LITERAL)
        return expected

    return check


def version(value: object) -> int:
    """Accept the number 2 however it is written; ``true`` and ``"2"`` are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refusal(IssueCode.WRONG_TYPE)
    if isinstance(value, float) and not math.isfinite(value):
        raise refusal(IssueCode.BAD_NUMBER)
    if value != CONTRACT_VERSION:
        raise refusal(IssueCode.BAD_LITERAL)
    return CONTRACT_VERSION


def calls_complete(value: object) -> bool | Literal["unknown"]:
    """Accept true, false and ``unknown``; a ``Literal`` of all three would take 1 and 0.0 too."""
    if isinstance(value, bool):
        return value
    if value == "unknown":
        return "unknown"
    raise refusal(IssueCode.BAD_ENUM if isinstance(value, str) else IssueCode.WRONG_TYPE)


def json_value(value: object) -> Json:
    """Accept any JSON value whose numbers are finite doubles and whose nesting is bounded, in either form."""
    try:
        if isinstance(value, ValueText):
            if not isinstance(value.text, str):
                raise refusal(IssueCode.WRONG_TYPE)
            return loads_value(value.text)
        check_value(value)
    except JsonRefusedError as error:
        raise refusal(error.code) from None
    return Json(value)


def not_null(value: object) -> object:
    """Refuse an explicit null: a key may be missing, null never means that."""
    if value is None:
        raise refusal(IssueCode.WRONG_TYPE)
    return value


def _days_in(year: int, month: int) -> int:
    leap = month == _FEBRUARY and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _DAYS[month - 1] + leap
