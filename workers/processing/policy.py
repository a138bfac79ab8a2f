"""The policy: how turns are judged and when somebody is told.

Source: docs/policy.md, which is generated from here.
"""

from __future__ import annotations

from datetime import date, timedelta
from functools import cached_property
from typing import Annotated

from pydantic import Field, ValidationError

from workers.errors import ConfigurationError
from workers.processing.policy_completeness import (
    COMPLETENESS_KEYS,
    Caps,
    CompletenessBook,
    FieldPatterns,
    Markers,
    Override,
    Pieces,
)
from workers.processing.policy_rules import DEFAULT_ALIASES, DEFAULT_SENTINELS, CompletenessPolicy
from workers.processing.policy_values import (
    Count,
    Duration,
    PositiveDuration,
    Section,
    Share,
    keys_of,
    problems,
    yaml_type,
)
from workers.processing.policy_waivers import Waiver, WaiverBook


class FidelityBounds(Section):
    """Shares of a service's turns above which a ticket is written; null for never."""

    unreplayable: Annotated[Share | None, Field(description="bound of FidelityUnreplayable")] = 0.05
    invalid: Annotated[Share | None, Field(description="bound of FidelityInvalid")] = 0.01
    missing: Annotated[Share | None, Field(description="bound of ManifestMissing")] = 0.05


ServiceName = Annotated[str, Field(pattern=r"\A[A-Za-z0-9._:/-]{1,64}\z")]
"""A service as its metric label shows it; other names fold into ``other``."""


class Policy(Section):
    """The whole policy. Without a file, its defaults."""

    sentinels: Annotated[Markers, Field(description="values that stand for nothing: state `sentinel`")] = (
        DEFAULT_SENTINELS
    )
    aliases: Annotated[Markers, Field(description="moving names instead of a version: state `alias`")] = DEFAULT_ALIASES
    caps: Annotated[Caps, Field(description="values above are `implausible`")] = Caps()
    patterns: Annotated[
        FieldPatterns,
        Field(description="regular expression that a text field must match in full, by field: else `malformed`"),
    ] = Field(default_factory=dict)
    required_pieces: Annotated[Pieces, Field(description="pieces without which `state_counts` is `null`")] = frozenset()
    overrides: Annotated[
        tuple[Override, ...],
        Field(strict=False, max_length=1_000, description="the five keys above for a `tenant` or `definition` pattern"),
    ] = ()
    waivers: Annotated[
        tuple[Waiver, ...],
        Field(strict=False, max_length=1_000, description="known gaps that write no ticket until they expire"),
    ] = ()
    fidelity_bounds: Annotated[
        FidelityBounds, Field(description="shares of a service's turns above which a ticket is written; null for never")
    ] = FidelityBounds()
    fidelity_bounds_by_service: Annotated[
        dict[ServiceName, FidelityBounds],
        Field(max_length=50, description="the same for single services; what is left out holds as for all"),
    ] = Field(default_factory=dict)
    n_min: Annotated[Count, Field(description="fewest turns or records from which a share is judged")] = 30
    keep_firing_for: Annotated[Duration, Field(description="how long an alert goes on after its cause is gone")] = (
        timedelta(minutes=30)
    )
    skew: Annotated[
        Duration, Field(description="how far a producer's clock may be ahead of the broker's before it is clamped")
    ] = timedelta(seconds=60)
    own_lag_max: Annotated[
        PositiveDuration, Field(description="own lag above which nothing is concluded: EngramBlind")
    ] = timedelta(minutes=5)

    @classmethod
    def from_data(cls, data: object, source: str, today: date) -> Policy:
        """Return the policy that the parsed file ``data`` describes.

        ``source`` names the file in errors; ``today`` (UTC) bounds the expiry of waivers.

        Raises:
            ConfigurationError: it is wrong; the message has a line for each problem: key, type, fix.
        """
        if not isinstance(data, dict):
            raise ConfigurationError(
                f"policy {source}: must be a mapping of keys, got {yaml_type(data)}; write {{}} for the defaults"
            )
        try:
            policy = cls.model_validate(data)
        except ValidationError as error:
            found = problems(error, keys_of(cls))
        else:
            found = policy.waiver_book.too_long(today)
            if not found:
                return policy
        raise ConfigurationError("\n  ".join([f"policy {source}: {len(found)} wrong:", *found]))

    @cached_property
    def version(self) -> str:
        """Version of the completeness part: 12 hexadecimal digits, as verdicts carry it."""
        return self._completeness.version()

    @cached_property
    def skew_ms(self) -> int:
        """``skew`` in milliseconds."""
        return self.skew // timedelta(milliseconds=1)

    @cached_property
    def waiver_book(self) -> WaiverBook:
        """The waivers, ready to be asked."""
        return WaiverBook(self.waivers)

    @cached_property
    def _completeness(self) -> CompletenessBook:
        return CompletenessBook(self.model_dump(include=set(COMPLETENESS_KEYS)), self.overrides)

    def completeness_for(self, tenant: str, definition: str | None) -> CompletenessPolicy:
        """Return what a turn of ``tenant`` under ``definition`` (the raw id, None where missing) is judged by."""
        return self._completeness.for_turn(tenant, definition)

    def fidelity_bounds_of(self, service: str) -> FidelityBounds:
        """Return the bounds that hold for ``service``."""
        own = self.fidelity_bounds_by_service.get(service)
        given = own.model_dump(exclude_unset=True) if own else {}
        return self.fidelity_bounds.model_copy(update=given)
