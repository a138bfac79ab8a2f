"""Random turns for the column path: every shape of evidence, every state of a fingerprint, and what breaks them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from column_tables import manifest_type, turn
from fidelity_manifests import DIGEST

from workers.processing.columns.shape import BITS
from workers.processing.columns.specimens import CAPTURES, PROVENANCES, call
from workers.processing.columns.specimens import artifact as artifact_of
from workers.processing.columns.witness import witness_record
from workers.processing.fingerprint import PARTS
from workers.serde.avro_schema import ArrayType, EnumType, Node, Primitive, RecordType, UnionType
from workers.serde.columns.layout import nullable

TEXTS: Final = ("a", "ü", "a|b%", " ", "\U0001f600", "x" * 300)
MARKED: Final = (None, "v1", "v2-2026", "", "Unknown", "LATEST", "main ", "\uff2e\uff35\uff2c\uff2c", "y" * 201)
COUNTS: Final = (0, 1, 63, 64, 8_191, 8_192, 100_000, 100_001, -1, -2, 2**40)
PIECES: Final = ("facts", "history", "memories", "Facts", "f" * 65)
JSON_TEXTS: Final = ("1", '"a"', "null", '{"a":[1,2]}', ' {"b" : 1e3} ', '"\\ud800"', json.dumps("z" * 5_000))
BROKEN: Final = ("", "x", "[1", "NaN", "1e999", "01", "[" * 600 + "]" * 600, "[" * 200 + "]" * 200, DIGEST)
NAMES: Final = ("search", "{0}", "{1}", "a.input", "tools.calls.x", "ü" * 200, "\U0001f600" * 64, "n" * 400)
MANY: Final = (*[0] * 20, 20, 60, 200)
STAMPS: Final = (
    "2026-11-30T10:20:30.123Z",
    "2024-02-29T00:00:00.000Z",
    "2023-02-29T00:00:00.000Z",
    "2026-04-31T00:00:00.000Z",
    "2026-13-01T00:00:00.000Z",
    "2026-01-01T24:00:00.000Z",
    "2026-01-01 00:00:00.000Z",
    "0000-02-29T23:59Z",
    "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00.000z",
)


class Turns:
    """Draws turns from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    def draw(self) -> dict[str, Any]:
        """Return a turn that ends as processed."""
        rng = self.rng
        times = rng.choice([(1_790_000_000_000, None), (None, 0), (-5, 7), (2**45, 2**50)])
        return turn(
            tenant=rng.choice(["acme", "b.c", "d"]),
            conversation_id=rng.choice(["c", "ü" * 40, "%|", "c" * 200, "\U0001f600" * 200]),
            turn_id=f"t-{rng.getrandbits(32)}",
            turn_index=rng.choice([None, 0, 1, 63, 64, 2**40, -3, 2**63 - 1, -(2**63)]),
            assembled_at=times[0],
            completed_at=times[1],
            producer=self._producer(),
            fingerprint=None if rng.random() < 0.1 else self._fingerprint(),
            manifest=self._manifest(),
        )

    def _producer(self) -> dict[str, Any]:
        held = {name: self.rng.choice([None, "", "p", "ö" * 100]) for name in ("region", "build_id", "path")}
        rest = dict.fromkeys(("instance_id", "process_started_at", "sdk", "sdk_version"))
        return {"service": self.rng.choice(["chat", "voice", ""]), **rest, **held}

    def _fingerprint(self) -> dict[str, Any]:
        rng = self.rng
        usual = rng.random() < 0.5
        texts = {
            name: "v1" if usual else rng.choice(MARKED)
            for name in ("definition_id", "definition_version", "state_shape_version", "moderation_version")
        }
        return {
            **texts,
            "model_id": rng.choice(["model", "model", "provider/model", "other", *MARKED]),
            "definition_fallback": rng.choice([None, True, False]),
            "summary_depth": rng.choice([None, 0, 3, 1_000, 1_001, -1, -7]),
            "state_counts": self._counts(),
            "not_applicable": rng.choice(
                [None, None, [], ["moderation_version"], ["weather"], [*PARTS, "weather", "weather"]]
            ),
            "state_position": rng.choice([None, 0, 70_000, -1]),
            "piece_digests": rng.choice([None, {"facts": DIGEST}]),
        }

    def _counts(self) -> dict[str, int] | None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.5:
            return {"facts": rng.randrange(90), "history": rng.randrange(20_000), "memories": 0}
        if kind < 0.6:
            return None
        if kind < 0.65:
            return {f"p{n}": n for n in range(65)}
        return {name: rng.choice(COUNTS) for name in rng.sample(PIECES, rng.randrange(4))}

    def _manifest(self) -> dict[str, Any] | None:
        kind = self.rng.random()
        if kind < 0.05:
            return None
        manifest = self.witnessed()
        for artifact in _artifacts(manifest):
            self._dress(artifact)
        if kind < 0.3:
            self.mutate(manifest)
        elif kind < 0.4:
            self._contradict(manifest)
        elif kind < 0.7:
            self._bear_names(manifest["tools"])
        return manifest

    def witnessed(self) -> dict[str, Any]:
        """Return the witness of a random shape, with other texts where its shape allows."""
        while True:
            try:
                manifest = witness_record(self.rng.getrandbits(BITS))
            except ValueError:
                continue
            break
        manifest["id"] = self.rng.choice(["m", "m" * 256, "ü" * 257, "\U0001f600" * 300])
        manifest["capturedAt"] = self.rng.choice(STAMPS[:2])
        manifest["sideEffects"]["notes"] = self.rng.choice([None, [], ["a", "b"]])
        return manifest

    def _dress(self, artifact: dict[str, Any]) -> None:
        if artifact["capture"] == "value":
            artifact["value"] = self.rng.choice(JSON_TEXTS)

    def _contradict(self, manifest: dict[str, Any]) -> None:
        """Put in digests that match, do not match or cannot be checked, names twice, errors and odd provenances."""
        rng, tools = self.rng, manifest["tools"]
        held = [artifact for artifact in _artifacts(manifest) if artifact["capture"] == "value"]
        if held:
            artifact = rng.choice(held)
            artifact["value"], artifact["sha256"] = rng.choice(
                [
                    ("1", "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"),
                    (" 1", "6B86B273FF34FCE19D6B804EFF5A3F5747ADA4EAA22F1D49C01E52DDB7875B4B"),
                    ("2", DIGEST),
                    ('"\\ud800"', DIGEST),
                ]
            )
        if tools["calls"] and rng.random() < 0.5:
            call = copy.deepcopy(rng.choice(tools["calls"]))
            call["error"] = {**call["input"], "provenance": rng.choice(["observed", "mapped"])}
            call["callId"] = rng.choice([call["callId"], "another"])
            tools["calls"].append(call)
        if tools["definitions"] and rng.random() < 0.3:
            tool = copy.deepcopy(rng.choice(tools["definitions"]))
            tool["definition"]["provenance"] = rng.choice(["observed", "declared"])
            tool["name"] = rng.choice([tool["name"], "another"])
            tools["definitions"].append(tool)

    def _bear_names(self, tools: dict[str, Any]) -> None:
        """Add definitions and calls of any forms, so that gaps bear names: few as a rule, at times far too many."""
        rng = self.rng
        names = rng.sample(NAMES, rng.choice([0, 1, 2]) if rng.random() < 0.97 else 5)
        tools["definitions"] += [{"name": name, "definition": self._artifact()} for name in names]
        known = [tool["name"] for tool in tools["definitions"]]
        for name in [*rng.sample(NAMES[:-1], rng.choice([0, 1, 3])), *map(str, range(rng.choice(MANY)))]:
            tool = rng.choice([*known, "another"])
            held = call(f"{name}:{rng.randrange(9)}", tool, input=self._artifact(), output=self._artifact())
            held["error"] = rng.choice([None, None, artifact_of("value")])
            tools["calls"].append(held)

    def _artifact(self) -> dict[str, Any]:
        capture = self.rng.choice(["value", "value", *CAPTURES])
        return artifact_of(capture, self.rng.choice(["observed", *PROVENANCES]))

    def mutate(self, manifest: dict[str, Any]) -> None:
        """Change one thing in ``manifest``, in a way that columns can hold; it may stay valid."""
        holder, key, node = self.rng.choice(list(_spots(manifest_type(), manifest)))
        holder[key] = self.rng.choice(_others(node, key, holder[key]))


def mutations(manifest: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield ``manifest`` with each of its values replaced by each thing that columns can hold there."""
    for holder, key, node in list(_spots(manifest_type(), manifest)):
        kept = holder[key]
        for other in _others(node, key, kept):
            holder[key] = other
            yield copy.deepcopy(manifest)
        holder[key] = kept


def _others(node: Node, key: Any, value: Any) -> list[Any]:
    inner = nullable(node) if isinstance(node, UnionType) else node
    match inner:
        case Primitive(kind="int"):
            return [None, 1, 3]
        case Primitive():
            held = {"value": (*JSON_TEXTS, *BROKEN), "capturedAt": STAMPS}
            return [None, "", DIGEST, *held.get(key, TEXTS)]
        case EnumType():
            return [None, "bogus", *inner.symbols]
        case ArrayType():
            return [None, [], [*(value or []), None]]
        case RecordType():
            empty = dict.fromkeys(entry.name for entry in inner.fields)
            return [None, empty, {**(value or empty), "unlisted": 1}]
    raise TypeError(f"{node} cannot be mutated")


def _artifacts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "capture" in value:
            yield value
        else:
            for item in value.values():
                yield from _artifacts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _artifacts(item)


def _spots(node: Node, value: Any) -> Iterator[tuple[Any, Any, Node]]:
    """Yield what can be replaced: the record or array that holds it, its key, its type."""
    if isinstance(node, UnionType):
        inner = nullable(node)
        if inner is not None:
            yield from _spots(inner, value)
    elif isinstance(node, RecordType) and value is not None:
        for entry in node.fields:
            yield value, entry.name, entry.type
            yield from _spots(entry.type, value[entry.name])
    elif isinstance(node, ArrayType) and value is not None:
        for place, item in enumerate(value):
            yield value, place, node.items
            yield from _spots(node.items, item)
