"""The job of the peers: one turn in, its verdict out, record by record.

The verdict is the worker's, byte for byte, by the same rules: the whole turn is decoded by fastavro, validated, graded
and its completeness judged by the reference, and the verdict is encoded by fastavro. What the worker does besides is
left out, in favour of the peers: strict scan of the bytes, dead letters, duplicates, erasure, path inventory, metrics,
policy reload.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import fastavro

from workers.keys import encode_key
from workers.processing.fidelity import RULES_EDITION
from workers.processing.fidelity.verdict import judge_manifest
from workers.processing.fingerprint import FieldState, completeness, verdict_fingerprint
from workers.processing.policy import Policy
from workers.processing.time import event_time
from workers.serde.admission import WriterSchema, admit
from workers.serde.avro_schema import plain
from workers.serde.encoder import Encoder
from workers.serde.limits import TURN_LIMITS
from workers.serde.schemas import Schema, latest, load, load_ids, to_text
from workers.serde.validation import validate_turn

_PREFIX_BYTES: Final = 5


class Verdict(NamedTuple):
    """Key and value of one record for the topic ``fidelity``."""

    key: bytes
    value: bytes


class RecordJob:
    """Turns written with the shipped schema into verdicts under the default policy."""

    def __init__(self) -> None:
        ids = load_ids()
        schema = load("turns")
        self._prefix = b"\x00" + ids["turns"][latest("turns")].id.to_bytes(4, "big")
        # Without logical types: times stay integers, which is cheaper for the peers than datetimes.
        self._schema = fastavro.parse_schema(cast("Schema", plain(schema)))
        writer = admit(to_text(schema), "turns", TURN_LIMITS, ids["turns"][latest("turns")].id)
        if not isinstance(writer, WriterSchema):
            raise TypeError("our own schema of a turn is not admitted")
        self._presence = writer.presence
        self._policy = Policy()
        self._encoder = Encoder(load("fidelity"), ids["fidelity"][latest("fidelity")].id)

    def verdict(self, value: bytes) -> Verdict:
        """Return the verdict of the framed turn ``value``.

        Raises:
            ValueError: it is framed with another schema, or breaks the contract of a turn.
        """
        if value[:_PREFIX_BYTES] != self._prefix:
            raise ValueError("the record is not framed with the shipped schema of a turn")
        turn = fastavro.schemaless_reader(io.BytesIO(value[_PREFIX_BYTES:]), self._schema, None)
        if not isinstance(turn, dict):
            raise TypeError("the schema of a turn is a record")
        rejection = validate_turn(turn)
        if rejection is not None:
            raise ValueError(f"the turn is refused: {rejection.reason}")
        key = encode_key(turn["tenant"], turn["conversation_id"], turn["turn_id"])
        return Verdict(key, self._encoder.encode(self._judge(turn)))

    def _judge(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        fingerprint, producer = turn["fingerprint"], turn["producer"]
        definition = None if fingerprint is None else fingerprint["definition_id"]
        rules = self._policy.completeness_for(turn["tenant"], definition)
        state = completeness(fingerprint, turn, self._presence, rules)
        model_known = fingerprint is not None and state.states["model_id"] is FieldState.PRESENT
        judgement = judge_manifest(turn["manifest"], fingerprint["model_id"] if model_known else None)
        at, basis = event_time(turn)
        return {
            "rules": RULES_EDITION,
            "policy": self._policy.version,
            **{name: turn[name] for name in ("tenant", "conversation_id", "turn_id", "turn_index")},
            "event_at": at,
            "time_basis": basis,
            **{name: producer[name] for name in ("service", "region", "build_id", "instance_id", "path")},
            **judgement.fields,
            "complete": state.complete,
            "completeness": state.states,
            "missing_tier2": state.missing_tier2,
            "fingerprint": verdict_fingerprint(fingerprint),
        }
