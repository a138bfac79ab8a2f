"""Field rules of decoded records. Interface settled; see the functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.reasons import Rejection


def validate_turn(turn: Mapping[str, Any]) -> Rejection | None:
    """Return why the decoded turn is dead-lettered, None where it is processed."""
    raise NotImplementedError


def validate_state_write(write: Mapping[str, Any]) -> Rejection | None:
    """Return why the decoded state write is dead-lettered, None where it is processed."""
    raise NotImplementedError
