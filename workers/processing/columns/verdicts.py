"""Verdicts of a batch as bytes: pieces that repeat are encoded once, then each row is joined from its pieces.

Source: schemas/fidelity, whose order of fields this follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import add
from typing import Final

import numpy as np
import pyarrow as pa

from workers.processing.columns.completeness import Fingerprints
from workers.processing.columns.grade import NO_MANIFEST
from workers.processing.columns.judge import JudgedColumns
from workers.processing.columns.pieces import (
    NULL,
    SOME,
    encode_piece,
    integer,
    moments,
    optional_integer,
    repeated_integer,
    spread,
    text,
    text_bytes,
)
from workers.processing.columns.reading import (
    Longs,
    Mask,
    Numbers,
    Positions,
    alike,
    fields,
    numbers,
    texts,
)
from workers.processing.fidelity.catalogue import RULES_EDITION
from workers.processing.fidelity.verdict import MAX_ID_CHARACTERS
from workers.processing.fingerprint import MAX_TEXT, verdict_fingerprint
from workers.serde.wire_format import frame

_MAX_PIECES: Final = 2_048
_LENGTHS: Final = tuple(integer(length) for length in range(4 * MAX_ID_CHARACTERS + 1))
"""What comes before an id: ids are bounded in characters, of at most four bytes each."""

_LENGTHS_OF_SOME: Final = tuple(SOME + length for length in _LENGTHS)
_END: Final = b"\x00"
"""The end of an array."""

Pieces = Sequence[bytes]


def encode_verdicts(judged: JudgedColumns, schema_id: int) -> list[bytes | None]:
    """Return the framed verdict of each row, None where the reference must judge."""
    columns = (
        _openings(judged, schema_id),
        *_ids(judged.table),
        *_times(judged.table),
        _producers(judged),
        *_grades(judged),
        _completeness(judged),
        *_fingerprints(judged.fingerprints),
    )
    encoded: list[bytes | None] = list(map(b"".join, zip(*columns, strict=True)))
    for row in judged.routes:
        encoded[row] = None
    return encoded


def _openings(judged: JudgedColumns, schema_id: int) -> Pieces:
    record = {"rules": RULES_EDITION, "policy": judged.policy.version}
    openings = [
        frame(schema_id, encode_piece({**record, "tenant": tenant or ""}, "rules", "tenant"))
        for tenant in judged.tenants.values
    ]
    return spread(openings, judged.tenants.codes)


def _ids(table: pa.RecordBatch) -> tuple[Pieces, ...]:
    conversations, turns = (table.column(name) for name in ("conversation_id", "turn_id"))
    return (
        spread(_LENGTHS, _sizes(conversations)),
        text_bytes(conversations),
        spread(_LENGTHS, _sizes(turns)),
        text_bytes(turns),
    )


def _times(table: pa.RecordBatch) -> tuple[Pieces, ...]:
    at, _ = event_times(table)
    return _optional_integers(numbers(table.column("turn_index"))), *moments(at)


def event_times(table: pa.RecordBatch) -> tuple[Longs, Mask]:
    """Return the event time of each row in milliseconds, and where it is that of completion."""
    assembled, completed = (numbers(table.column(name)) for name in ("assembled_at", "completed_at"))
    return np.where(assembled.present, assembled.values, completed.values), ~assembled.present


def _producers(judged: JudgedColumns) -> Pieces:
    service, region, build, instance, _, _, path = judged.producers
    columns = (service, region, build, instance, path)
    completed = event_times(judged.table)[1]
    of_row, first = alike(*columns, beside=(completed.astype(np.intp), 2))
    return spread(list(map(_producer, completed[first].tolist(), *(column.at(first) for column in columns))), of_row)


@lru_cache(maxsize=_MAX_PIECES)
def _producer(completion: bool, *producer: str | None) -> bytes:
    names = ("service", "region", "build_id", "instance_id", "path")
    record = {"time_basis": "completion" if completion else "assembly", **dict(zip(names, producer, strict=True))}
    return encode_piece(record, "time_basis", "path")


def _grades(judged: JudgedColumns) -> tuple[Pieces, ...]:
    grades = judged.grades
    heads = spread([grade.head for grade in grades.distinct], grades.of_row)
    tails = spread([grade.tail for grade in grades.distinct], grades.of_row)
    for row, tail in grades.tails.items():
        tails[row] = tail
    return heads, *_manifest_ids(judged), tails


def _manifest_ids(judged: JudgedColumns) -> tuple[Pieces, Pieces]:
    array = fields(judged.table.column("manifest"))[1]
    graded = judged.shapes != NO_MANIFEST
    ids, sizes = text_bytes(array), np.where(graded, _sizes(array), 0)
    for row in np.flatnonzero(~graded).tolist():
        ids[row] = b""
    for row in np.flatnonzero(sizes > MAX_ID_CHARACTERS).tolist():
        ids[row] = ids[row].decode()[:MAX_ID_CHARACTERS].encode()
        sizes[row] = len(ids[row])
    openings = spread((*_LENGTHS_OF_SOME, NULL), np.where(graded, sizes, len(_LENGTHS_OF_SOME)))
    return openings, ids


def _completeness(judged: JudgedColumns) -> Pieces:
    return spread([found.piece for found in judged.completeness.distinct], judged.completeness.of_row)


def _fingerprints(fingerprints: Fingerprints) -> tuple[Pieces, ...]:
    columns: tuple[list[bytes], ...] = (
        _definitions(fingerprints),
        _counts(fingerprints),
        _models(fingerprints),
        _optional_integers(fingerprints.position),
    )
    for row in np.flatnonzero(~fingerprints.present).tolist():
        columns[0][row] = NULL
        for column in columns[1:]:
            column[row] = b""
    return columns


def _definitions(fingerprints: Fingerprints) -> list[bytes]:
    definition, version, shape, *_ = fingerprints.texts
    fallback = fingerprints.fallback_there.astype(np.intp) + fingerprints.fallback
    found = alike(definition, version, shape, beside=(fallback, 3))
    pieces = [
        SOME
        + _shown(
            ("definition_id", "state_shape_version"),
            definition_id=definition.values[definition.codes[row]],
            definition_version=version.values[version.codes[row]],
            definition_fallback=(None, False, True)[fallback[row]],
            state_shape_version=shape.values[shape.codes[row]],
        )
        for row in found.first.tolist()
    ]
    return spread(pieces, found.of_row)


def _models(fingerprints: Fingerprints) -> list[bytes]:
    *_, model, moderation = fingerprints.texts
    found = alike(model, moderation)
    pieces = [
        _shown(
            ("model_id", "moderation_version"),
            model_id=model.values[model.codes[row]],
            moderation_version=moderation.values[moderation.codes[row]],
        )
        for row in found.first.tolist()
    ]
    return spread(pieces, found.of_row)


def _shown(ends: tuple[str, str], **values: str | bool | None) -> bytes:
    """Return a piece of the fingerprint; texts over the limit may be megabytes, and are kept out of the cache."""
    repeats = all(not isinstance(value, str) or len(value) <= MAX_TEXT for value in values.values())
    return (_remembered_piece if repeats else _fingerprint_piece)(ends, tuple(values.items()))


def _fingerprint_piece(ends: tuple[str, str], values: tuple[tuple[str, str | bool | None], ...]) -> bytes:
    return encode_piece(verdict_fingerprint(dict(values)) or {}, *ends, within="fingerprint")


_remembered_piece = lru_cache(maxsize=_MAX_PIECES)(_fingerprint_piece)


def _counts(fingerprints: Fingerprints) -> list[bytes]:
    """Return the summary's depth and the counts, which stand side by side and vary from turn to turn."""
    depths = _optional_integers(fingerprints.depth)
    encoded = [NULL] * len(depths)
    for pieces in fingerprints.counts:
        names = _shown_names(pieces.names)
        if names is not None and len(pieces.rows) == len(depths):
            encoded = _written(names, pieces.counts)
        elif names is not None:
            for row, written in zip(pieces.rows.tolist(), _written(names, pieces.counts), strict=True):
                encoded[row] = written
    return list(map(add, depths, encoded))


def _written(names: tuple[str, ...], counts: Longs) -> list[bytes]:
    """Return each row of ``counts``, of shape (rows, names), as the field ``state_counts``."""
    if not names:
        return [SOME + _END] * len(counts)
    columns: list[Iterable[bytes]] = [repeat(SOME + integer(len(names)))]
    for name, column in zip(names, counts.T.tolist(), strict=True):
        columns += [repeat(text(name)), map(repeated_integer, column)]
    return list(map(b"".join, zip(*columns, repeat(_END))))


@lru_cache(maxsize=_MAX_PIECES)
def _shown_names(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names of counts in their order in a verdict, None where it shows none of them."""
    shown = verdict_fingerprint({"state_counts": dict.fromkeys(names, 0)})
    counts = None if shown is None else shown["state_counts"]
    return None if counts is None else tuple(count["name"] for count in counts)


def _optional_integers(column: Numbers) -> list[bytes]:
    values: Iterable[int | None] = column.values.tolist()
    if not column.present.all():
        values = (value if there else None for value, there in zip(values, column.present.tolist(), strict=True))
    return list(map(optional_integer, values))


def _sizes(array: pa.StringArray) -> Positions:
    """Return the length of each text in bytes."""
    column = texts(array)
    return (column.ends - column.starts).astype(np.intp)
