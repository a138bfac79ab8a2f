"""The Faust app: its settings, its topics, its clock of a shutdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workers.transport.app import create_faust_app
from workers.transport.consumer import BatchConsumer
from workers.transport.options import TransportOptions
from workers.transport.producer import BatchProducer
from workers.transport.schema import BatchSchema
from workers.transport.status import ExitCode


async def test_the_group_id_is_exactly_the_configured_one(tmp_path: Path) -> None:
    assert create_faust_app("my-group-v7", ["a:9092"], datadir=tmp_path).conf.id == "my-group-v7"


async def test_every_broker_is_reached_through_our_transport(tmp_path: Path) -> None:
    app = create_faust_app("group", ["a:9092", "[::1]:9093"], datadir=tmp_path)
    assert [str(url) for url in app.conf.broker_consumer] == ["engram://a:9092", "engram://[::1]:9093"]
    assert isinstance(app.batches, BatchConsumer)
    assert isinstance(app.producer, BatchProducer)


async def test_the_settings_that_keep_faust_out_of_the_way_are_set(tmp_path: Path) -> None:
    conf = create_faust_app("group", ["a:9092"], datadir=tmp_path).conf
    assert conf.topic_disable_leader
    assert not conf.topic_allow_declare
    assert not conf.web_enabled
    assert conf.stream_wait_empty
    assert conf.table_standby_replicas == 0
    assert str(conf.store) == "memory:"
    assert conf.broker_session_timeout <= conf.broker_request_timeout < conf.broker_rebalance_timeout
    assert conf.loghandlers == []
    assert conf.stream_buffer_maxsize == 2 * 512 * 4


async def test_a_topic_of_batches_is_never_acknowledged_by_faust(tmp_path: Path) -> None:
    topic = create_faust_app("group", ["a:9092"], datadir=tmp_path).batch_topic("turns")
    assert not topic.acks
    assert isinstance(topic.schema, BatchSchema)


async def test_the_producer_waits_for_all_replicas_and_is_idempotent(tmp_path: Path) -> None:
    options = TransportOptions(client_options={"security_protocol": "SASL_SSL", "sasl_plain_password": "hunter2"})
    app = create_faust_app("group", ["a:9092"], options=options, datadir=tmp_path)
    producer = app.producer
    assert isinstance(producer, BatchProducer)
    settings = {**producer._settings_default(), **producer._settings_auth(), **producer._settings_extra()}
    assert (settings["acks"], settings["enable_idempotence"]) == ("all", True)
    assert settings["compression_type"] == "lz4"
    assert settings["security_protocol"] == "SASL_SSL"


async def test_one_deadline_covers_the_whole_shutdown(tmp_path: Path) -> None:
    app = create_faust_app("group", ["a:9092"], options=TransportOptions(drain_deadline=7.0), datadir=tmp_path)
    assert app.seconds_to_stop() == 7.0
    app._stopped.set()
    first = app.stop_deadline()
    assert app.stop_deadline() == first
    assert 0 < app.seconds_to_stop() <= 7.0
    app._stop_by = first - 60.0
    assert app.seconds_to_stop() == 1.0, "closing gets a moment even after a stuck drain"


async def test_the_exit_code_says_whether_work_was_abandoned(tmp_path: Path) -> None:
    app = create_faust_app("group", ["a:9092"], datadir=tmp_path)
    codes = [app.exit_code]
    app.batches.abandoned_at_shutdown = 1
    codes.append(app.exit_code)
    assert codes == [ExitCode.DRAINED, ExitCode.WORK_ABANDONED]


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(TransportOptions(client_options={"sasl_plain_password": "hunter2"}))


@pytest.mark.parametrize("name", ["max_records", "max_in_flight", "drain_deadline", "commit_timeout"])
def test_a_bound_that_is_not_positive_is_refused_by_name(name: str) -> None:
    changed: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=name):
        TransportOptions(**changed)


def test_an_app_without_brokers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="host:port"):
        create_faust_app("group", [], datadir=tmp_path)
