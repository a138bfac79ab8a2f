"""What commands that judge files share: reading JSON documents, and printing what others wrote."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

import click

EXIT_WRONG_INPUT: Final = 1
EXIT_FINDINGS: Final = 3
EXIT_NOT_FOUND: Final = 4
STDIN: Final = "-"
PROGRESS_SECONDS: Final = 2.0


def check_files(files: tuple[str, ...], suffixes: dict[str, str]) -> None:
    """Refuse file names without a known suffix, and files that do not exist, before anything is done.

    ``suffixes`` says what a file of each suffix holds.
    """
    for file in files:
        if file == STDIN:
            continue
        path = Path(file)
        if path.suffix not in suffixes:
            known = " or ".join(f"{suffix} ({holds})" for suffix, holds in suffixes.items())
            raise click.BadParameter(f"{file}: name it {known}")
        if not path.exists():
            click.echo(f"engram-stream: {file}: there is no such file", err=True)
            sys.exit(EXIT_NOT_FOUND)


def json_documents(file: str) -> Iterator[tuple[int, bytes]]:
    """Yield the JSON documents of ``file`` with the lines they begin at: one of .json, one per line elsewhere."""
    try:
        if file.endswith(".json"):
            yield 1, Path(file).read_bytes()
        elif file == STDIN:
            yield from _lines(sys.stdin.buffer)
        else:
            with Path(file).open("rb") as lines:
                yield from _lines(lines)
    except OSError as error:
        unreadable(file, f"cannot be read: {error.strerror}")


def unreadable(source: str, why: str) -> NoReturn:
    """End the command: an input is not what it should be."""
    complain(source, why)
    sys.exit(EXIT_WRONG_INPUT)


def complain(source: str, why: str) -> None:
    """Say on stderr that an input is not what it should be."""
    click.echo(f"engram-stream: {source}: {why}", err=True)


def _lines(lines: BinaryIO) -> Iterator[tuple[int, bytes]]:
    # Binary files end lines at LF alone; text lines would end at U+2028 or a lone CR inside a document too.
    for number, line in enumerate(lines, start=1):
        document = line.rstrip(b" \t\r\n")
        if document:
            yield number, document


class Progress:
    """Says on stderr how many things are done, every two seconds."""

    def __init__(self, things: str) -> None:
        self._things = things
        self._told = time.monotonic()

    def tell(self, done: int) -> None:
        """Say it, unless it was just said."""
        if time.monotonic() - self._told > PROGRESS_SECONDS:
            self._told = time.monotonic()
            click.echo(f"{done} {self._things} so far", err=True)


def counted(number: int, thing: str) -> str:
    """Return ``1 record`` or ``2 records``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def printable(text: str) -> str:
    """Escape what could steer a terminal or cannot be encoded: names in a file are written by others."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def colour() -> bool | None:
    """Return False where NO_COLOR is set, else None: colour on a terminal only."""
    return False if os.environ.get("NO_COLOR") else None
