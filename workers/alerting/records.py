"""Alerts that the stream decides, as records of the topic ``alerts``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from workers.alerting.catalogue import ALERTS


def verdict_id(*parts: str | int | None) -> str:
    """Return the id of a verdict: the first 32 hex digits of SHA-256 of ``parts`` as a compact JSON array in UTF-8.

    Source: docs/schemas.md, "Output keys".
    """
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def alert_record(
    name: str,
    *,
    subject: Mapping[str, str | None],
    state: str,
    starts_at: int,
    policy: str,
    ends_at: int | None = None,
    tenant: str | None = None,
    service: str | None = None,
    region: str | None = None,
    release: str | None = None,
    episode: int = 0,
    revision: int = 0,
    values: Mapping[str, str] | None = None,
    verdict_ids: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the Alert record of one state of the alert ``name``; its key is the ``verdict_id``.

    ``subject`` holds a value, or None, for every name the catalogue lists. Times are milliseconds since the epoch. A
    resolve has the same subject and episode, the next revision, state ``resolved`` and ``ends_at``.

    Raises:
        ValueError: the subject is not the catalogue's, or the alert is not one the stream decides.
    """
    alert = ALERTS[name]
    if alert.origin != "stream":
        raise ValueError(f"{name} is decided by Prometheus, not by the stream")
    if set(subject) != set(alert.subject):
        raise ValueError(f"the subject of {name} is {', '.join(alert.subject)}; {', '.join(subject)} was given")
    ordered = [(part, subject[part]) for part in alert.subject]
    return {
        "verdict_id": verdict_id(name, tenant, *(value for _, value in ordered), episode),
        "alert": name,
        "state": state,
        "revision": revision,
        "episode": episode,
        "starts_at": starts_at,
        "ends_at": ends_at,
        "severity": alert.severity,
        "subject": [{"name": part, "value": value} for part, value in ordered],
        "tenant": tenant,
        "service": service,
        "region": region,
        "release": release,
        "summary_code": alert.summary_code,
        "values": [{"name": key, "value": value} for key, value in (values or {}).items()],
        "verdict_ids": list(verdict_ids[:20]),
        "runbook": alert.runbook(),
        "policy": policy,
    }
