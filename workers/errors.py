"""Errors of the product. Each says what is wrong, where, and what to do, and never quotes a record."""

from __future__ import annotations


class EngramError(Exception):
    """Base of all errors raised on purpose.

    ``retriable`` tells whether the same call may succeed later without anybody changing anything.
    """

    retriable = False


class ConfigurationError(EngramError):
    """A setting, a policy or a topic is wrong; the message names it and the fix."""


class UnreachableError(EngramError):
    """A server did not answer or refused us; the message says which one and why."""

    retriable = True


def first_frame(error: BaseException) -> str:
    """Return ``file:line`` where ``error`` was raised: enough to find a bug, and nothing of the record it fell over."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "unknown" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
