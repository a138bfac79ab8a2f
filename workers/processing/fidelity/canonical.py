"""The canonical text of a JSON value (RFC 8785), where it has one."""

from __future__ import annotations

from typing import Any, Final, cast

import rfc8785

_LARGEST_EXACT: Final = 2**53 - 1


def canonical(value: object) -> bytes | None:
    """Return the RFC 8785 form of a parsed value in UTF-8, None where there is none (lone surrogates).

    ``value`` must be finite and bounded in depth (`check_value`). Numbers are doubles, as the RFC has them: an integer
    beyond 2^53 is rounded first.
    """
    try:
        return rfc8785.dumps(cast("Any", _with_doubles(value)))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):  # the latter comes from sorting keys
        return None


def _with_doubles(value: object) -> object:
    if isinstance(value, dict):
        return {key: _with_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_doubles(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST_EXACT:
        return float(value)
    return value
