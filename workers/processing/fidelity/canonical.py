"""The canonical text of a JSON value (RFC 8785), where it has one."""

from __future__ import annotations

import json
from typing import Any, Final, cast

import rfc8785

_LARGEST_EXACT: Final = 2**53 - 1
_FIRST_SURROGATE: Final = "\ud800"
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), sort_keys=True)


def canonical(value: object) -> bytes | None:
    """Return the RFC 8785 form of a parsed value in UTF-8, None where there is none (lone surrogates).

    ``value`` must be finite and bounded in depth (`check_value`). Numbers are doubles, as the RFC has them: an integer
    beyond 2^53 is rounded first.
    """
    try:
        if _is_simple(value):
            return _ENCODER.encode(value).encode()
        return rfc8785.dumps(cast("Any", _with_doubles(value)))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):  # the latter comes from sorting keys, too
        return None


def _is_simple(value: object) -> bool:
    """Return whether Python's own encoder, which takes a tenth of the time, writes the same.

    It differs in the notation of doubles, and sorts keys by code points: up to the surrogates that is the order of
    UTF-16 units.
    """
    level = [value]
    while level:
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                if item and max(map(max, filter(None, item)), default="") >= _FIRST_SURROGATE:
                    return False
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, float) or (isinstance(item, int) and not -_LARGEST_EXACT <= item <= _LARGEST_EXACT):
                return False
        level = below
    return True


def _with_doubles(value: object) -> object:
    if isinstance(value, dict):
        return {key: _with_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_doubles(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST_EXACT:
        return float(value)
    return value
