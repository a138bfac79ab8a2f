"""Every private name and signature of Faust, mode and aiokafka that the transport stands on.

When one of these fails after an upgrade, read the sources of the new version against `workers.transport` before the pin
in pyproject.toml is moved: the transport overrides what the failing line names, or reaches into it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Any

import aiokafka
import pytest
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import Fetcher, FetchError, FetchResult, PartitionRecords
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import Assignment, SubscriptionState, TopicPartitionState
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record import default_records, memory_records
from aiokafka.record.util import decode_varint
from faust.app.base import App
from faust.serializers.schemas import Schema
from faust.streams import Stream
from faust.tables.recovery import Recovery
from faust.transport import conductor
from faust.transport.consumer import Consumer as BaseConsumer
from faust.transport.consumer import Fetcher as FaustFetcher
from faust.transport.consumer import ThreadDelegateConsumer
from faust.transport.drivers import aiokafka as driver
from faust.types import ConsumerMessage
from mode import Service
from mode.threads import ServiceThread
from mode.worker import Worker as ModeWorker

from workers.transport.driver import Transport

PINS = {"faust-streaming": "0.15.", "mode-streaming": "0.7.", "aiokafka": "0.14."}


def parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize(("package", "pin"), PINS.items())
def test_the_transport_was_written_against_this_version(package: str, pin: str) -> None:
    found = version(package)
    assert found.startswith(pin), f"{package} {found}: the transport was checked against {pin}x only, see this module"


OVERRIDDEN: list[tuple[type, str, list[str]]] = [
    (driver.Consumer, "_new_consumer_thread", []),
    (driver.Consumer, "verify_event_path", ["now", "tp"]),
    (BaseConsumer, "_drain_messages", ["fetcher"]),
    (BaseConsumer, "commit", ["topics", "start_new_transaction"]),
    (BaseConsumer, "force_commit", ["topics", "start_new_transaction"]),
    (BaseConsumer, "wait_empty", []),
    (BaseConsumer, "perform_seek", []),
    (BaseConsumer, "on_partitions_revoked", ["revoked"]),
    (BaseConsumer, "on_partitions_assigned", ["assigned", "generation_id"]),
    (BaseConsumer, "ack", ["message"]),
    (BaseConsumer, "on_buffer_full", ["tp"]),
    (BaseConsumer, "on_buffer_drop", ["tp"]),
    (BaseConsumer, "on_task_error", ["exc"]),
    (ThreadDelegateConsumer, "close", []),
    (driver.AIOKafkaConsumerThread, "__post_init__", []),
    (driver.AIOKafkaConsumerThread, "_create_worker_consumer", ["transport"]),
    (driver.AIOKafkaConsumerThread, "on_thread_stop", []),
    (driver.Producer, "__post_init__", []),
    (driver.Producer, "_settings_auth", []),
    (driver.Producer, "_settings_extra", []),
    (driver.Producer, "flush", []),
    (driver.Producer, "on_stop", []),
]

CALLED: list[tuple[Any, str, list[str]]] = [
    (driver, "server_list", ["urls", "default_port"]),
    (driver.AIOKafkaConsumerThread, "_ensure_consumer", []),
    (driver.Producer, "_ensure_producer", []),
    (driver.Producer, "_new_producer", ["transactional_id"]),
    (ModeWorker, "_schedule_shutdown", ["signal"]),
    (ModeWorker, "execute_from_commandline", []),
    (BaseConsumer, "stop_flow", []),
    (App, "create_event", ["key", "value", "headers", "message"]),
    (Service, "wait_first", ["coros", "timeout"]),
    (Service, "crash", ["reason"]),
    (Service, "add_future", ["coro"]),
    (Fetcher, "_notify", ["future"]),
    (Fetcher, "_create_fetch_waiter", []),
    (Fetcher, "seek_to", ["tp", "offset"]),
    (FetchResult, "check_assignment", ["tp"]),
    (FetchResult, "has_more", []),
    (FetchResult, "_update_position", []),
    (GroupCoordinator, "check_errors", []),
    (GroupCoordinator, "fetch_committed_offsets", ["partitions"]),
    (Assignment, "state_value", ["tp"]),
    (default_records._DefaultRecordBatchPy, "validate_crc", []),
    (default_records._DefaultRecordBatchPy, "_maybe_uncompress", []),
]


@pytest.mark.parametrize(
    ("owner", "name", "expected"), OVERRIDDEN + CALLED, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_the_signature_is_the_one_we_override_or_call(owner: Any, name: str, expected: list[str]) -> None:
    assert hasattr(owner, name), f"{owner.__name__}.{name} is gone"
    assert parameters(getattr(owner, name)) == expected, f"{owner.__name__}.{name} has other parameters"


ATTRIBUTES: list[tuple[type, list[str]]] = [
    (BaseConsumer, ["_active_partitions", "_paused_partitions", "flow_active", "can_resume_flow", "suspend_flow"]),
    (BaseConsumer, ["callback"]),
    (ThreadDelegateConsumer, ["_thread"]),
    (driver.AIOKafkaConsumerThread, ["_consumer"]),
    (driver.Producer, ["_producer"]),
    (ModeWorker, ["_signal_stop_time"]),
    (ServiceThread, ["thread_loop"]),
    (Service, ["_stopped", "_started", "_crashed"]),
    (aiokafka.AIOKafkaConsumer, ["_fetcher", "_coordinator", "_client", "_closed"]),
    (Fetcher, ["_records", "_wait_consume_future", "_subscriptions", "_client", "_closed", "_isolation_level"]),
    (Fetcher, ["_fetch_max_wait_ms", "_fetch_max_bytes", "_max_partition_fetch_bytes"]),
    (FetchResult, ["_partition_records"]),
    (FetchError, ["_error"]),
    (PartitionRecords, ["next_fetch_offset"]),
    (SubscriptionState, ["_fetch_count", "_last_fetch_ended"]),
    (TopicPartitionState, ["highwater", "lso"]),
    (GroupCoordinator, ["generation"]),
    (default_records._DefaultRecordBatchPy, ["_buffer", "_pos", "_num_records"]),
]


@pytest.mark.parametrize(("owner", "names"), ATTRIBUTES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_the_attributes_we_reach_into_are_still_set(owner: type, names: list[str]) -> None:
    source = inspect.getsource(owner)
    missing = [name for name in names if not re.search(rf"\bself\.{name}\b|^    {name}\b", source, re.MULTILINE)]
    assert not missing, f"{owner.__name__} no longer has {missing}"


def test_properties_we_read_are_still_properties() -> None:
    for owner, name in (
        (SubscriptionState, "subscription"),
        (SubscriptionState, "reassignment_in_progress"),
        (SubscriptionState, "fetcher_idle_time"),
        (Assignment, "tps"),
        (Assignment, "active"),
        (TopicPartitionState, "position"),
        (TopicPartitionState, "has_valid_position"),
    ):
        assert isinstance(getattr(owner, name), property), f"{owner.__name__}.{name}"


def test_a_message_takes_what_we_give_it() -> None:
    given = ["topic", "partition", "offset", "timestamp", "timestamp_type"]
    given += ["headers", "key", "value", "checksum", "serialized_key_size"]
    assert parameters(ConsumerMessage)[: len(given)] == given
    assert {"serialized_value_size", "tp", "generation_id"} <= set(parameters(ConsumerMessage))


def test_the_client_takes_the_settings_that_faust_has_no_names_for() -> None:
    wanted = {
        "fetch_max_bytes",
        "fetch_min_bytes",
        "fetch_max_wait_ms",
        "isolation_level",
        "client_rack",
        "group_instance_id",
        "rebalance_timeout_ms",
        "partition_assignment_strategy",
        "auto_offset_reset",
        "connections_max_idle_ms",
    }
    assert wanted <= set(parameters(aiokafka.AIOKafkaConsumer.__init__))
    assert RangePartitionAssignor.name == "range"
    assert fetcher.OffsetResetStrategy.from_str("none") == fetcher.OffsetResetStrategy.NONE


def test_a_schema_compiles_to_a_coroutine_of_message_and_propagate() -> None:
    assert parameters(Schema.compile)[0] == "app"
    assert "propagate" in inspect.getsource(Schema.compile)


def test_faust_drains_seeks_and_resumes_in_the_order_the_transport_relies_on() -> None:
    assert "consumer._drain_messages(self)" in inspect.getsource(FaustFetcher)
    resume = inspect.getsource(Recovery._resume_streams)
    order = [resume.index(step) for step in ("on_rebalance_complete.send", "perform_seek", "consumer.resume_flow")]
    assert order == sorted(order)
    stop = inspect.getsource(App._stop_consumer)
    order = [stop.index(step) for step in ("stop_flow", "_stop_fetcher", "_consumer_wait_empty")]
    assert order == sorted(order)
    assert "generation_id != self.app.consumer_generation_id" in inspect.getsource(Stream)


def test_a_raw_fetch_is_asked_for_and_read_as_the_client_does_it() -> None:
    expected = ["max_wait_time", "min_bytes", "max_bytes", "isolation_level", "topics", "rack_id"]
    assert parameters(FetchRequest.__init__) == expected
    assert parameters(decode_varint)[:2] == ["buffer", "pos"]
    assert (
        default_records.DefaultRecordBase.CRC_OFFSET,
        default_records.DefaultRecordBase.ATTRIBUTES_OFFSET,
        default_records.DefaultRecordBase.AFTER_LEN_OFFSET,
    ) == (17, 21, 12)


@pytest.mark.parametrize(
    "module",
    [
        "faust.transport._cython.conductor",
        "faust._cython.streams",
        "aiokafka.record._crecords.default_records",
        "aiokafka.record._crecords.memory_records",
        "aiokafka.record._crecords.cutil",
    ],
)
def test_the_compiled_module_is_loaded(module: str) -> None:
    path = import_module(module).__file__
    assert path is not None
    assert path.endswith(".so"), f"{module} is not compiled here: the worker would run several times slower"


def test_the_compiled_classes_are_the_ones_in_use() -> None:
    assert vars(conductor)["ConductorHandler"] is not None
    assert "_crecords" in default_records.DefaultRecordBatch.__module__
    assert "_crecords" in memory_records.MemoryRecords.__module__


def test_the_entry_point_names_our_transport_and_hides_none_of_fausts() -> None:
    ours = [point for point in entry_points(group="faust.transports") if point.name == "engram"]
    assert [point.load() for point in ours] == [Transport]
    assert "kafka" not in {point.name for point in entry_points(group="faust.transports")}
