"""Check the shipped schemas against each other and against the rules of their subjects, without a registry.

Every version must read every other (FULL_TRANSITIVE), and each subject has promises of its own to its readers.

Source: docs/schemas.md, "Evolution".
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final
from uuid import UUID

import fastavro

from workers.admin.schema_compatibility import incompatibilities
from workers.admin.schema_rules import Problem, subject_problems
from workers.resources import resource_folder
from workers.serde.avro_schema import RecordType, UnsupportedSchemaError, parse_schema
from workers.serde.schemas import SUBJECTS, Schema, SchemaIds, digest, load, load_ids, versions

_MAX_DEPTH: Final = 32


@dataclass(frozen=True, slots=True)
class SubjectReport:
    """What the check found out about one subject; ``released`` lists the versions that are frozen."""

    subject: str
    versions: tuple[int, ...]
    released: tuple[int, ...]
    problems: tuple[Problem, ...]


def check(root: Path | None = None) -> list[SubjectReport]:
    """Check all subjects of ``root``, the shipped folder where None.

    Raises:
        ConfigurationError: ``ids.yaml`` or a schema file cannot be read at all.
    """
    folder = root or resource_folder("schemas")
    ids = load_ids(folder)
    shared = _shared_ids(ids)
    return [_check_subject(subject, folder, ids.get(subject, {}), shared) for subject in SUBJECTS]


def _check_subject(
    subject: str, folder: Path, ids: Mapping[int, SchemaIds], shared: frozenset[int | str]
) -> SubjectReport:
    known = versions(subject, folder)
    documents = {version: load(subject, version, folder) for version in known}
    problems = list(_id_problems(subject, documents, ids, shared))
    trees: dict[int, RecordType] = {}
    for version, document in documents.items():
        try:
            tree = parse_schema(document, _MAX_DEPTH)
            fastavro.parse_schema(copy.deepcopy(document))  # names and defaults
        except (UnsupportedSchemaError, fastavro.schema.SchemaParseException) as error:
            field = error.field if isinstance(error, UnsupportedSchemaError) else None
            problems.append(
                Problem(_file(subject, version), field, f"is no schema we use: {error}", "See docs/schemas.md.")
            )
            continue
        if isinstance(tree, RecordType):
            trees[version] = tree
        else:
            problems.append(Problem(_file(subject, version), None, "is no record", "Wrap the type in a record."))
    for version, tree in trees.items():
        earlier = [trees[older] for older in sorted(trees) if older < version]
        problems += subject_problems(subject, _file(subject, version), tree, earlier)
    for older, newer in combinations(sorted(trees), 2):
        problems += _pair_problems(subject, trees, older, newer)
    released = tuple(version for version, entry in ids.items() if entry.sha256 is not None)
    return SubjectReport(subject, tuple(known), released, tuple(dict.fromkeys(problems)))


def _pair_problems(subject: str, trees: Mapping[int, RecordType], older: int, newer: int) -> Iterator[Problem]:
    file = _file(subject, newer)
    for reader, writer in ((newer, older), (older, newer)):
        for found in incompatibilities(trees[reader], trees[writer]):
            consequence = f"so readers of v{reader} fail on data of v{writer}"
            yield Problem(file, found.path or None, f"{found.problem}, {consequence}", found.fix)


def _id_problems(
    subject: str, documents: Mapping[int, Schema], ids: Mapping[int, SchemaIds], shared: frozenset[int | str]
) -> Iterator[Problem]:
    file = "schemas/ids.yaml"
    name = f"{subject}-value"
    for version in sorted(documents.keys() - ids.keys()):
        yield Problem(file, name, f"has no ids for version {version}", "Add the next free id and a new GUID.")
    for version in sorted(ids.keys() - documents.keys()):
        yield Problem(file, name, f"has ids for version {version}, whose file is missing", "Restore the file.")
    if sorted(documents) != list(range(1, len(documents) + 1)):
        yield Problem(f"schemas/{subject}", None, "has a gap in its versions", "Number them 1, 2, 3 and so on.")
    for version, entry in ids.items():
        if entry.id in shared or entry.guid in shared:
            yield Problem(file, name, f"shares an id or GUID of version {version}", "Give each version its own.")
        if not _is_guid(entry.guid):
            yield Problem(file, name, f"has no GUID for version {version}", "Write it as 8-4-4-4-12 lower-case digits.")
        if entry.sha256 is not None and version in documents and digest(documents[version]) != entry.sha256:
            yield Problem(
                _file(subject, version),
                None,
                "is released and differs from what was released",
                "Restore the file and put the change into a new version.",
            )


def _is_guid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _shared_ids(ids: Mapping[str, Mapping[int, SchemaIds]]) -> frozenset[int | str]:
    used: Counter[int | str] = Counter()
    for entries in ids.values():
        for entry in entries.values():
            used.update((entry.id, entry.guid))
    return frozenset(value for value, times in used.items() if times > 1)


def _file(subject: str, version: int) -> str:
    return f"schemas/{subject}/v{version}.avsc"
