"""Why a row of a batch of columns is processed by the reference path instead; no reason is a verdict."""

from __future__ import annotations

from enum import StrEnum


class RouteReason(StrEnum):
    """Closed set of reasons. The reference decides what becomes of the row: all of them may end well there."""

    DECODE = "decode"
    """The bytes are not exactly one record of the writer's schema, or only the reference can tell."""
    ISOLATION = "isolation"
    """A row near it failed, or too many did, to look for each of them."""
    PANIC = "panic"
    """The native decoder crashed on the batch, or did so before."""
    DUPLICATE_KEY = "duplicate_key"
    """A map has a key twice."""
    LIMIT = "limit"
    """A text or a collection is over its limit, or near enough to be counted exactly."""
    INVALID_TURN = "invalid_turn"
    """A field rule of turns may be broken."""
    INVALID = "invalid"
    """The manifest may break its contract."""
    UNKNOWN_FIELD = "unknown_field"
    """The manifest has a value in a field we do not know."""
    DYNAMIC = "dynamic"
    """Gaps bear names of the producer's, of tools or calls, that are too long or too many."""
    FINDINGS = "findings"
    """The manifest may contradict itself or the fingerprint."""
