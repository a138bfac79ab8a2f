"""Settings: precedence, origins, errors that explain, secrets that stay unseen, and a reference that is current."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from workers.cli import cli
from workers.config import Settings, is_secret, load, load_settings, read_secret, setting_keys
from workers.config_reference import EXAMPLE, REFERENCE, example_toml, reference_markdown
from workers.config_sources import variable_of
from workers.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
SASL = {"ENGRAM_KAFKA__SECURITY_PROTOCOL": "SASL_SSL", "ENGRAM_KAFKA__SASL_USERNAME": "worker"}


def _file(folder: Path, text: str) -> Path:
    path = folder / "engram.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _refusal(environ: dict[str, str], path: Path | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(path, environ=environ)
    return str(caught.value)


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(tmp_path: Path) -> None:
    path = _file(tmp_path, '[kafka]\nbootstrap_servers = "file:1"\ngroup_id = "file"\nclient_rack = "file"\n')
    environ = {"ENGRAM_KAFKA__BOOTSTRAP_SERVERS": "env:1", "ENGRAM_KAFKA__GROUP_ID": "env"}
    loaded = load(path, {"kafka.bootstrap_servers": "flag:1"}, environ)
    kafka = loaded.settings.kafka
    assert (kafka.bootstrap_servers, kafka.group_id, kafka.client_rack) == ("flag:1", "env", "file")
    shown = {key: str(loaded.origins[f"kafka.{key}"]) for key in ("bootstrap_servers", "group_id", "client_rack")}
    assert shown == {
        "bootstrap_servers": "flag --bootstrap-servers",
        "group_id": "environment ENGRAM_KAFKA__GROUP_ID",
        "client_rack": f"file {path}",
    }
    assert str(loaded.origins["kafka.isolation_level"]) == "default"


def test_every_key_has_a_variable_of_its_own_and_reads_from_it() -> None:
    variables = [variable_of(key) for key in setting_keys()]
    assert len(set(variables)) == len(variables)
    environ = {"ENGRAM_WORKER__MAX_IN_FLIGHT": "2", "ENGRAM_OUTPUTS__LINGER": "0", "ENGRAM_SERDE__BARE_AVRO": "true"}
    settings = load_settings(environ=environ)
    assert (settings.worker.max_in_flight, settings.outputs.linger, settings.serde.bare_avro) == (2, 0.0, True)


def test_the_common_variable_for_brokers_works_unless_our_own_is_set() -> None:
    alias = {"KAFKA_BOOTSTRAP_SERVERS": "a:1, b:2"}
    assert load_settings(environ=alias).kafka.bootstrap_servers == "a:1,b:2"
    own = alias | {"ENGRAM_KAFKA__BOOTSTRAP_SERVERS": "c:3"}
    assert load_settings(environ=own).kafka.bootstrap_servers == "c:3"


def test_the_file_is_found_by_variable_and_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    path = _file(tmp_path, '[kafka]\ngroup_id = "file"\n')
    environ = {"ENGRAM_CONFIG": str(path), "ENGRAM_KAFKA__GROUP_ID": "", "ENGRAM_REGISTRY__URL": ""}
    assert load_settings(environ=environ).kafka.group_id == "file"


@pytest.mark.parametrize(
    ("environ", "parts"),
    [
        ({"ENGRAM_KAFKA_GROUP_ID": "x"}, ["ENGRAM_KAFKA_GROUP_ID", "Did you mean ENGRAM_KAFKA__GROUP_ID?"]),
        ({"ENGRAM_WORKER__MAX_INFLIGHT": "x"}, ["Did you mean ENGRAM_WORKER__MAX_IN_FLIGHT?"]),
        ({"ENGRAM_WORKER__MAX_IN_FLIGHT": "abc"}, ["worker.max_in_flight (environment ENGRAM_WORKER", "'abc'"]),
        ({"ENGRAM_KAFKA__ISOLATION_LEVEL": "dirty"}, ["kafka.isolation_level", "'read_committed'"]),
        ({"KAFKA_BOOTSTRAP_SERVERS": "broker"}, ["(environment KAFKA_BOOTSTRAP_SERVERS)", "HOST:PORT"]),
        ({"ENGRAM_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT"}, ["unencrypted", "kafka.allow_sasl_plaintext"]),
        (SASL, ["kafka.sasl_password_file", "is missing"]),
        ({"ENGRAM_KAFKA__SSL_KEY_FILE": "k"}, ["kafka.ssl_cert_file", "is missing"]),
        ({"ENGRAM_REGISTRY__URL": "ftp://r"}, ["registry.url", "http"]),
        ({"ENGRAM_REGISTRY__USERNAME": "u"}, ["registry.username", "belong together"]),
        ({"ENGRAM_WORKER__MAX_BYTES_IN_FLIGHT": "1"}, ["worker.max_bytes_in_flight", "worker.max_batch_bytes"]),
        ({"ENGRAM_WORKER__DRAIN_DEADLINE": "60"}, ["worker.drain_deadline", "rebalance"]),
        ({"ENGRAM_CONFIG": "/nowhere/engram.toml"}, ["/nowhere/engram.toml", "No such file"]),
    ],
)
def test_a_wrong_variable_is_named_with_what_is_wrong_and_what_to_do(environ: dict[str, str], parts: list[str]) -> None:
    message = _refusal(environ)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[kafak]\n", ["kafak (file", "Did you mean kafka?"]),
        (
            "[worker]\nmax_batch_record = 1\n",
            ["worker.max_batch_record (file", "Did you mean worker.max_batch_records?"],
        ),
        ("kafka = 1\n", ["is not a section"]),
        ("[kafka\n", ["is not TOML", "line 1"]),
        ('[kafka]\nsasl_password = "x"\n', ["kafka.sasl_password_file", "ENGRAM_KAFKA__SASL_PASSWORD"]),
        ("[worker]\nmax_in_flight = 0\n", ["worker.max_in_flight (file", "'0'", "greater than 0"]),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong_and_what_to_do(tmp_path: Path, text: str, parts: list[str]) -> None:
    message = _refusal({}, _file(tmp_path, text))
    assert all(part in message for part in parts), message


def test_all_errors_are_reported_at_once() -> None:
    message = _refusal({"ENGRAM_NOPE__X": "1", "ENGRAM_LOG__LEVEL": "loud", "ENGRAM_METRICS__PORT": "70000"})
    assert [line.partition(" ")[0] for line in message.splitlines()] == ["ENGRAM_NOPE__X", "metrics.port", "log.level"]


def test_variables_that_kubernetes_adds_for_a_service_called_engram_are_left_alone() -> None:
    names = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_METRICS", "PORT", "PORT_9464_TCP", "PORT_9464_TCP_ADDR")
    assert load_settings(environ={f"ENGRAM_STREAM_{name}": "x" for name in names}) == Settings()


def test_a_secret_never_shows_in_errors_or_in_the_settings() -> None:
    environ = SASL | {"ENGRAM_KAFKA__SASL_PASSWORD": "hunter2", "ENGRAM_REGISTRY__URL": "https://u:hunter2@r"}
    assert "hunter2" not in _refusal(environ)
    both = SASL | {"ENGRAM_KAFKA__SASL_PASSWORD": "hunter2", "ENGRAM_KAFKA__SASL_PASSWORD_FILE": "/f"}
    assert "hunter2" not in _refusal(both)
    settings = load_settings(environ=SASL | {"ENGRAM_KAFKA__SASL_PASSWORD": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert {key for key in setting_keys() if is_secret(key)} == {
        "kafka.sasl_password",
        "kafka.ssl_key_password",
        "registry.password",
        "registry.bearer_token",
    }


def test_a_secret_file_is_read_at_every_call_without_its_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "password"
    for content, secret in (("old\n", "old"), ("ne w\r\n", "ne w"), ("\nodd\n\n", "\nodd\n")):
        path.write_bytes(content.encode())
        assert read_secret(None, path, "kafka.sasl_password_file") == secret
    for unusable in (b"\n", b"\xff"):
        path.write_bytes(unusable)
        with pytest.raises(ConfigurationError, match=r"^kafka\.sasl_password_file: "):
            read_secret(None, path, "kafka.sasl_password_file")


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().kafka.__setattr__("group_id", "other")


def test_the_reference_is_current() -> None:
    hint = "run python -m workers.config_reference"
    assert (ROOT / REFERENCE).read_text(encoding="utf-8") == reference_markdown(), hint
    assert (ROOT / EXAMPLE).read_text(encoding="utf-8") == example_toml(), hint


def test_the_example_file_holds_the_defaults_when_uncommented(tmp_path: Path) -> None:
    lines = example_toml().splitlines()
    settings = [line.removeprefix("# ") for line in lines if " = " in line and not line.endswith("# unset")]
    sections = [line for line in lines if line.startswith("[")]
    bare = [line.removeprefix("# ") for line in lines]
    text = "\n".join(line for line in bare if line in settings + sections)
    assert set(tomllib.loads(text)) == set(Settings.model_fields)
    assert load_settings(_file(tmp_path, text), environ={}) == Settings()


def _check_config(*arguments: str, **environ: str) -> Result:
    clean = {variable_of(key): "" for key in setting_keys()} | {"KAFKA_BOOTSTRAP_SERVERS": "", "ENGRAM_CONFIG": ""}
    return CliRunner().invoke(cli, ["check-config", *arguments], env=clean | environ)


def test_check_config_shows_each_value_with_its_origin_and_masks_secrets(tmp_path: Path) -> None:
    path = _file(tmp_path, "[worker]\nmax_in_flight = 3\n")
    result = _check_config(
        "--config", str(path), "--bootstrap-servers", "b:1", **SASL, ENGRAM_KAFKA__SASL_PASSWORD="hunter2"
    )
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert rows["worker.max_in_flight"] == ["3", "file", str(path)]
    assert rows["kafka.bootstrap_servers"] == ["b:1", "flag", "--bootstrap-servers"]
    assert rows["kafka.sasl_password"] == ["********", "environment", "ENGRAM_KAFKA__SASL_PASSWORD"]
    assert "hunter2" not in result.output
    assert list(rows) == list(setting_keys())


def test_check_config_exits_with_2_for_a_file_that_is_not_there_and_says_which(tmp_path: Path) -> None:
    missing = tmp_path / "policy.yaml"
    result = _check_config("--format", "json", ENGRAM_POLICY__FILE=str(missing))
    assert result.exit_code == 2
    answer = json.loads(result.stdout)
    assert answer["settings"]["policy.file"] == {
        "value": str(missing),
        "origin": "environment",
        "from": "ENGRAM_POLICY__FILE",
    }
    assert answer["problems"] == [
        f"policy.file (environment ENGRAM_POLICY__FILE): {missing} is no file. Mount it, or correct the path."
    ]
    assert "policy.file" in result.stderr


def test_check_config_finds_an_unusable_certificate_and_a_folder_it_cannot_write(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("not PEM", encoding="utf-8")
    result = _check_config(ENGRAM_KAFKA__SECURITY_PROTOCOL="SSL", ENGRAM_KAFKA__SSL_CA_FILE=str(authority))
    assert result.exit_code == 2
    assert "kafka.ssl_ca_file" in result.stderr
    assert "PEM" in result.stderr
    result = _check_config(ENGRAM_WORKER__DATADIR=str(authority / "below"))
    assert result.exit_code == 2
    assert "worker.datadir" in result.stderr


def test_check_config_reads_the_policy_too(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("skwe: 60 s\n", encoding="utf-8")
    result = _check_config(ENGRAM_POLICY__FILE=str(policy))
    assert result.exit_code == 2
    assert str(policy) in result.stderr
    assert "skwe" in result.stderr
    policy.write_text("{}\n", encoding="utf-8")
    assert _check_config(ENGRAM_POLICY__FILE=str(policy)).exit_code == 0
