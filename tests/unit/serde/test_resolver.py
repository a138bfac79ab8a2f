from __future__ import annotations

import asyncio
import json

import pytest

from workers.errors import UnreachableError
from workers.reasons import Reason, Rejection
from workers.serde import resolver as resolver_module
from workers.serde.admission import WriterSchema
from workers.serde.limits import Limits
from workers.serde.local_registry import LocalRegistry
from workers.serde.registry import SchemaPendingError
from workers.serde.resolver import CachingResolver
from workers.serde.schemas import Schema, load
from workers.serde.wire_format import SchemaRef

TURN = json.dumps(load("turns"))


class Registry:
    """A registry whose answers the test decides: a text, None for "not known", or an error."""

    fixed = False

    def __init__(self, **answers: str | Exception | None) -> None:
        self.answers: dict[SchemaRef, str | Exception | None] = {int(ref[1:]): answers[ref] for ref in answers}
        self.asked: list[SchemaRef] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.called = asyncio.Event()

    async def schema_by_ref(self, ref: SchemaRef) -> str | None:
        self.asked.append(ref)
        self.called.set()
        await self.gate.wait()
        answer = self.answers.get(ref)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def id_of(self, subject: str, schema: Schema) -> int | None:
        raise NotImplementedError

    async def register(self, subject: str, schema: Schema) -> int:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def one(resolver: CachingResolver, ref: SchemaRef) -> WriterSchema | Rejection:
    return (await resolver.resolve([ref]))[ref]


async def test_a_schema_is_asked_for_once_and_kept_for_ever() -> None:
    registry, clock = Registry(_1=TURN), Clock()
    resolver = CachingResolver(registry, "turns", Limits(), clock)
    first = await one(resolver, 1)
    clock.now += 10_000_000
    assert isinstance(first, WriterSchema)
    assert await one(resolver, 1) is first is resolver.cached(1)
    assert registry.asked == [1]


async def test_a_refused_schema_is_asked_for_once_too() -> None:
    registry = Registry(_1='{"type":"record","name":"Other","fields":[]}')
    resolver = CachingResolver(registry, "turns", Limits())
    first = await one(resolver, 1)
    assert isinstance(first, Rejection)
    assert (first.reason, first.schema_id) == (Reason.SCHEMA_REJECTED, "1")
    assert await one(resolver, 1) is first
    assert registry.asked == [1]


async def test_concurrent_questions_become_one_and_a_cancelled_asker_leaves_the_others_alone() -> None:
    registry = Registry(_1=TURN)
    registry.gate.clear()
    resolver = CachingResolver(registry, "turns", Limits())
    askers = [asyncio.create_task(one(resolver, 1)) for _ in range(3)]
    await registry.called.wait()
    askers[0].cancel()
    await asyncio.sleep(0)
    registry.gate.set()
    assert await askers[1] is await askers[2]
    assert askers[0].cancelled()
    assert registry.asked == [1]


async def test_an_unknown_id_waits_30_seconds_and_is_refused_then() -> None:
    registry, clock = Registry(), Clock()
    resolver = CachingResolver(registry, "turns", Limits(), clock)
    for _ in range(30):
        with pytest.raises(SchemaPendingError, match="schema 9 of turns"):
            await one(resolver, 9)
        assert resolver.cached(9) is None
        clock.now += 1
    refused = await one(resolver, 9)
    assert isinstance(refused, Rejection)
    assert (refused.reason, refused.schema_id) == (Reason.UNKNOWN_SCHEMA_ID, "9")


async def test_an_id_registered_within_the_grace_loses_nothing() -> None:
    registry, clock = Registry(), Clock()
    resolver = CachingResolver(registry, "turns", Limits(), clock)
    with pytest.raises(SchemaPendingError):
        await one(resolver, 9)
    registry.answers[9] = TURN
    clock.now += 29
    assert isinstance(await one(resolver, 9), WriterSchema)


async def test_a_refused_id_is_asked_for_again_after_60_seconds_and_not_before() -> None:
    registry, clock = Registry(), Clock()
    resolver = CachingResolver(registry, "turns", Limits(), clock)
    with pytest.raises(SchemaPendingError):
        await one(resolver, 9)
    clock.now += 30
    assert isinstance(await one(resolver, 9), Rejection)
    asked = len(registry.asked)
    clock.now += 59
    assert isinstance(await one(resolver, 9), Rejection)
    assert len(registry.asked) == asked
    clock.now += 1
    assert isinstance(await one(resolver, 9), Rejection), "no second grace"
    registry.answers[9] = TURN
    clock.now += 60
    assert isinstance(await one(resolver, 9), WriterSchema)


async def test_retries_within_the_grace_do_not_storm_the_registry() -> None:
    registry, clock = Registry(), Clock()
    resolver = CachingResolver(registry, "turns", Limits(), clock)
    for _ in range(100):
        with pytest.raises(SchemaPendingError):
            await one(resolver, 9)
        clock.now += 0.01
    assert len(registry.asked) == 1
    while clock.now < 1_029.9:
        with pytest.raises(SchemaPendingError):
            await one(resolver, 9)
        clock.now += 0.1
    assert len(registry.asked) <= 10


async def test_an_outage_is_no_answer_and_known_ids_go_on() -> None:
    registry = Registry(_1=TURN, _2=UnreachableError("down"))
    resolver = CachingResolver(registry, "turns", Limits())
    with pytest.raises(UnreachableError, match="down"):
        await resolver.resolve([1, 2])
    assert isinstance(await one(resolver, 1), WriterSchema)
    assert resolver.cached(2) is None
    registry.answers[2] = TURN
    assert isinstance(await one(resolver, 2), WriterSchema)


async def test_more_schemas_than_allowed_are_refused_and_those_held_go_on() -> None:
    registry = Registry(_1=TURN, _2=TURN, _3=TURN)
    resolver = CachingResolver(registry, "turns", Limits(schema_ids=2))
    results = await resolver.resolve([1, 2, 3])
    assert [isinstance(results[ref], WriterSchema) for ref in (1, 2, 3)] == [True, True, False]
    assert (resolver.admitted, resolver.refused) == (2, 1)


@pytest.fixture
def _small_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolver_module, "_MAX_UNKNOWN", 50)


@pytest.mark.usefixtures("_small_store")
async def test_a_flood_of_garbage_ids_ends_after_one_grace_however_many_they_are() -> None:
    clock = Clock()
    resolver = CachingResolver(Registry(), "turns", Limits(), clock)
    flood = range(300)
    with pytest.raises(SchemaPendingError):
        await resolver.resolve(flood)
    clock.now += 30
    results = await resolver.resolve(flood)
    assert all(isinstance(result, Rejection) for result in results.values())


@pytest.mark.usefixtures("_small_store")
async def test_garbage_ids_that_are_answered_or_abandoned_make_room() -> None:
    clock = Clock()
    resolver = CachingResolver(Registry(), "turns", Limits(), clock)
    for start in range(0, 3_000, 300):
        with pytest.raises(SchemaPendingError):
            await resolver.resolve(range(start, start + 300))
        clock.now += 1_000
    assert resolver.unknown <= 600


async def test_a_few_questions_at_a_time_reach_the_registry() -> None:
    registry = Registry()
    registry.gate.clear()
    resolver = CachingResolver(registry, "turns", Limits())
    asking = asyncio.create_task(resolver.resolve(range(100)))
    await registry.called.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(registry.asked) == 16
    registry.gate.set()
    with pytest.raises(SchemaPendingError):
        await asking
    assert len(registry.asked) == 100


async def test_an_id_that_no_registry_issues_is_refused_without_asking() -> None:
    registry = Registry()
    resolver = CachingResolver(registry, "turns", Limits())
    refused = await one(resolver, 2**31)
    assert isinstance(refused, Rejection)
    assert (refused.reason, registry.asked) == (Reason.UNKNOWN_SCHEMA_ID, [])


async def test_the_shipped_schemas_answer_for_id_and_guid_and_nothing_is_waited_for() -> None:
    resolver = CachingResolver(LocalRegistry(), "turns", Limits())
    guid = "3f090ba1-4c81-57e0-8078-b546d49c8a09"
    results = await resolver.resolve([1, guid, 999])
    assert isinstance(results[1], WriterSchema)
    assert isinstance(results[guid], WriterSchema)
    unknown = results[999]
    assert isinstance(unknown, Rejection)
    assert unknown.reason is Reason.UNKNOWN_SCHEMA_ID
