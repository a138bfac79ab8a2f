"""The completeness part of the policy, compiled for one tenant and definition."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

DEFAULT_SENTINELS: Final = frozenset({"", "unknown", "n/a", "none", "null", "0.0.0"})
DEFAULT_ALIASES: Final = frozenset({"latest", "production", "prod", "default", "main", "current", "live"})
DEFAULT_COUNT_CAP: Final = 100_000
DEFAULT_DEPTH_CAP: Final = 1_000


def normalise(text: str) -> str:
    """Return ``text`` as it is compared: NFKC, trimmed, case-folded. Records keep the raw form."""
    return unicodedata.normalize("NFKC", text).strip().casefold()


@dataclass(frozen=True, slots=True, eq=False)
class CompletenessPolicy:
    """What decides the state of a fingerprint field. Compared and hashed by identity, so it can key a cache.

    ``sentinels`` and ``aliases`` are normalised. ``count_cap`` bounds each piece of ``state_counts``, ``depth_cap``
    bounds ``summary_depth``. ``patterns`` maps a text field of the fingerprint to what its raw value must match in
    full. ``required_pieces`` are the keys that ``state_counts`` must hold.
    """

    sentinels: frozenset[str] = DEFAULT_SENTINELS
    aliases: frozenset[str] = DEFAULT_ALIASES
    count_cap: int = DEFAULT_COUNT_CAP
    depth_cap: int = DEFAULT_DEPTH_CAP
    patterns: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    required_pieces: frozenset[str] = frozenset()
