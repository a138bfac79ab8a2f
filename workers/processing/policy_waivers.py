"""Waivers: known gaps that an owner has promised to close by a day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from workers.processing.fingerprint import COMPLETE_STATES, PARTS, FieldState
from workers.processing.policy_values import Day, Pattern, Section, one_of

LONGEST_WAIVER: Final = timedelta(days=30)
"""How far ahead of the day on which the file is read a waiver may expire."""

_ANY: Final = "*"
_GAPS: Final = tuple(state for state in FieldState if state not in COMPLETE_STATES)
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class Waiver(Section):
    """A known gap. It sets the metric label ``waived``, which mutes tickets; counts, states, verdicts stay as they are.

    ``service`` and ``path`` are patterns, ``expires`` is the last day on which it applies, UTC.
    """

    service: Pattern
    path: Pattern = _ANY
    field: Annotated[str, AfterValidator(one_of(*PARTS))]
    state: Annotated[str, AfterValidator(one_of(_ANY, *_GAPS))] = _ANY
    owner: _Name
    ticket: _Name
    expires: Day

    @property
    def until(self) -> int:
        """First moment at which it no longer applies, milliseconds since the epoch."""
        end = datetime.combine(self.expires + timedelta(days=1), time(), UTC)
        return int(end.timestamp()) * 1000

    def covers(self, service: str, path: str, field: str, state: str) -> bool:
        """Return whether it is for this gap, expired or not."""
        return (
            field == self.field
            and self.state in (_ANY, state)
            and fnmatchcase(service, self.service)
            and fnmatchcase(path, self.path)
        )


class WaiverBook:
    """The waivers of one policy. Times are milliseconds since the epoch: the append time of what is judged."""

    __slots__ = ("_covered_until", "_waivers")

    def __init__(self, waivers: Iterable[Waiver]) -> None:
        self._waivers = tuple(waivers)
        # Services and paths repeat from turn to turn.
        self._covered_until = lru_cache(maxsize=4_096)(self._latest_end)

    def waived(self, service: str, path: str, field: str, state: str, at: int) -> bool:
        """Return whether a gap is waived at ``at``. ``path`` is ``unset`` where the producer names none."""
        return bool(self._waivers) and at < self._covered_until(service, path, field, state)

    def active(self, at: int) -> tuple[Waiver, ...]:
        """Return the waivers in force at ``at``."""
        return tuple(waiver for waiver in self._waivers if at < waiver.until)

    def expired(self, at: int) -> tuple[Waiver, ...]:
        """Return the waivers that have stopped applying at ``at`` and still stand in the file."""
        return tuple(waiver for waiver in self._waivers if at >= waiver.until)

    def too_long(self, today: date) -> list[str]:
        """Return a line for each waiver that expires more than `LONGEST_WAIVER` after ``today``."""
        latest = today + LONGEST_WAIVER
        return [
            f"waivers[{place}].expires: is more than {LONGEST_WAIVER.days} days ahead; write {latest} or earlier"
            for place, waiver in enumerate(self._waivers)
            if waiver.expires > latest
        ]

    def _latest_end(self, service: str, path: str, field: str, state: str) -> int:
        return max((waiver.until for waiver in self._waivers if waiver.covers(service, path, field, state)), default=0)
