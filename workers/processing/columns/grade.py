"""Grades by shape: the reference judges one witness of each shape, and its answer serves all rows that share it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Final

import numpy as np

from workers.processing.columns import specimens
from workers.processing.columns.pieces import encode_piece
from workers.processing.columns.reading import Mask
from workers.processing.columns.shape import BITS
from workers.processing.columns.witness import Bearer, witness_record
from workers.processing.fidelity import RULES
from workers.processing.fidelity.manifest import Artifact
from workers.processing.fidelity.rules import Sweep
from workers.processing.fidelity.verdict import Judgement, judge_manifest

MODEL_MISMATCH: Final = np.uint64(1 << BITS)
"""Set in a code when the fingerprint names another model."""
NO_MANIFEST: Final = np.uint64(1 << (BITS + 1))
"""The code of a turn without manifest."""

_MAX_SHAPES: Final = 4_096
_ANOTHER_MODEL: Final = "another model"


@dataclass(frozen=True, slots=True)
class Grade:
    """What is judged of all rows of one code: the bytes around the manifest's id in a verdict, and what to count."""

    judgement: Judgement
    head: bytes
    tail: bytes


@lru_cache(maxsize=_MAX_SHAPES)
def grade_of(code: int) -> Grade:
    """Return the grade of a shape, with the marks above beside it."""
    judgement = judge_manifest(None, None) if code == int(NO_MANIFEST) else judge_witness(code)
    return Grade(
        judgement,
        encode_piece(judgement.fields, "status", "deterministic"),
        encode_piece(judgement.fields, "missing_evidence", "finding_total"),
    )


def judge_witness(code: int, bearers: Sequence[Bearer] = ()) -> Judgement:
    """Ask the reference about the witness of a shape, with the mark of another model beside it."""
    mismatch, shape = divmod(code, int(MODEL_MISMATCH))
    return judge_manifest(witness_record(shape, bearers), _ANOTHER_MODEL if mismatch else None)


@cache
def swept() -> Mask:
    """Return, by capture and provenance, whether a rule about single artifacts fires."""
    rules = [rule for sweep in RULES if isinstance(sweep, Sweep) for rule in sweep.rules]
    return by_form(lambda artifact: any(rule.fires(artifact) for rule in rules))


def by_form(test: Callable[[Artifact], bool]) -> Mask:
    """Return the answers of ``test`` by capture and provenance; one more of each, never true, for what has no code."""
    table = np.zeros((len(specimens.CAPTURES) + 1, len(specimens.PROVENANCES) + 1), np.bool_)
    for (row, capture), (column, provenance) in product(
        enumerate(specimens.CAPTURES), enumerate(specimens.PROVENANCES)
    ):
        seed = specimens.artifact(capture, provenance)
        table[row, column] = test(specimens.read_manifest(model={"seed": seed}).model.seed)
    return table
