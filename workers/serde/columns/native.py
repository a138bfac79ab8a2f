"""Failures of native code: it may refuse its input, and it may crash, which is no `Exception`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PANIC: Final = "PanicException"
"""Name of what a crash of Rust code raises; its class cannot be imported."""


class NativeFailureError(Exception):
    """Native code refused its input, or what it made of it is wrong."""


class NativePanicError(Exception):
    """Native code crashed; what it was given is not to be trusted to it again."""


@contextmanager
def native_call() -> Iterator[None]:
    """Turn whatever native code raises into one of two errors, neither of which quotes its input.

    Raises:
        NativeFailureError: it raised an `Exception`.
        NativePanicError: it crashed.
    """
    try:
        yield
    except Exception:  # noqa: BLE001 - any refusal of foreign code is one
        raise NativeFailureError from None
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise NativePanicError from None
