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
