"""Resolve schema references once: what was admitted is kept for ever, what is unknown is asked for again later.

Source: docs/concepts/decoding.md, "Registry".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final, TypeAlias

from workers.reasons import Reason, Rejection
from workers.serde.admission import WriterSchema, admit
from workers.serde.limits import Limits
from workers.serde.registry import SchemaPendingError, SchemaRegistry
from workers.serde.wire_format import MAX_SCHEMA_ID, SchemaRef

GRACE_S: Final = 30.0
"""How long a reference the registry does not know may wait for its registration."""
NEGATIVE_S: Final = 60.0
"""How long an unknown reference is answered without asking again."""
ASK_AGAIN_S: Final = 1.0
"""Shortest time between two questions within the grace; it grows to half of the time that has passed."""

_STAGE: Final = "schema"
_MAX_REFUSED: Final = 1_024
_MAX_UNKNOWN: Final = 65_536
_MAX_QUESTIONS: Final = 16

Resolution: TypeAlias = WriterSchema | Rejection
"""What a reference leads to."""


@dataclass(slots=True)
class _Unknown:
    """A reference the registry does not know; times of the monotonic clock, in seconds."""

    since: float
    ask_at: float
    final: bool = False  # asked again after the grace

    def is_spent(self, now: float) -> bool:
        """Whether it may be forgotten: it is answered, or nobody asks any more."""
        return self.final or now - self.ask_at > NEGATIVE_S


class CachingResolver:
    """Resolves the schema references of one subject.

    Admitted schemas and refused ones are kept for ever, as a registry never changes what an id means; at most
    ``limits.schema_ids`` are admitted, any further one is refused. Concurrent questions for one reference become one.
    ``clock`` is monotonic, in seconds.
    """

    def __init__(
        self, registry: SchemaRegistry, subject: str, limits: Limits, clock: Callable[[], float] = monotonic
    ) -> None:
        self._registry = registry
        self._subject = subject
        self._limits = limits
        self._clock = clock
        self._grace = 0.0 if registry.fixed else GRACE_S
        self._admitted: dict[SchemaRef, WriterSchema] = {}
        self._refused: dict[SchemaRef, Rejection] = {}
        self._unknown: dict[SchemaRef, _Unknown] = {}
        self._room = _MAX_UNKNOWN
        self._asking: dict[SchemaRef, asyncio.Task[str | None]] = {}
        self._questions = asyncio.Semaphore(_MAX_QUESTIONS)

    @property
    def admitted(self) -> int:
        """Number of schemas admitted so far."""
        return len(self._admitted)

    @property
    def refused(self) -> int:
        """Number of schemas refused so far and still remembered."""
        return len(self._refused)

    @property
    def unknown(self) -> int:
        """Number of references the registry does not know and that are still remembered."""
        return len(self._unknown)

    def cached(self, ref: SchemaRef) -> Resolution | None:
        """Return what ``ref`` is known to lead to, None where the registry must be asked."""
        if isinstance(ref, int) and ref > MAX_SCHEMA_ID:
            return self._unknown_rejection(ref)  # registries answer such an id like an outage, so never ask
        known: Resolution | None = self._admitted.get(ref) or self._refused.get(ref)
        if known is None:
            missed = self._unknown.get(ref)
            if missed is not None and missed.final and self._clock() < missed.ask_at:
                return self._unknown_rejection(ref)
        return known

    async def resolve(self, refs: Iterable[SchemaRef]) -> dict[SchemaRef, Resolution]:
        """Return what each of ``refs`` leads to.

        Raises:
            SchemaPendingError: the registry does not know one of them yet, and its grace is not over.
            UnreachableError: the registry gave no final answer for one of them. Whatever was answered is kept.
        """
        wanted = list(dict.fromkeys(refs))
        results: dict[SchemaRef, Resolution] = {}
        for ref in wanted:
            known = self.cached(ref)
            if known is not None:
                results[ref] = known
        missing = [ref for ref in wanted if ref not in results]
        if missing:
            answers = await asyncio.gather(*(self._ask(ref) for ref in missing), return_exceptions=True)
            for ref, answer in zip(missing, answers, strict=True):
                if isinstance(answer, BaseException):
                    raise answer
                results[ref] = answer
        return results

    async def _ask(self, ref: SchemaRef) -> Resolution:
        missed = self._unknown.get(ref)
        if missed is not None and self._clock() < min(missed.ask_at, missed.since + self._grace):
            raise self._pending(ref)
        task = self._asking.get(ref)
        if task is None:
            task = asyncio.create_task(self._question(ref))
            self._asking[ref] = task
            task.add_done_callback(partial(self._answered, ref))
        text = await asyncio.shield(task)  # a caller that is cancelled does not cancel the others' question
        return self.cached(ref) or (self._missed(ref) if text is None else self._admit(ref, text))

    async def _question(self, ref: SchemaRef) -> str | None:
        async with self._questions:
            return await self._registry.schema_by_ref(ref)

    def _answered(self, ref: SchemaRef, task: asyncio.Task[str | None]) -> None:
        self._asking.pop(ref, None)
        if not task.cancelled():
            task.exception()  # retrieved here too, as every caller may have been cancelled

    def _admit(self, ref: SchemaRef, text: str) -> Resolution:
        self._unknown.pop(ref, None)
        if len(self._admitted) >= self._limits.schema_ids:
            result: Resolution = Rejection(Reason.SCHEMA_REJECTED, _STAGE, None, str(ref))
        else:
            result = admit(text, self._subject, self._limits, ref)
        if isinstance(result, WriterSchema):
            self._admitted[ref] = result
        else:
            self._refused[ref] = result
            if len(self._refused) > _MAX_REFUSED:
                del self._refused[next(iter(self._refused))]
        return result

    def _missed(self, ref: SchemaRef) -> Resolution:
        now = self._clock()
        missed = self._unknown.get(ref)
        if missed is None:
            missed = _Unknown(since=now, ask_at=now)
            self._forget_spent(now)
            self._unknown[ref] = missed
        if now - missed.since < self._grace:
            missed.ask_at = now + max(ASK_AGAIN_S, (now - missed.since) / 2)
            raise self._pending(ref)
        missed.final = True
        missed.ask_at = now + NEGATIVE_S
        return self._unknown_rejection(ref)

    def _forget_spent(self, now: float) -> None:
        """Make room in a full store: garbage ids are without number.

        Those still in their grace stay, or it would begin anew and a batch full of them would wait for ever; they are
        no more than the records of the batches at hand.
        """
        if len(self._unknown) >= self._room:
            self._unknown = {ref: missed for ref, missed in self._unknown.items() if not missed.is_spent(now)}
            self._room = max(_MAX_UNKNOWN, 2 * len(self._unknown))

    def _unknown_rejection(self, ref: SchemaRef) -> Rejection:
        return Rejection(Reason.UNKNOWN_SCHEMA_ID, _STAGE, None, str(ref))

    def _pending(self, ref: SchemaRef) -> SchemaPendingError:
        return SchemaPendingError(
            f"schema {ref} of {self._subject} is not in the registry yet; its records wait up to {GRACE_S:.0f} s. "
            "Register the schema before producing with it."
        )
