"""``engram-stream validate``: judge payload files as the stream would, without Kafka."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from workers.admin.validation import INPUTS, WARNINGS, Checked, NotARecordError, Validator, Warn
from workers.commands.files import (
    EXIT_FINDINGS,
    EXIT_WRONG_INPUT,
    STDIN,
    Progress,
    check_files,
    colour,
    complain,
    counted,
    json_documents,
    printable,
    unreadable,
)
from workers.commands.options import config_option
from workers.config import Settings, load_settings
from workers.policy_file import PolicyFile
from workers.reasons import CATALOGUE
from workers.serde.registry import open_registry

_PAYLOADS: Final = (".avro", ".bin")
_SUFFIXES: Final = {
    ".json": "one record",
    ".jsonl": "one record per line",
    ".avro": "the bytes of one Kafka value",
    ".bin": "the same",
}


class Result(NamedTuple):
    """One record: where it stands, and what the stream would do with it."""

    source: str
    checked: Checked

    @property
    def status(self) -> str:
        """Return ``ok`` or ``dead_letter``."""
        return "ok" if self.checked.rejection is None else "dead_letter"

    def as_dict(self) -> dict[str, Any]:
        """Return the object that the format jsonl writes."""
        row: dict[str, Any] = {"source": self.source, "status": self.status}
        rejection = self.checked.rejection
        if rejection is not None:
            row["reason"] = rejection.reason
            if rejection.field is not None:
                row["detail"] = rejection.field
            if self.checked.expected is not None:
                row["expected"] = self.checked.expected
        return {**row, "warnings": list(self.checked.warnings)}


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--subject", type=click.Choice(INPUTS), default="turns", show_default=True, help="Topic they are for.")
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Writer's schema of JSON records and bare payloads (.avsc); else the newest one of the subject.",
)
@click.option(
    "--schema-id",
    type=click.IntRange(min=0),
    help="Its id in the registry; with --schema, framed payloads of this id are read with that file.",
)
@click.option("--bare", is_flag=True, help="Payloads have no frame, as with serde.bare_avro.")
@click.option("--registry-url", metavar="URL", help="Registry of schema ids; overrides registry.url.")
@click.option("--format", "form", type=click.Choice(["text", "jsonl"]), default="text", show_default=True)
@config_option
def command(
    files: tuple[str, ...],
    subject: str,
    schema_file: Path | None,
    schema_id: int | None,
    bare: bool,
    registry_url: str | None,
    form: str,
    config_path: Path | None,
) -> None:
    """Judge the records in FILE... as the workers would, with the same reasons; nothing is sent anywhere.

    A .json file holds one record and a .jsonl file one per line, as schemas/*/golden show them or as `dlq show
    --reveal --format json` prints a letter (with key_base64, headers, value_base64); - reads such lines from stdin. An
    .avro or .bin file holds the bytes of one Kafka value. A JSON record that no serializer writes with the schema is
    invalid_record, with the field and what was expected there.

    Without a registry, schema ids are those of the shipped schemas. Exits with 3 when a record is a dead letter, with
    1 when a file cannot be read or holds what is no record (the other records are judged), with 4 when a file does not
    exist.
    """
    check_files(files, _SUFFIXES)
    settings = load_settings(config_path, {"registry.url": registry_url})
    schema_text = None if schema_file is None else schema_file.read_text(encoding="utf-8", errors="replace")
    counts: Counter[str] = Counter()
    asyncio.run(_run(settings, files, subject, schema_text, schema_id, bare, form, counts))
    if form == "text":
        _summarise(counts)
    if counts["unreadable"]:
        sys.exit(EXIT_WRONG_INPUT)
    if counts["dead_letter"]:
        sys.exit(EXIT_FINDINGS)


def _summarise(counts: Counter[str]) -> None:
    ok, letters, unreadable_ones = counts["ok"], counts["dead_letter"], counts["unreadable"]
    rest = f"; {unreadable_ones} could not be read" if unreadable_ones else ""
    click.echo(f"{counted(ok + letters, 'record')}: {ok} ok, {counted(letters, 'dead letter')}{rest}", err=True)


async def _run(
    settings: Settings,
    files: tuple[str, ...],
    subject: str,
    schema_text: str | None,
    schema_id: int | None,
    bare: bool,
    form: str,
    counts: Counter[str],
) -> None:
    registry = open_registry(settings.registry)
    limits = settings.serde.limits_of(subject)
    validator = Validator(
        subject,
        registry,
        limits,
        PolicyFile(settings.policy.file).current(),
        schema_text=schema_text,
        schema_id=schema_id,
        bare=bare or settings.serde.bare_avro,
    )
    progress = Progress("records")
    try:
        async for result in _results(validator, files, counts):
            click.echo(json.dumps(result.as_dict()) if form == "jsonl" else _text(result), color=colour())
            counts[result.status] += 1
            progress.tell(counts.total())
    finally:
        await registry.close()


async def _results(validator: Validator, files: tuple[str, ...], counts: Counter[str]) -> AsyncIterator[Result]:
    """Yield what becomes of each record; what is none is told at once and counted as ``unreadable``."""
    for file in files:
        validator.next_file()
        if file != STDIN and file.endswith(_PAYLOADS):
            yield Result(file, await validator.value(_payload(file)))
            continue
        for number, document in json_documents(file):
            try:
                checked = await validator.json_value(_parsed(document))
            except json.JSONDecodeError as error:
                complain(f"{file}:{number + error.lineno - 1}", f"is not JSON: {error.msg} (column {error.colno})")
            except NotARecordError as error:
                complain(f"{file}:{number}", str(error))
            else:
                yield Result(f"{file}:{number}", checked)
                continue
            counts["unreadable"] += 1


def _payload(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        unreadable(file, f"cannot be read: {error.strerror}")


def _parsed(document: bytes) -> object:
    try:
        return json.loads(document.decode())
    except UnicodeDecodeError:
        raise NotARecordError("is not UTF-8") from None
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError):
        why = "is not JSON that can be read: a number is too long, or it nests too deeply"
        raise NotARecordError(why) from None


def _text(result: Result) -> str:
    rejection = result.checked.rejection
    if rejection is not None:
        entry = CATALOGUE[rejection.reason]
        field = "" if rejection.field is None else f" at {printable(rejection.field)}"
        head = click.style(f"{rejection.reason}{field}", fg="red", bold=True)
        if result.checked.expected is not None:
            head += f": expected {printable(result.checked.expected)}"
        return f"{printable(result.source)}: {head}\n  {entry.meaning}\n  Fix: {entry.fix}"
    head = f"{printable(result.source)}: {click.style('ok', fg='green', bold=True)}"
    by_code: dict[Warn, list[str]] = {}
    for warning in result.checked.warnings:
        code, _, details = warning.partition(":")
        by_code.setdefault(Warn(code), []).append(printable(details.replace(":", " ")))
    if result.checked.manifest_issues:
        issues = (f"{code} at {printable(path) or '(root)'}" for code, path in result.checked.manifest_issues)
        by_code[Warn.MANIFEST_INVALID] = list(issues)
    warnings = (
        f"  {click.style(code, fg='yellow')}{': ' * any(details)}{', '.join(details)}. {WARNINGS[code]}"
        for code, details in by_code.items()
    )
    return "\n".join([head, *warnings])
