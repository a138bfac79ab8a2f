"""The completeness part of the policy file: what states are judged by, for all and for some tenants and definitions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Any, Final, Self

import rfc8785
from pydantic import AfterValidator, Field, model_validator

from workers.processing.fingerprint import MAX_PIECES, MAX_TEXT, TEXT_FIELDS, is_piece_name
from workers.processing.policy_rules import DEFAULT_COUNT_CAP, DEFAULT_DEPTH_CAP, CompletenessPolicy, normalise
from workers.processing.policy_values import Count, Pattern, Section, Texts

_ANY: Final = "*"
COMPLETENESS_KEYS: Final = ("sentinels", "aliases", "caps", "patterns", "required_pieces")
"""Keys of the policy that decide states, and so its version."""


def _normalised(texts: frozenset[str]) -> frozenset[str]:
    return frozenset(normalise(text) for text in texts)


def _piece_names(names: frozenset[str]) -> frozenset[str]:
    if not all(is_piece_name(name) for name in names):
        raise ValueError("write names of pieces that match [a-z][a-z0-9_]{0,63}")
    return names


def _compilable(patterns: dict[str, str]) -> dict[str, str]:
    for name, pattern in patterns.items():
        if name not in TEXT_FIELDS:
            raise ValueError(f"{name!r} can have no pattern; those that can are {', '.join(TEXT_FIELDS)}")
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError):
            raise ValueError(f"the pattern of {name} is not a regular expression of Python; correct it") from None
    return patterns


Markers = Annotated[Texts, AfterValidator(_normalised)]
Pieces = Annotated[Texts, Field(max_length=MAX_PIECES), AfterValidator(_piece_names)]
FieldPatterns = Annotated[dict[str, Pattern], AfterValidator(_compilable)]


class Caps(Section):
    """Values above these are implausible."""

    count: Annotated[Count, Field(description="largest count of one piece of `state_counts`")] = DEFAULT_COUNT_CAP
    depth: Annotated[Count, Field(description="largest `summary_depth`")] = DEFAULT_DEPTH_CAP


class Override(Section):
    """Completeness keys for some tenants and definitions; ``tenant`` and ``definition`` are patterns."""

    tenant: Pattern = _ANY
    definition: Pattern = _ANY
    sentinels: Markers | None = None
    aliases: Markers | None = None
    caps: Caps | None = None
    patterns: FieldPatterns | None = None
    required_pieces: Pieces | None = None

    @model_validator(mode="after")
    def _narrows_and_says_something(self) -> Self:
        if self.tenant == _ANY and self.definition == _ANY:
            raise ValueError("give `tenant` or `definition`; what holds for all belongs at the top of the file")
        if not self.rules():
            raise ValueError(f"give at least one of {', '.join(COMPLETENESS_KEYS)}")
        return self

    def matches(self, tenant: str, definition: str | None) -> bool:
        """Return whether it applies. A turn without a definition is matched by ``*`` alone."""
        return fnmatchcase(tenant, self.tenant) and (
            self.definition == _ANY or (definition is not None and fnmatchcase(definition, self.definition))
        )

    def rules(self) -> dict[str, Any]:
        """Return the completeness keys it gives."""
        return self.model_dump(include=set(COMPLETENESS_KEYS), exclude_none=True, exclude_unset=True)


class CompletenessBook:
    """The completeness part of one policy, ready to be asked for a turn's.

    ``base`` holds the keys of `COMPLETENESS_KEYS`. Overrides that match apply in the order of the file: a key given by
    a later one replaces the earlier; the entries of caps and patterns replace one by one.
    """

    __slots__ = ("_base", "_compiled", "_for_turn", "_overrides")

    def __init__(self, base: dict[str, Any], overrides: Sequence[Override]) -> None:
        self._base = base
        self._overrides = tuple(overrides)
        # One object for each set of matching overrides: the caches of states are keyed by it.
        self._compiled = lru_cache(maxsize=1_024)(self._compile)
        self._for_turn = lru_cache(maxsize=4_096)(lambda *turn: self._compiled(self._matching(*turn)))

    def for_turn(self, tenant: str, definition: str | None) -> CompletenessPolicy:
        """Return what a turn of ``tenant`` under ``definition`` (the raw id) is judged by."""
        if not self._overrides:
            return self._compiled(())
        if definition is not None and len(definition) > MAX_TEXT:
            # An id over the limit is malformed anyway, and may be a megabyte: keep it out of the cache.
            return self._compiled(self._matching(tenant, definition))
        return self._for_turn(tenant, definition)

    def version(self) -> str:
        """Return the first 12 hexadecimal digits of the SHA-256 of this part as canonical JSON (RFC 8785).

        Sets are normalised and sorted, and overrides stand in it when there are any, so files that judge alike have
        one version.
        """
        part = _canonical(self._base)
        if self._overrides:
            part["overrides"] = [
                {"tenant": override.tenant, "definition": override.definition, **_canonical(override.rules())}
                for override in self._overrides
            ]
        return sha256(rfc8785.dumps(part)).hexdigest()[:12]

    def _matching(self, tenant: str, definition: str | None) -> tuple[int, ...]:
        return tuple(place for place, override in enumerate(self._overrides) if override.matches(tenant, definition))

    def _compile(self, places: tuple[int, ...]) -> CompletenessPolicy:
        rules = dict(self._base)
        for place in places:
            for key, value in self._overrides[place].rules().items():
                rules[key] = {**rules[key], **value} if isinstance(value, dict) else value
        return CompletenessPolicy(
            sentinels=rules["sentinels"],
            aliases=rules["aliases"],
            count_cap=rules["caps"]["count"],
            depth_cap=rules["caps"]["depth"],
            patterns={name: re.compile(pattern) for name, pattern in rules["patterns"].items()},
            required_pieces=rules["required_pieces"],
        )


def _canonical(rules: dict[str, Any]) -> dict[str, Any]:
    return {key: sorted(value) if isinstance(value, frozenset) else value for key, value in rules.items()}
