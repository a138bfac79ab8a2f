"""Settings of the batch transport that Faust's own settings cannot carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

IsolationLevel = Literal["read_committed", "read_uncommitted"]

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOptions:
    """How batches are cut, bounded, drained and committed.

    The app hands them over as ``app.transport_options``; `workers.transport.app.create_faust_app` sets it.

    Attributes:
        max_records: records per batch, at most.
        max_batch_bytes: keys, values and headers of one batch, in bytes; a single larger record is a batch of its own.
        max_in_flight: batches per partition that are delivered and not complete.
        max_bytes_in_flight: bytes of all batches of the worker that are delivered and not complete; nothing more is
            fetched once they are reached, so the last batch may go over.
        drain_deadline: seconds that started batches get to complete at a rebalance; at shutdown, for everything.
        commit_timeout: seconds one offset commit may take.
        fetch_min_bytes: bytes the broker waits for before it answers a fetch.
        fetch_max_wait_ms: milliseconds the broker waits for them.
        fetch_max_bytes: bytes of one fetch response, over all partitions.
        isolation_level: ``read_committed`` hides aborted and open transactions; lag counts to the last stable offset.
        client_rack: rack of this worker, for fetching from the closest replica (KIP-392); None switches it off.
        group_instance_id: static membership (KIP-345); None leaves the group at shutdown.
        commit_metadata: text committed beside the offsets, by topic, such as the version of what becomes of records.
        client_options: keyword arguments for every aiokafka client: ``security_protocol``, ``ssl_context``, ``sasl_*``.
            Never shown, since it holds secrets.

    Raises:
        ValueError: a bound is not positive.
    """

    max_records: int = 2_000
    max_batch_bytes: int = 4 * MIB
    max_in_flight: int = 4
    max_bytes_in_flight: int = 256 * MIB
    drain_deadline: float = 10.0
    commit_timeout: float = 5.0
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 100
    fetch_max_bytes: int = 50 * MIB
    isolation_level: IsolationLevel = "read_uncommitted"
    client_rack: str | None = None
    group_instance_id: str | None = None
    commit_metadata: Mapping[str, str] = field(default_factory=dict)
    client_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in (
            "max_records",
            "max_batch_bytes",
            "max_in_flight",
            "max_bytes_in_flight",
            "drain_deadline",
            "commit_timeout",
            "fetch_min_bytes",
            "fetch_max_wait_ms",
            "fetch_max_bytes",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"transport option {name} is {getattr(self, name)}: it must be greater than 0")
