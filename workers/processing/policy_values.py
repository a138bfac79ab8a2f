"""Values of the policy file that YAML has no type for, and what to say when a value is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Annotated, Final, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_DURATION: Final = re.compile(r"\s*(\d{1,12})\s*(ms|s|m|h|d)\s*")
_LONGEST: Final = timedelta(days=3650)


def parse_duration(value: object) -> timedelta:
    """Return a duration such as ``500ms``, ``60s``, ``30 m``, ``24h`` or ``7 d``.

    Raises:
        ValueError: it is not such a text, or longer than ten years.
    """
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a whole number and a unit of ms, s, m, h or d, such as 60s or 30m")
    duration = int(match[1]) * _UNITS[match[2]]
    if duration > _LONGEST:
        raise ValueError(f"write at most {format_duration(_LONGEST)}")
    return duration


def format_duration(duration: timedelta) -> str:
    """Return ``duration`` with the largest unit that leaves it whole: what `parse_duration` and Prometheus read."""
    for unit, size in reversed(_UNITS.items()):
        if duration % size == timedelta() and (duration or unit == "s"):
            return f"{duration // size}{unit}"
    raise ValueError("durations are whole milliseconds")


def _positive(duration: timedelta) -> timedelta:
    if not duration:
        raise ValueError("must be more than 0")
    return duration


def _as_date(value: object) -> object:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError("write a date such as 2026-01-31") from None
    return value


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a validator that takes the texts ``allowed`` and names them when it gets another."""

    def check(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"write one of {', '.join(allowed)}")
        return value

    return check


class Section(BaseModel):
    """A mapping of the file: no key unknown, no value converted, nothing changed later."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)


def keys_of(section: type[BaseModel]) -> set[str]:
    """Return all keys that may stand in ``section`` and the sections within it."""
    keys = set(section.model_fields)
    for field in section.model_fields.values():
        for nested in _sections(field.annotation):
            keys |= keys_of(nested)
    return keys


def _sections(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
"""A duration in the file's notation; zero is allowed."""
Day = Annotated[date, BeforeValidator(_as_date)]
"""A calendar day, UTC."""
Count = Annotated[int, Field(ge=1, le=2**53)]
"""A whole number from 1."""
PositiveDuration = Annotated[Duration, AfterValidator(_positive)]
"""A duration above zero."""
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A share from 0 to 1."""
Texts = Annotated[frozenset[str], Field(strict=False, max_length=1_000)]
"""Texts whose order does not matter."""
Pattern = Annotated[str, Field(min_length=1, max_length=200)]
"""A shell pattern, compared as is: ``*`` any text, ``?`` any character, ``[ab]`` one of them."""

_YAML_TYPES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "true or false"),
    (int, "a number"),
    (float, "a number"),
    (str, "text"),
    (datetime, "a date with a time"),
    (date, "a date"),
    (dict, "a mapping"),
    (list, "a list"),
)


_ADVICE: Final = {
    "frozen_set_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must match [A-Za-z0-9._:/-]{1,64}, as services in labels do",
    "date_type": "must be a date such as 2026-01-31",
}
"""What to write instead, by pydantic's kind of error, where its own words speak of Python."""


def problems(error: ValidationError, keys: Iterable[str]) -> list[str]:
    """Return one line for each problem: the key, what to write, the type of the value that stands there.

    ``keys`` are all keys the file may have, for "did you mean".
    """
    known = sorted(set(keys))
    return [
        f"{_place(entry['loc'])}: {_advice(entry['type'], entry['msg'], entry['loc'], entry['input'], known)}"
        for entry in error.errors(include_url=False)
    ]


def _place(location: tuple[int | str, ...]) -> str:
    steps = [step for step in location if step != "[key]"]
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def _advice(kind: str, message: str, location: tuple[int | str, ...], value: object, keys: list[str]) -> str:
    if kind == "extra_forbidden":
        near = get_close_matches(str(location[-1]), keys, n=1)
        return f"there is no such key; {f'did you mean `{near[0]}`?' if near else 'remove it'}"
    if kind == "missing":
        return "is missing; add it"
    got = yaml_type(value)
    if kind == "string_type" and not isinstance(value, list | dict):
        return f"must be text, got {got}; put the value in quotes"
    own_words = message.removeprefix("Value error, ").replace("Input should be", "must be")
    return f"{_ADVICE.get(kind, own_words)}, got {got}"


def yaml_type(value: object) -> str:
    """Return the name of the YAML type of ``value``."""
    return next((name for kind, name in _YAML_TYPES if isinstance(value, kind)), "null")
