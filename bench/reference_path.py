"""The stages of the reference path on a sample of turns of one partition."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

import fastavro
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from bench.timing import Stage, for_each
from bench.workload import TurnRecord
from workers.agents.accounts import Accounts
from workers.keys import encode_key, partition_of
from workers.metrics.exporter import Exporter
from workers.processing.duplicates import DuplicateWindow
from workers.processing.erasure import KnownTurns
from workers.processing.fidelity import RuntimeManifest, grade
from workers.processing.fidelity.avro_form import parse_avro
from workers.processing.fidelity.findings import find
from workers.processing.fingerprint import completeness
from workers.processing.outcome import BatchOutcome, RecordResult
from workers.processing.path_watch import PathTopics, PathWatch
from workers.processing.paths import PathInventory
from workers.processing.policy import Policy
from workers.processing.turn_state import TurnOutputs, TurnState
from workers.processing.turns import TurnJudge
from workers.records import Output, Partition, StoredRecord
from workers.serde.avro_schema import plain
from workers.serde.encoder import Encoder
from workers.serde.limits import TURN_LIMITS
from workers.serde.local_registry import LocalRegistry
from workers.serde.prescan import check
from workers.serde.records import Decoded, Ending, RecordDecoder
from workers.serde.resolver import CachingResolver
from workers.serde.schemas import Schema, latest, load, load_ids
from workers.serde.validation import validate_turn
from workers.serde.wire_format import Frame
from workers.transport.batch import RecordBatch

PARTITIONS: Final = 4
BATCH: Final = 500
"""Records of a batch, as the worker's default."""
PARTS: Final = {
    "decode": ("scan",),
    "judge": ("validate", "completeness", "parse", "grade", "findings", "encode", "duplicates", "paths", "keys"),
}
"""Stages that are timed inside another one too."""

_SOURCE: Final = Partition("turns", 0)
_LZ4: Final = 3
_BATCH_BYTES: Final = 512 << 10
_PREFIX_BYTES: Final = 5
_T = TypeVar("_T")


def in_batches(items: Sequence[_T]) -> list[Sequence[_T]]:
    """Return ``items`` in the batches of a worker."""
    return [items[start : start + BATCH] for start in range(0, len(items), BATCH)]


def encoder(subject: str) -> Encoder:
    """Return the encoder of the latest shipped schema of ``subject``."""
    return Encoder(load(subject), load_ids()[subject][latest(subject)].id)


class ReferencePath:
    """Everything a lane does to turns between fetching and sending, one record after the other.

    ``outputs`` are the sample's verdicts.

    Raises:
        ValueError: a turn of the sample is not whole: stages are timed on turns with a valid manifest.
    """

    def __init__(self, sample: Iterable[TurnRecord]) -> None:
        now = time.time_ns() // 1_000_000
        self.policy = Policy()
        self.records = [StoredRecord(at, now, turn.key, turn.value) for at, turn in enumerate(sample)]
        self._decoder = RecordDecoder(CachingResolver(LocalRegistry(), "turns", TURN_LIMITS), TURN_LIMITS)
        self.frames = [frame for frame in self._decoder.frames(self.records) if isinstance(frame, Frame)]
        self.writers = asyncio.run(self._decoder.writers(self.frames))
        self._turns = [turn for turn in self._decode() if isinstance(turn, Decoded)]
        parsed = [parse_avro(turn.value["manifest"]) for turn in self._turns]
        self._manifests = [manifest for manifest in parsed if isinstance(manifest, RuntimeManifest)]
        if {len(self.frames), len(self._turns), len(self._manifests)} != {len(self.records)}:
            raise ValueError("the sample holds turns without a valid manifest; stages are timed on whole ones")
        self.writer = self._turns[0].writer
        self._verdicts = encoder("fidelity")
        self._results = self._judge(self._new_judge())
        self.outputs = [result.outputs[0] for result in self._results]

    def stages(self) -> dict[str, Stage]:
        """Return the stages by name, in the order in which a turn passes them; each handles the whole sample."""
        return {
            "frames": lambda: partial(self._decoder.frames, self.records),
            "scan": lambda: for_each(lambda frame: check(self.writer.scan, frame.payload, TURN_LIMITS), self.frames),
            "decode": lambda: for_each(lambda frame: self._decoder.decode(frame, self.writers), self.frames),
            "validate": lambda: for_each(lambda turn: validate_turn(turn.value), self._turns),
            "completeness": lambda: for_each(self._completeness, self._turns),
            "parse": lambda: for_each(lambda turn: parse_avro(turn.value["manifest"]), self._turns),
            "grade": lambda: for_each(grade, self._manifests),
            "findings": lambda: for_each(lambda manifest: find(manifest, None), self._manifests),
            "encode": self._encode,
            "duplicates": self._duplicates,
            "paths": self._paths,
            "keys": lambda: for_each(_keys, self._turns),
            "judge": lambda: self._judging(self._new_judge()),
            "count": lambda: self.count([BatchOutcome([*results]) for results in in_batches(self._results)]),
            "pack": lambda: self._pack,
        }

    def judge_only(self, positions: Sequence[int]) -> Callable[[], object]:
        """Return the work of decoding and judging the turns at ``positions``."""
        judge = self._new_judge()
        chosen = [(self.records[at], self.frames[at]) for at in positions]
        return for_each(lambda pair: judge.judge(pair[0], self._decoder.decode(pair[1], self.writers)), chosen)

    def new_state(self) -> TurnState:
        """Return the state of a partition that has seen nothing, where others have seen all producing paths."""
        topics = PathTopics("alerts", "producer-paths", encoder("alerts").encode, encoder("producer-paths").encode)
        watch = PathWatch(_SOURCE, topics, PathInventory(_SOURCE), lambda _: True, lambda: self.policy.version)
        outputs = TurnOutputs("fidelity", PARTITIONS, self._verdicts.encode)
        return TurnState(_SOURCE, outputs, watch, DuplicateWindow(), KnownTurns())

    def count(self, outcomes: Iterable[BatchOutcome]) -> Callable[[], object]:
        """Return the work of counting the batches that came to ``outcomes``."""
        accounts = Accounts(Exporter())
        batches = []
        for number, outcome in enumerate(outcomes):
            start, records = number * BATCH, self.records[number * BATCH : (number + 1) * BATCH]
            batch = RecordBatch(_SOURCE, 1, start, start + len(records), records, 0, lambda _: True)
            batches.append((batch, outcome))
        return for_each(lambda pair: accounts.completed(*pair), batches)

    def _new_judge(self) -> TurnJudge:
        return TurnJudge(self.new_state(), lambda: self.policy)

    def _judge(self, judge: TurnJudge) -> list[RecordResult]:
        return [judge.judge(record, turn) for record, turn in zip(self.records, self._turns, strict=True)]

    def _judging(self, judge: TurnJudge) -> Callable[[], object]:
        pairs = zip(self.records, self._turns, strict=True)
        return for_each(lambda pair: judge.judge(*pair), pairs)

    def _decode(self) -> list[Ending]:
        return [self._decoder.decode(frame, self.writers) for frame in self.frames]

    def _completeness(self, decoded: Decoded) -> None:
        turn, fingerprint = decoded.value, decoded.value["fingerprint"]
        rules = self.policy.completeness_for(turn["tenant"], fingerprint["definition_id"])
        completeness(fingerprint, turn, self.writer.presence, rules)

    def _encode(self) -> Callable[[], object]:
        schema = fastavro.parse_schema(cast("Schema", plain(load("fidelity"))))
        verdicts = [_read(output.value or b"", schema) for output in self.outputs]
        return for_each(self._verdicts.encode, verdicts)

    def _duplicates(self) -> Callable[[], object]:
        window = DuplicateWindow()
        turns = [
            (output.key or b"", frame.payload, record.offset)
            for output, frame, record in zip(self.outputs, self.frames, self.records, strict=True)
        ]
        return for_each(lambda turn: window.check(*turn), turns)

    def _paths(self) -> Callable[[], object]:
        inventory, ref = PathInventory(_SOURCE), str(self.writer.ref)
        turns = [
            (turn.value, ref, True, record.timestamp, record.offset)
            for turn, record in zip(self._turns, self.records, strict=True)
        ]
        return for_each(lambda turn: inventory.observe(*turn), turns)

    def _pack(self) -> None:
        """Build record batches of the verdicts as the Kafka client does, compressed as the worker does by default."""
        for start in range(0, len(self.outputs), BATCH):
            builder = DefaultRecordBatchBuilder(2, _LZ4, 0, -1, -1, 0, _BATCH_BYTES)
            for at, output in enumerate(self.outputs[start : start + BATCH]):
                _append(builder, at, output)
            builder.build()


def _keys(decoded: Decoded) -> None:
    turn = decoded.value
    encode_key(turn["tenant"], turn["conversation_id"], turn["turn_id"])
    partition_of(encode_key(turn["tenant"], turn["conversation_id"]), PARTITIONS)


def _append(builder: DefaultRecordBatchBuilder, at: int, output: Output) -> None:
    builder.append(at, output.timestamp, output.key, output.value, list(output.headers))


def _read(framed: bytes, schema: object) -> dict[str, Any]:
    return cast(
        "dict[str, Any]", fastavro.schemaless_reader(io.BytesIO(framed[_PREFIX_BYTES:]), cast("Schema", schema), None)
    )
