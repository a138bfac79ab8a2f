"""Against a real registry that speaks Confluent's REST interface (Apicurio)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from click.testing import CliRunner

from workers.commands.schemas import command
from workers.errors import ConfigurationError, UnreachableError
from workers.serde.admission import WriterSchema
from workers.serde.confluent_registry import ConfluentRegistry, RegistryOptions
from workers.serde.limits import TURN_LIMITS
from workers.serde.registry import SchemaPendingError, output_id
from workers.serde.resolver import CachingResolver
from workers.serde.schemas import SUBJECTS, load
from workers.testing.local_registry import LocalSchemaRegistry


@pytest.fixture(scope="module")
def server() -> Iterator[LocalSchemaRegistry]:
    with LocalSchemaRegistry() as registry:
        yield registry


@pytest.fixture
async def registry(server: LocalSchemaRegistry) -> AsyncIterator[ConfluentRegistry]:
    client = ConfluentRegistry(RegistryOptions(server.url))
    yield client
    await client.close()


async def register(server: LocalSchemaRegistry) -> list[dict[str, object]]:
    arguments = ["register", "--registry-url", server.url, "--format", "json"]
    done = await asyncio.to_thread(CliRunner().invoke, command, arguments)
    assert done.exit_code == 0, done.output
    rows: list[dict[str, object]] = json.loads(done.output)
    return rows


async def test_registering_twice_gives_the_same_ids_and_workers_find_them(
    server: LocalSchemaRegistry, registry: ConfluentRegistry
) -> None:
    rows = await register(server)
    assert rows == await register(server)
    assert [row["subject"] for row in rows] == [f"{subject}-value" for subject in SUBJECTS]
    for subject, row in zip(SUBJECTS, rows, strict=True):
        assert await output_id(registry, subject) == row["id"]


async def test_a_registered_schema_is_admitted_by_its_id(
    server: LocalSchemaRegistry, registry: ConfluentRegistry
) -> None:
    await register(server)
    number = await output_id(registry, "turns")
    writer = (await CachingResolver(registry, "turns", TURN_LIMITS).resolve([number]))[number]
    assert isinstance(writer, WriterSchema)
    assert "fingerprint.model_id" in writer.presence


@pytest.mark.parametrize("ref", [4_000_000, "3f090ba1-4c81-57e0-8078-b546d49c8a09"])
async def test_what_the_registry_does_not_know_is_waited_for_and_is_no_outage(
    registry: ConfluentRegistry, ref: int | str
) -> None:
    assert await registry.schema_by_ref(ref) is None
    with pytest.raises(SchemaPendingError):
        await CachingResolver(registry, "turns", TURN_LIMITS).resolve([ref])


async def test_a_schema_that_is_not_registered_has_no_id(
    registry: ConfluentRegistry,
) -> None:
    changed = load("alerts")
    changed["doc"] = "never registered"
    changed["fields"].append({"name": "extra", "type": "string"})
    assert await registry.id_of("alerts", changed) is None
    assert await registry.id_of("no-such-subject", changed) is None


async def test_a_worker_on_an_empty_registry_is_told_the_command_that_fills_it() -> None:
    with LocalSchemaRegistry() as empty:
        client = ConfluentRegistry(RegistryOptions(empty.url))
        try:
            with pytest.raises(ConfigurationError, match="engram-stream schemas register"):
                await output_id(client, "alerts")
        finally:
            await client.close()


async def test_an_incompatible_schema_is_refused_with_the_subject_and_the_way_out(
    server: LocalSchemaRegistry, registry: ConfluentRegistry
) -> None:
    await register(server)
    changed = load("alerts")
    changed["fields"].append({"name": "extra", "type": "string"})
    with pytest.raises(ConfigurationError, match=r"alerts-value.*schemas check"):
        await registry.register("alerts", changed)


@pytest.mark.parametrize("ref", [1, "3f090ba1-4c81-57e0-8078-b546d49c8a09"])
async def test_a_404_that_is_not_the_registrys_own_is_an_outage(server: LocalSchemaRegistry, ref: int | str) -> None:
    wrong_path = ConfluentRegistry(RegistryOptions(server.url + "/elsewhere"))
    try:
        with pytest.raises(UnreachableError, match="HTTP 404"):
            await wrong_path.schema_by_ref(ref)
    finally:
        await wrong_path.close()


async def test_a_stopped_registry_is_an_outage_that_names_the_server_and_what_is_known_goes_on() -> None:
    with LocalSchemaRegistry() as server:
        await register(server)
        registry = ConfluentRegistry(RegistryOptions(server.url, timeout_s=2.0))
        resolver = CachingResolver(registry, "turns", TURN_LIMITS)
        number = await output_id(registry, "turns")
        await resolver.resolve([number])
    try:
        with pytest.raises(UnreachableError, match="did not answer"):
            await registry.schema_by_ref(number)
        assert isinstance((await resolver.resolve([number]))[number], WriterSchema)
        with pytest.raises(UnreachableError):
            await resolver.resolve([number, 4_000_000])
    finally:
        await registry.close()
