"""Alerts and recordings as a Prometheus rule file."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import yaml

from workers.alerting.catalogue import ALERTS, RECORDINGS
from workers.alerting.spec import DEFAULT_RUNBOOK, Alert
from workers.processing.policy import Policy
from workers.processing.policy_values import format_duration

HEADER: Final = "# Rendered by `engram-stream rules`; edit the policy, not this file.\n"
INTERVAL: Final = timedelta(seconds=30)


def render_rules(policy: Policy, runbook: str = DEFAULT_RUNBOOK) -> str:
    """Return the rule file of every alert of origin ``prometheus``, as YAML.

    ``policy`` gives bounds and times, and may switch alerts off. ``runbook`` is the template of runbook addresses, with
    ``{alert}`` for the name. Everything is in one group, since Prometheus evaluates the rules of a group in order and
    the alerts read what was recorded before them.
    """
    rules: list[dict[str, Any]] = [{"record": rule.name, "expr": rule.expression} for rule in RECORDINGS]
    rules += [
        _alert_rule(alert, expression, policy, runbook)
        for alert in ALERTS.values()
        if alert.expression is not None and (expression := alert.expression(policy)) is not None
    ]
    group = {"name": "engram", "interval": format_duration(INTERVAL), "rules": rules}
    return HEADER + yaml.dump({"groups": [group]}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def _alert_rule(alert: Alert, expression: str, policy: Policy, runbook: str) -> dict[str, Any]:
    rule: dict[str, Any] = {"alert": alert.name, "expr": expression}
    if alert.hold:
        rule["for"] = format_duration(timedelta(seconds=alert.hold))
    if alert.keeps_firing and policy.keep_firing_for:
        rule["keep_firing_for"] = format_duration(policy.keep_firing_for)
    rule["labels"] = {"severity": alert.severity, "team": alert.team, "component": alert.component}
    rule["annotations"] = {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": alert.runbook(runbook),
    }
    return rule


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks and indents lists, so that expressions can be read."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
