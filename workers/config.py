"""Process settings: one frozen model, read from flags, environment, file and defaults, each value with its origin.

Rules and the list of every key: docs/configuration.md, which is generated from this module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from workers.config_sources import (
    Layer,
    Origin,
    environment_layer,
    explain_value_errors,
    file_layer,
    flag_layer,
    nest,
)
from workers.errors import ConfigurationError
from workers.serde.limits import TURN_LIMITS, Limits

MIB: Final = 1 << 20


def _wrong(what: str, fix: str, key: str | None = None) -> PydanticCustomError:
    """Return a validation error that says what is wrong and what to do; ``key`` names one key of the section."""
    return PydanticCustomError("engram", "{what}", {"what": what, "fix": fix, "key": key})


def split_servers(servers: str) -> tuple[str, ...]:
    """Return the ``HOST:PORT`` pairs of a comma-separated list."""
    return tuple(part.strip() for part in servers.split(",") if part.strip())


def _check_servers(servers: str) -> str:
    pairs = split_servers(servers)
    for pair in pairs:
        host, _, port = pair.rpartition(":")
        if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise _wrong("is not a list of HOST:PORT", "Write HOST:PORT, several separated by commas.")
    if not pairs:
        raise _wrong("names no broker", "Write HOST:PORT, several separated by commas.")
    return ",".join(pairs)


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _wrong("is not an http or https URL", "Write it as https://HOST:PORT/PATH.")
    if parts.username or parts.password:
        raise _wrong("holds credentials", "Give them as registry.username and registry.password_file.")
    return url.rstrip("/")


def _check_not_negative(value: float) -> float:
    if value < 0:
        raise _wrong("is negative", "Give zero or more.")
    return value


Servers = Annotated[str, AfterValidator(_check_servers)]
Url = Annotated[str, AfterValidator(_check_url)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Size = Annotated[int, Field(gt=0)]


class Section(BaseModel):
    """Base of the sections: frozen, closed, and silent about its input in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _one_of(section: Section, name: str) -> None:
    """Refuse a secret that is given both inline and as a file."""
    if getattr(section, name) is not None and getattr(section, f"{name}_file") is not None:
        raise _wrong(f"is set, and so is {name}_file", "Keep one of the two; the file can be rotated.", name)


class KafkaSettings(Section):
    """How to reach Kafka, and as whom."""

    bootstrap_servers: Servers = Field("localhost:9092", description="Brokers to start from: HOST:PORT, by commas.")
    group_id: str = Field("engram-stream", min_length=1, description="Consumer group of the workers.")
    group_instance_id: str | None = Field(
        None, min_length=1, description="Static membership: a name of its own for each worker, kept over restarts."
    )
    client_rack: str | None = Field(None, min_length=1, description="Rack or zone, to fetch from the nearest replica.")
    isolation_level: Literal["read_uncommitted", "read_committed"] = Field(
        "read_committed", description="Whether records of open and aborted transactions are read."
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"] = Field(
        "PLAINTEXT", description="Protocol of the brokers' listener."
    )
    allow_sasl_plaintext: bool = Field(
        False, description="Accept SASL_PLAINTEXT, which sends credentials and records unencrypted."
    )
    ssl_ca_file: Path | None = Field(
        None, description="PEM of the authorities that sign brokers; the system's when unset."
    )
    ssl_cert_file: Path | None = Field(None, description="PEM of the client certificate, for mutual TLS.")
    ssl_key_file: Path | None = Field(None, description="PEM of the client key, when not in ssl_cert_file.")
    ssl_key_password: SecretStr | None = Field(None, description="Password of the client key.")
    ssl_key_password_file: Path | None = Field(None, description="File with the password of the client key.")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="SASL mechanism, with the SASL protocols."
    )
    sasl_username: str | None = Field(None, min_length=1, description="SASL user.")
    sasl_password: SecretStr | None = Field(None, description="SASL password.")
    sasl_password_file: Path | None = Field(None, description="File with the SASL password.")

    @model_validator(mode="after")
    def _check(self) -> KafkaSettings:
        _one_of(self, "sasl_password")
        _one_of(self, "ssl_key_password")
        if self.security_protocol == "SASL_PLAINTEXT" and not self.allow_sasl_plaintext:
            raise _wrong(
                "is SASL_PLAINTEXT, which sends the password unencrypted",
                "Use SASL_SSL, or set kafka.allow_sasl_plaintext = true on a network you trust.",
                "security_protocol",
            )
        if self.security_protocol.startswith("SASL"):
            if self.sasl_username is None:
                raise _wrong(f"is missing, and {self.security_protocol} needs it", "Set it.", "sasl_username")
            if self.sasl_password is None and self.sasl_password_file is None:
                raise _wrong(f"is missing, and {self.security_protocol} needs it", "Set it.", "sasl_password_file")
        if self.ssl_key_file is not None and self.ssl_cert_file is None:
            raise _wrong("is missing beside ssl_key_file", "Set it to the certificate's PEM.", "ssl_cert_file")
        return self


class TopicsSettings(Section):
    """Names of the topics."""

    prefix: str = Field(
        "", pattern=r"^[A-Za-z0-9._-]{0,100}$", description="Put before the name of every topic, for a shared cluster."
    )


class RegistrySettings(Section):
    """The schema registry; without a URL the schemas shipped with the product are used."""

    url: Url | None = Field(None, description="Base URL of a Confluent-compatible registry.")
    username: str | None = Field(None, min_length=1, description="User, for basic authentication.")
    password: SecretStr | None = Field(None, description="Password, for basic authentication.")
    password_file: Path | None = Field(None, description="File with the password.")
    bearer_token: SecretStr | None = Field(None, description="Token, for bearer authentication.")
    bearer_token_file: Path | None = Field(None, description="File with the token.")
    ssl_ca_file: Path | None = Field(
        None, description="PEM of the authorities that sign the registry; the system's when unset."
    )
    timeout: Seconds = Field(5.0, description="Time limit of one request, in seconds.")

    @model_validator(mode="after")
    def _check(self) -> RegistrySettings:
        _one_of(self, "password")
        _one_of(self, "bearer_token")
        password = self.password is not None or self.password_file is not None
        bearer = self.bearer_token is not None or self.bearer_token_file is not None
        if password and bearer:
            raise _wrong("and a bearer token are both set", "Keep one way to authenticate.", "password")
        if password != (self.username is not None):
            raise _wrong("and password belong together", "Set both, or neither.", "username")
        return self


class SerdeSettings(Section):
    """Decoding. The size of a turn and of its fields is limited by its contract, not here."""

    decoder: Literal["auto", "columns", "reference"] = Field(
        "auto",
        description="How turns are decoded and judged: by columns where their packages are installed, or one by one.",
    )
    bare_avro: bool = Field(
        False, description="Read values without any framing as Avro of the newest schema of their topic."
    )
    collection_items: Size = Field(TURN_LIMITS.collection_items, description="Items of one array or map.")
    record_items: Size = Field(TURN_LIMITS.record_items, description="Items of all arrays and maps of one record.")
    schema_ids: Size = Field(TURN_LIMITS.schema_ids, description="Writer schemas of one subject that are held.")

    def limits_of(self, topic: str) -> Limits:
        """Return the limits of the input ``topic`` (the catalogue's name) under these settings."""
        return replace(
            TURN_LIMITS if topic == "turns" else Limits(),
            collection_items=self.collection_items,
            record_items=self.record_items,
            schema_ids=self.schema_ids,
        )


class WorkerSettings(Section):
    """Batches, memory, and how a worker starts and stops."""

    max_batch_records: Size = Field(2_000, description="Records of one batch.")
    max_batch_bytes: Size = Field(4 * MIB, description="Bytes of one batch.")
    max_in_flight: Size = Field(4, description="Batches of one partition that are fetched and not finished.")
    max_bytes_in_flight: Size = Field(256 * MIB, description="Bytes of all batches that are fetched and not finished.")
    drain_deadline: Seconds = Field(
        10.0, description="Time for started batches at a rebalance or stop, in seconds; then they are abandoned."
    )
    commit_interval: Seconds = Field(1.0, description="Time between commits, in seconds: what a kill replays.")
    fetch_min_bytes: Size = Field(1, description="Bytes a broker waits for before it answers a fetch.")
    fetch_max_wait_ms: Size = Field(100, description="Longest wait for fetch_min_bytes, in milliseconds.")
    duplicate_window: Size = Field(65_536, description="Turns per partition among which a repeat is recognised.")
    datadir: Path = Field(Path(".engram-stream"), description="Writable folder of the worker.")

    @model_validator(mode="after")
    def _check(self) -> WorkerSettings:
        if self.max_bytes_in_flight < self.max_batch_bytes:
            raise _wrong("is below worker.max_batch_bytes", "Raise it, or lower the other.", "max_bytes_in_flight")
        if self.drain_deadline >= REBALANCE_TIMEOUT:
            raise _wrong(
                f"is not below the rebalance timeout of {REBALANCE_TIMEOUT:g} s", "Lower it.", "drain_deadline"
            )
        return self


class OutputsSettings(Section):
    """How outputs are published."""

    linger: Annotated[float, AfterValidator(_check_not_negative), Field(allow_inf_nan=False)] = Field(
        0.02, description="Time an output batch waits for more, in seconds."
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "lz4", description="Compression of the outputs."
    )


class MetricsSettings(Section):
    """The HTTP endpoint of metrics, liveness and readiness."""

    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address to listen on: this machine only. In a container set 0.0.0.0, for probes.",
    )
    port: int = Field(9464, ge=0, le=65535, description="Port of /metrics, /healthz and /readyz; 0 takes a free one.")


class PolicySettings(Section):
    """The policy by which turns are judged."""

    file: Path | None = Field(
        None, description="Policy YAML, reloaded when it changes; every part of it has a default."
    )


class LogSettings(Section):
    """The log on stderr."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Lowest level that is written.")
    format: Literal["text", "json"] = Field("text", description="One line of text or one JSON object per entry.")


REBALANCE_TIMEOUT: Final = 60.0
"""Seconds the group waits for a member at a rebalance; a drain must end well before."""


class Settings(Section):
    """Every process setting, by section. `load_settings` reads them; ``Settings()`` is all defaults."""

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicsSettings = TopicsSettings()
    registry: RegistrySettings = RegistrySettings()
    serde: SerdeSettings = SerdeSettings()
    worker: WorkerSettings = WorkerSettings()
    outputs: OutputsSettings = OutputsSettings()
    metrics: MetricsSettings = MetricsSettings()
    policy: PolicySettings = PolicySettings()
    log: LogSettings = LogSettings()


def sections() -> dict[str, type[Section]]:
    """Return the sections by name, in the order of the documentation."""
    found = {}
    for name, field in Settings.model_fields.items():
        if not isinstance(field.annotation, type) or not issubclass(field.annotation, Section):
            raise TypeError(f"settings section {name} is not a Section")
        found[name] = field.annotation
    return found


def setting_keys() -> tuple[str, ...]:
    """Return every key as ``section.name``, in the order of the documentation."""
    return tuple(f"{section}.{name}" for section, model in sections().items() for name in model.model_fields)


def is_secret(key: str) -> bool:
    """Tell whether the value behind ``key`` must never be shown."""
    section, _, name = key.partition(".")
    model = sections().get(section)
    return model is not None and name in model.model_fields and "SecretStr" in str(model.model_fields[name].annotation)


class Loaded(NamedTuple):
    """Settings, and where each key's value came from."""

    settings: Settings
    origins: Mapping[str, Origin]


def load(
    path: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Return the settings by the precedence flag, environment, file, default, and every value's origin.

    ``path`` is the TOML file, else the one ``ENGRAM_CONFIG`` names, else none is read. ``overrides`` are the flags, by
    ``section.name``; None means not given. ``environ`` is ``os.environ`` unless given.

    Raises:
        ConfigurationError: an unknown key, a wrong value, an unreadable file; the message lists all that is wrong.

    Source: docs/configuration.md, "Where a value comes from".
    """
    variables = os.environ if environ is None else environ
    keys = setting_keys()
    if path is None and variables.get("ENGRAM_CONFIG"):
        path = Path(variables["ENGRAM_CONFIG"])
    layers = [
        Layer({}, {}, []) if path is None else file_layer(path, keys, is_secret),
        environment_layer(variables, keys),
        flag_layer(overrides or {}, keys),
    ]
    values: dict[str, Any] = {}
    origins = dict.fromkeys(keys, Origin("default"))
    for layer in layers:
        values.update(layer.values)
        origins.update(layer.origins)
    problems = [problem for layer in layers for problem in layer.problems]
    try:
        settings = Settings.model_validate(nest(values))
    except ValidationError as error:
        problems += explain_value_errors(error, origins, values, is_secret)
        raise ConfigurationError("\n".join(problems)) from None
    if problems:
        raise ConfigurationError("\n".join(problems))
    return Loaded(settings, origins)


def load_settings(
    path: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings; as `load`, without the origins.

    Raises:
        ConfigurationError: as `load`.
    """
    return load(path, overrides, environ).settings


def read_secret(inline: SecretStr | None, file: Path | None, key: str) -> str | None:
    """Return a secret: ``inline``, else the content of ``file`` without its last line end, else None.

    The file is read at every call, so that a rotated secret serves the next connection. ``key`` names the setting
    (``section.name``) in errors.

    Raises:
        ConfigurationError: the file cannot be read, is not UTF-8, or is empty.
    """
    if inline is not None:
        return inline.get_secret_value()
    if file is None:
        return None
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{key}: cannot read {file}: {error.strerror}. Mount it, readable by the worker."
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{key}: {file} is not UTF-8 text. Write the bare secret into it.") from None
    secret = text.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise ConfigurationError(f"{key}: {file} is empty. Write the bare secret into it.")
    return secret
