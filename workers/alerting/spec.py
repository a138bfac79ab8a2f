"""How an alert is declared."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from workers.processing.policy import Policy

Origin = Literal["prometheus", "stream"]
Severity = Literal["page", "ticket", "info"]
Team = Literal["engram", "producers"]
Component = Literal["worker", "registry", "producer"]

DEFAULT_RUNBOOK: Final = "docs/runbooks/{alert}.md"
"""Where an alert's runbook lies; a site that serves the pages elsewhere gives its own template."""


Expression = Callable[[Policy], str | None]
"""What a rule of Prometheus computes under a policy; None where the policy switches the alert off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert, declared once.

    ``subject`` names what one instance of the alert is about, in the order in which it enters the id; ``tenant`` comes
    before it and is not part of it. ``labels`` are further labels. An alert of origin ``prometheus`` has an
    ``expression`` whose result carries subject and labels, and a ``description`` in Prometheus's template language; one
    of origin ``stream`` is decided by a worker and published on the topic ``alerts``. ``hold`` is how long the
    condition must last, in seconds; ``keeps_firing`` tells whether it stays for the policy's ``keep_firing_for``.
    """

    name: str
    origin: Origin
    severity: Severity
    team: Team
    component: Component
    summary: str
    subject: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    expression: Expression | None = None
    hold: float = 0.0
    keeps_firing: bool = True
    description: str = ""

    @property
    def summary_code(self) -> str:
        """The name in snake case: the code of the summary's text."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()

    def runbook(self, template: str = DEFAULT_RUNBOOK) -> str:
        """Return where the runbook is, ``{alert}`` in ``template`` replaced by the name."""
        return template.replace("{alert}", self.name)


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus computes for several rules; ``labels`` are those of the result."""

    name: str
    labels: tuple[str, ...]
    expression: str
