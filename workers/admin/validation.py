"""Judge payloads as the stream would, without Kafka: the same decoder, the same judges, and what they would count.

Source: docs/reasons.md for the reasons; `WARNINGS` for what is processed and yet worth a producer's look.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from workers.agents.pipeline import Judge
from workers.metrics import catalogue as m
from workers.processing.duplicates import DuplicateWindow
from workers.processing.erasure import KnownTurns
from workers.processing.fidelity.verdict import Status
from workers.processing.fingerprint import COMPLETE_STATES
from workers.processing.outcome import End, RecordResult
from workers.processing.path_watch import PathTopics, PathWatch
from workers.processing.paths import Kind, PathInventory
from workers.processing.policy import Policy
from workers.processing.state_writes import StateWriteJudge
from workers.processing.turn_state import TurnOutputs, TurnState
from workers.processing.turns import TurnJudge
from workers.reasons import Reason, Rejection
from workers.records import Partition, StoredRecord
from workers.serde.encoder import Encoder
from workers.serde.limits import Limits
from workers.serde.readable import NotWritableError, ReadableWriter
from workers.serde.records import Decoded, Ending, RecordDecoder
from workers.serde.registry import SchemaRegistry
from workers.serde.resolver import CachingResolver
from workers.serde.schemas import Schema, latest, load, load_ids, to_text
from workers.serde.wire_format import MAX_SCHEMA_ID, SchemaRef, frame

INPUTS: Final = ("turns", "state-writes")

OWN_ID: Final = MAX_SCHEMA_ID
"""Stands for the schema of readable records and bare payloads where none is named; no registry gets this far."""


class Warn(StrEnum):
    """What is processed, and counted or left out, so that its producer should know. Closed.

    Details follow behind colons: the part and its state, the code, or the dotted path of the field.
    """

    UNKNOWN_FIELD = "unknown_field"
    KEY_MISMATCH = "key_mismatch"
    DUPLICATE = "duplicate"
    IMPLAUSIBLE_TIME = "implausible_time"
    COMPLETED_BEFORE_ASSEMBLED = "completed_before_assembled"
    NO_MANIFEST = "no_manifest"
    MANIFEST_INVALID = "manifest_invalid"
    FINDING = "finding"
    INCOMPLETE = "incomplete"
    TIER2_MISSING = "tier2_missing"
    UNKNOWN_ATTESTATION = "unknown_attestation"


WARNINGS: Final[Mapping[Warn, str]] = {
    Warn.UNKNOWN_FIELD: "The field is not in the schema and is not read; see if its name is misspelt.",
    Warn.KEY_MISMATCH: "The record's key is not the one its ids give; turns of one conversation must share a key.",
    Warn.DUPLICATE: "An earlier record of the file has the same tenant, conversation and turn id; only it counts.",
    Warn.IMPLAUSIBLE_TIME: "The time lies before 2000; send milliseconds since 1970, not seconds.",
    Warn.COMPLETED_BEFORE_ASSEMBLED: "completed_at lies before assembled_at; see that both have one unit and clock.",
    Warn.NO_MANIFEST: "The turn carries no manifest, so its replay is not graded.",
    Warn.MANIFEST_INVALID: "The manifest breaks its contract and is not graded; `fidelity explain` tells the code.",
    Warn.FINDING: "The manifest contradicts itself or the fingerprint; `fidelity explain` tells the code.",
    Warn.INCOMPLETE: "A part of the fingerprint is not usable, so the turn counts as incomplete.",
    Warn.TIER2_MISSING: "An optional field is not set; without it some questions have no answer.",
    Warn.UNKNOWN_ATTESTATION: "not_applicable names something that is no part of the fingerprint.",
}

YEAR_2000: Final = 946_684_800_000
"""Event times before it, in milliseconds, are most likely seconds."""


class ManifestIssue(NamedTuple):
    """Why a manifest is not graded: the code, and the JSON Pointer of the place, empty for the root."""

    code: str
    path: str


class Checked(NamedTuple):
    """What the stream would do with a record: refuse it for ``rejection``, or process it with ``warnings``.

    ``expected`` says by types what a record that no serializer writes should hold at the place of the rejection;
    ``manifest_issues`` are those behind the warnings `Warn.MANIFEST_INVALID`, as many as a verdict lists.
    """

    rejection: Rejection | None
    warnings: tuple[str, ...] = ()
    expected: str | None = None
    manifest_issues: tuple[ManifestIssue, ...] = ()


class NotARecordError(ValueError):
    """A JSON value that is neither a readable record nor a stored one; the text says why, and quotes nothing."""


class Validator:
    """Judges records of one input topic under one policy.

    Records given by `readable`, and payloads without any frame where ``bare`` is set, are written with
    ``schema_text``; without it, with the schema that ``registry`` holds under ``schema_id``; without that, with the
    newest shipped schema. Where both are given, frames of ``schema_id`` lead to ``schema_text`` too.
    """

    def __init__(
        self,
        subject: str,
        registry: SchemaRegistry,
        limits: Limits,
        policy: Policy,
        *,
        schema_text: str | None = None,
        schema_id: int | None = None,
        bare: bool = False,
    ) -> None:
        self._subject = subject
        self._limits = limits
        self._policy = policy
        self._bare = bare
        self._own = OWN_ID if schema_id is None else schema_id
        if schema_text is None and schema_id is None:
            schema_text = to_text(load(subject))
        self._registry = _AlsoKnowing(registry, self._own, schema_text)
        self._resolver = CachingResolver(self._registry, subject, limits)
        self._decoder = RecordDecoder(self._resolver, limits, self._own if bare else None)
        self._verdict: Mapping[str, Any] = {}
        self._encode_verdict = Encoder(load("fidelity"), load_ids()["fidelity"][latest("fidelity")].id).encode
        self._readable_of: ReadableWriter | None = None
        self._offset = 0
        self.next_file()

    def next_file(self) -> None:
        """Forget the ids seen so far: repeats are looked for within a file."""
        self._judge = self._new_judge()

    async def json_value(self, value: object) -> Checked:
        """Judge parsed JSON: a readable record, or a stored one, as ``dlq show --reveal --format json`` prints it.

        A stored record has ``value_base64`` (null: a tombstone), and may have ``key_base64`` and ``headers``.

        Raises:
            NotARecordError: it is neither.
            UnreachableError: the registry gave no final answer.
        """
        if not isinstance(value, dict):
            raise NotARecordError("expected a JSON object")
        if "value_base64" in value:
            return await self._stored(_stored_record(value), "key_base64" in value)
        return await self._readable(value)

    async def value(self, value: bytes) -> Checked:
        """Judge the bytes of a Kafka value.

        Raises:
            UnreachableError: the registry gave no final answer.
        """
        return await self._stored(StoredRecord(0, 0, None, value), keyed=False)

    async def _readable(self, record: Mapping[str, Any]) -> Checked:
        writer = (await self._resolver.resolve([self._own]))[self._own]
        if isinstance(writer, Rejection):
            return Checked(writer)
        try:
            written = (await self._readable_writer()).write(record)
        except NotWritableError as error:
            return Checked(Rejection(Reason.INVALID_RECORD, "encode", error.field), expected=error.expected)
        value = written.payload if self._bare else frame(self._own, written.payload)
        checked = await self._stored(StoredRecord(0, 0, None, value), keyed=False)
        return checked._replace(warnings=(*_codes(Warn.UNKNOWN_FIELD, written.left_out), *checked.warnings))

    async def _readable_writer(self) -> ReadableWriter:
        if self._readable_of is None:
            text = await self._registry.schema_by_ref(self._own)
            self._readable_of = ReadableWriter(text or "", self._limits)
        return self._readable_of

    async def _stored(self, record: StoredRecord, keyed: bool) -> Checked:
        self._offset += 1
        self._verdict = {}  # a tombstone gets none
        record = StoredRecord(self._offset, record.timestamp, record.key, record.value, record.headers)
        parsed = self._decoder.frames([record])
        ending = self._decoder.decode(parsed[0], await self._decoder.writers(parsed))
        result = self._end_of(record, ending)
        if isinstance(result, Rejection):
            return Checked(result)
        if result.rejection is not None:
            return Checked(result.rejection)
        return Checked(None, self._warnings(result, ending, keyed), manifest_issues=self._manifest_issues())

    def _end_of(self, record: StoredRecord, ending: Ending) -> RecordResult | Rejection:
        try:
            return self._judge.judge(record, ending)
        except Exception:  # noqa: BLE001 - what fails here fails in the stream too, and is a dead letter there
            return Rejection(Reason.PROCESSING_FAILED, "process")

    def _warnings(self, result: RecordResult, ending: Ending, keyed: bool) -> tuple[str, ...]:
        if not isinstance(ending, Decoded):
            return ()
        counted = {metric for metric, _ in result.tally.counts} if result.tally is not None else set()
        warnings = list(_codes(Warn.UNKNOWN_FIELD, ending.writer.unknown_fields))
        if result.end is End.DUPLICATE:
            warnings.append(Warn.DUPLICATE)
        if keyed and m.KEY_MISMATCH in counted:
            warnings.append(Warn.KEY_MISMATCH)
        if self._subject == "turns":
            warnings += [*_time_warnings(ending.value), *_verdict_warnings(self._verdict)]
        if m.UNKNOWN_ATTESTATIONS in counted:
            warnings.append(Warn.UNKNOWN_ATTESTATION)
        return tuple(warnings)

    def _manifest_issues(self) -> tuple[ManifestIssue, ...]:
        issues = self._verdict.get("manifest_issues", ())
        return tuple(ManifestIssue(issue["code"], issue["path"]) for issue in issues)

    def _new_judge(self) -> Judge:
        source = Partition(self._subject, 0)
        if self._subject == "state-writes":
            return StateWriteJudge(source, _unwatched(source, "state_writes"))
        outputs = TurnOutputs("fidelity", 1, self._encode)
        state = TurnState(source, outputs, _unwatched(source, "turns"), DuplicateWindow(), KnownTurns())
        return TurnJudge(state, lambda: self._policy)

    def _encode(self, verdict: Mapping[str, Any]) -> bytes:
        self._verdict = verdict
        return self._encode_verdict(verdict)


def _time_warnings(turn: Mapping[str, Any]) -> tuple[str, ...]:
    assembled, completed = times = turn["assembled_at"], turn["completed_at"]
    named = zip(("assembled_at", "completed_at"), times, strict=True)
    warnings = _codes(Warn.IMPLAUSIBLE_TIME, (name for name, time in named if time is not None and time < YEAR_2000))
    if assembled is not None and completed is not None and completed < assembled:
        return (*warnings, Warn.COMPLETED_BEFORE_ASSEMBLED)
    return warnings


def _verdict_warnings(verdict: Mapping[str, Any]) -> list[str]:
    warnings: list[str] = []
    if verdict["status"] == Status.NO_MANIFEST:
        warnings.append(Warn.NO_MANIFEST)
    warnings += _codes(Warn.MANIFEST_INVALID, (issue["code"] for issue in verdict["manifest_issues"]))
    warnings += _codes(Warn.FINDING, (found["code"] for found in verdict["findings"]))
    gaps = (f"{part}:{state}" for part, state in verdict["completeness"].items() if state not in COMPLETE_STATES)
    warnings += _codes(Warn.INCOMPLETE, gaps)
    return [*warnings, *_codes(Warn.TIER2_MISSING, verdict["missing_tier2"])]


def _codes(code: Warn, details: Iterable[str]) -> tuple[str, ...]:
    """Return ``code`` with each of ``details``, repeats left out."""
    return tuple(dict.fromkeys(f"{code}:{detail}" for detail in details))


def _unwatched(source: Partition, kind: Kind) -> PathWatch:
    """Return a watch that finds no path new, so that it never writes anything."""
    topics = PathTopics("alerts", "producer-paths", _write_nothing, _write_nothing)
    return PathWatch(source, topics, PathInventory(source, kind), lambda _: True, lambda: "")


def _write_nothing(_: Mapping[str, Any]) -> bytes:
    return b""


def _stored_record(value: Mapping[str, Any]) -> StoredRecord:
    headers = value.get("headers", [])
    if not isinstance(headers, list) or not all(
        isinstance(header, list) and len(header) == 2 and isinstance(header[0], str) for header in headers
    ):
        raise NotARecordError("headers must be a list of [name, base64 or null]")
    return StoredRecord(
        0,
        0,
        _bytes(value.get("key_base64"), "key_base64"),
        _bytes(value["value_base64"], "value_base64"),
        tuple((name, _bytes(content, "headers")) for name, content in headers),
    )


def _bytes(text: object, where: str) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else _refuse(where)
    except binascii.Error:
        return _refuse(where)


def _refuse(where: str) -> bytes:
    raise NotARecordError(f"{where} must be base64 or null")


class _AlsoKnowing:
    """A registry with one schema on top, where ``text`` is given; what it does not know now it never will."""

    fixed = True

    def __init__(self, registry: SchemaRegistry, ref: int, text: str | None) -> None:
        self._registry = registry
        self._ref = ref
        self._text = text

    async def schema_by_ref(self, ref: SchemaRef) -> str | None:
        if ref == self._ref and self._text is not None:
            return self._text
        return await self._registry.schema_by_ref(ref)

    async def id_of(self, subject: str, schema: Schema) -> int | None:
        return await self._registry.id_of(subject, schema)

    async def register(self, subject: str, schema: Schema) -> int:
        return await self._registry.register(subject, schema)

    async def close(self) -> None:
        await self._registry.close()
