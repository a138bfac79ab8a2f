"""A registry that speaks Confluent's REST interface: Confluent's own, Apicurio, Karapace.

The client's own cache and retries stay out of the way: caching and waiting are decided by the caller, who knows which
partitions must pause.

Source: "Schema Registry API Reference" of Confluent, error codes 40401 to 40403.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError
from confluent_kafka.schema_registry.schema_registry_client import AsyncSchemaRegistryClient

from workers.errors import ConfigurationError, UnreachableError
from workers.serde.schemas import Schema, registry_subject, to_text
from workers.serde.wire_format import SchemaRef

FULL_TRANSITIVE: Final = "FULL_TRANSITIVE"
_Answer = TypeVar("_Answer")

_UNKNOWN_SCHEMA: Final = 40403
_NO_CODE: Final = (None, -1)
_UNKNOWN_SUBJECT: Final = 40401
_NOT_FOUND: Final = 404
_REFUSED: Final = frozenset({401, 403})
_WRONG_SCHEMA: Final = frozenset({409, 422})


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """How to reach a registry.

    ``url`` is its base (``https://host:8081``), ``timeout_s`` bounds one request. ``basic`` returns user and password,
    ``bearer`` a token; both are called again after the registry refused us, so a rotated secret is picked up.
    """

    url: str
    timeout_s: float = 5.0
    basic: Callable[[], tuple[str, str]] | None = field(default=None, repr=False)
    bearer: Callable[[], str] | None = field(default=None, repr=False)
    ca_file: Path | None = None


class ConfluentRegistry:
    """The calls of `workers.serde.registry.SchemaRegistry`, and the level of compatibility of a subject."""

    fixed = False

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._client: AsyncSchemaRegistryClient | None = None

    async def schema_by_ref(self, ref: SchemaRef) -> str | None:
        """Return the text of the schema ``ref``, None only when the registry answers with its own code 40403.

        Registries without GUIDs (Apicurio 3.0) have no such code for one. There a plain 404 counts as unknown too,
        provided that the registry answers to something else: one stray header must not hold a partition for ever.

        Raises:
            UnreachableError: any other answer, or none.
        """
        if isinstance(ref, int):
            schema = await self._ask(lambda client: client.get_schema(ref), {_UNKNOWN_SCHEMA})
        else:
            schema = await self._ask(lambda client: client.get_schema_by_guid(ref), {_UNKNOWN_SCHEMA, *_NO_CODE})
            if schema is None:
                await self._ask(lambda client: client.get_schema_types())
        if schema is None:
            return None
        if not isinstance(schema.schema_str, str):
            raise self._unreachable("answered without a schema; check that the URL is a registry's")
        return schema.schema_str

    async def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the id of ``schema`` under ``subject``, None when it is not registered there.

        Raises:
            UnreachableError: the registry gave no final answer.
        """
        wanted = ClientSchema(to_text(schema), "AVRO")
        found = await self._ask(
            lambda client: client.lookup_schema(registry_subject(subject), wanted), {_UNKNOWN_SUBJECT, _UNKNOWN_SCHEMA}
        )
        return None if found is None else int(found.schema_id)

    async def register(self, subject: str, schema: Schema) -> int:
        """Register ``schema`` under ``subject`` and return its id; registering it again changes nothing.

        Raises:
            ConfigurationError: the registry refuses it as incompatible or invalid.
            UnreachableError: the registry gave no final answer.
        """
        wanted = ClientSchema(to_text(schema), "AVRO")
        try:
            answer = await self._ask(lambda client: client.register_schema(registry_subject(subject), wanted))
        except _WrongSchemaError as error:
            raise ConfigurationError(
                f"registry {self._where}: refuses the schema of {registry_subject(subject)} ({error}). "
                "Compare the versions registered there with schemas/, then run `engram-stream schemas check`."
            ) from None
        return int(answer)

    async def set_compatibility(self, subject: str, level: str = FULL_TRANSITIVE) -> None:
        """Set the level of compatibility of ``subject``.

        Raises:
            UnreachableError: the registry gave no final answer.
        """
        await self._ask(lambda client: client.set_compatibility(registry_subject(subject), level))

    async def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ask(
        self, call: Callable[[AsyncSchemaRegistryClient], Awaitable[_Answer]], absent: set[int | None] | None = None
    ) -> Any:  # noqa: ANN401
        """Return the answer to ``call``, None where the registry answers with a code of ``absent``."""
        if self._client is None:
            self._client = AsyncSchemaRegistryClient(self._client_options())
        try:
            return await call(self._client)
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND and error.error_code in (absent or ()):
                return None
            if error.http_status_code in _WRONG_SCHEMA:
                raise _WrongSchemaError(f"HTTP {error.http_status_code}, code {error.error_code}") from None
            if error.http_status_code in _REFUSED:
                await self.close()
                raise self._unreachable(
                    f"refused us (HTTP {error.http_status_code}); check user, password or token of [registry]"
                ) from None
            raise self._unreachable(
                f"answered HTTP {error.http_status_code}, code {error.error_code}; check the server and registry.url"
            ) from None
        except (OSError, OAuthTokenError, TypeError, ValueError, AttributeError, LookupError) as error:
            raise self._unreachable(f"gave no answer that makes sense ({type(error).__name__})") from None
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in {"httpx", "httpx2", "httpcore", "httpcore2"}:
                raise
            raise self._unreachable(
                f"did not answer ({type(error).__name__}); check the network and registry.url"
            ) from None
        finally:
            if self._client is not None:
                await _forget(self._client)

    def _client_options(self) -> dict[str, object]:
        options = self._options
        conf: dict[str, object] = {"url": options.url, "timeout": options.timeout_s, "max.retries": 0}
        if options.ca_file is not None:
            conf["ssl.ca.location"] = str(options.ca_file)
        if options.basic is not None:
            conf["basic.auth.user.info"] = ":".join(options.basic())
        if options.bearer is not None:
            conf["bearer.auth.credentials.source"] = "CUSTOM"
            conf["bearer.auth.custom.provider.function"] = _bearer_fields(options.bearer)
            conf["bearer.auth.custom.provider.config"] = {}
        return conf

    @property
    def _where(self) -> str:
        parts = urlsplit(self._options.url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"  # without user and password

    def _unreachable(self, what: str) -> UnreachableError:
        return UnreachableError(f"registry {self._where}: {what}")


async def _forget(client: Any) -> None:  # noqa: ANN401 - the method has no types
    """Empty the client's own cache, which has no bound for what is asked by id."""
    await client.clear_caches()


class _WrongSchemaError(Exception):
    """The registry refuses a schema."""


def _bearer_fields(token: Callable[[], str]) -> Callable[[dict[str, str]], Awaitable[dict[str, str]]]:
    async def fields(_: dict[str, str]) -> dict[str, str]:
        return {"bearer.auth.token": token(), "bearer.auth.logical.cluster": ""}

    return fields
