"""Strict check of a payload against its writer's schema, before any decoder sees it.

Decoders are lax: they take negative indexes, trailing bytes and integers out of range, and expand a few bytes into
millions of items. This scan walks the bytes once, without building values, and names the first field that is wrong.
Its depth is that of the schema, which admission bounds.

Source: the Avro 1.12 specification, "Binary Encoding"; docs/reasons.md for the reasons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from workers.reasons import Reason
from workers.serde.avro_schema import ArrayType, EnumType, MapType, Node, Primitive, RecordType, UnionType
from workers.serde.limits import Limits

_MORE: Final = 0x80
_LONG_BYTES: Final = 10
_INT_BYTES: Final = 5


class PayloadError(Exception):
    """A payload that must not be decoded: the reason, and the names of the fields around the place, innermost first."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.names: list[str] = []

    @property
    def field(self) -> str | None:
        """Dotted path of the field, None at the root."""
        return ".".join(reversed(self.names)) or None


class _Budget:
    """Items one record may still hold."""

    __slots__ = ("collection", "left")

    def __init__(self, limits: Limits) -> None:
        self.collection = limits.collection_items
        self.left = limits.record_items


Scan: TypeAlias = Callable[[bytes, int, _Budget], int]
"""Checks the value that begins at a position and returns where it ends."""


def compile_scan(node: Node) -> Scan:
    """Return the scan of ``node``; a type used twice is compiled once."""
    return _Compiler().scan(node)


def check(scan: Scan, payload: bytes, limits: Limits) -> None:
    """Check that ``payload`` is exactly one value.

    Raises:
        PayloadError: it is not; the error says why and where.
    """
    try:
        end = scan(payload, 0, _Budget(limits))
    except IndexError:
        raise PayloadError(Reason.PAYLOAD_TRUNCATED) from None
    if end != len(payload):
        raise PayloadError(Reason.TRAILING_BYTES)


def _read_varint(payload: bytes, pos: int, max_bytes: int) -> tuple[int, int]:
    """Return the zig-zag integer at ``pos`` and where it ends."""
    raw = shift = 0
    for index in range(max_bytes):
        byte = payload[pos + index]
        raw |= (byte & 0x7F) << shift
        if byte < _MORE:
            if raw >> (64 if max_bytes == _LONG_BYTES else 32):
                break
            return (raw >> 1) ^ -(raw & 1), pos + index + 1
        shift += 7
    raise PayloadError(Reason.BAD_VALUE)


def _scan_null(payload: bytes, pos: int, budget: _Budget) -> int:
    return pos


def _scan_boolean(payload: bytes, pos: int, budget: _Budget) -> int:
    if payload[pos] > 1:
        raise PayloadError(Reason.BAD_VALUE)
    return pos + 1


def _scan_int(payload: bytes, pos: int, budget: _Budget) -> int:
    return pos + 1 if payload[pos] < _MORE else _read_varint(payload, pos, _INT_BYTES)[1]


def _scan_long(payload: bytes, pos: int, budget: _Budget) -> int:
    return pos + 1 if payload[pos] < _MORE else _read_varint(payload, pos, _LONG_BYTES)[1]


def _skipper(size: int) -> Scan:
    def scan(payload: bytes, pos: int, budget: _Budget) -> int:
        payload[pos + size - 1]  # raises where the payload ends before
        return pos + size

    return scan


def _read_length(payload: bytes, pos: int) -> tuple[int, int]:
    length, pos = _read_varint(payload, pos, _LONG_BYTES)
    if length < 0:
        raise PayloadError(Reason.BAD_VALUE)
    if pos + length > len(payload):
        raise PayloadError(Reason.PAYLOAD_TRUNCATED)
    return length, pos


def _scan_bytes(payload: bytes, pos: int, budget: _Budget) -> int:
    length, pos = _read_length(payload, pos)
    return pos + length


def _scan_string(payload: bytes, pos: int, budget: _Budget) -> int:
    first = payload[pos]
    if first < _MORE and not first & 1:
        pos += 1
        length = first >> 1
    else:
        length, pos = _read_length(payload, pos)
    end = pos + length
    text = payload[pos:end]
    if len(text) != length:
        raise PayloadError(Reason.PAYLOAD_TRUNCATED)
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            raise PayloadError(Reason.BAD_UTF8) from None
    return end


_PRIMITIVE_SCANS: Final[dict[str, Scan]] = {
    "null": _scan_null,
    "boolean": _scan_boolean,
    "int": _scan_int,
    "long": _scan_long,
    "float": _skipper(4),
    "double": _skipper(8),
    "bytes": _scan_bytes,
    "string": _scan_string,
}


class _Compiler:
    def __init__(self) -> None:
        self._done: dict[int, Scan] = {}

    def scan(self, node: Node) -> Scan:
        known = self._done.get(id(node))
        if known is None:
            known = self._done[id(node)] = self._build(node)
        return known

    def _build(self, node: Node) -> Scan:
        match node:
            case Primitive():
                return _PRIMITIVE_SCANS[node.kind]
            case EnumType():
                return _enum(len(node.symbols))
            case ArrayType():
                return _array(self.scan(node.items))
            case MapType():
                return _array(_entry(self.scan(node.items)))
            case UnionType():
                return _union([self.scan(branch) for branch in node.branches])
            case RecordType():
                return _record([(entry.name, self.scan(entry.type)) for entry in node.fields])


def _record(fields: list[tuple[str, Scan]]) -> Scan:
    def scan(payload: bytes, pos: int, budget: _Budget) -> int:
        entry: tuple[str, Scan] = ("", _scan_null)
        try:
            for entry in fields:
                pos = entry[1](payload, pos, budget)
        except PayloadError as error:
            error.names.append(entry[0])
            raise
        except IndexError:
            truncated = PayloadError(Reason.PAYLOAD_TRUNCATED)
            truncated.names.append(entry[0])
            raise truncated from None
        return pos

    return scan


def _enum(symbols: int) -> Scan:
    def scan(payload: bytes, pos: int, budget: _Budget) -> int:
        index, pos = _read_varint(payload, pos, _INT_BYTES)
        if not 0 <= index < symbols:
            raise PayloadError(Reason.BAD_INDEX)
        return pos

    return scan


def _union(branches: list[Scan]) -> Scan:
    by_byte = {index << 1: branch for index, branch in enumerate(branches[:64])}

    def scan(payload: bytes, pos: int, budget: _Budget) -> int:
        branch = by_byte.get(payload[pos])
        if branch is not None:
            return branch(payload, pos + 1, budget)
        index, pos = _read_varint(payload, pos, _LONG_BYTES)
        if not 0 <= index < len(branches):
            raise PayloadError(Reason.BAD_INDEX)
        return branches[index](payload, pos, budget)

    return scan


def _entry(scan_value: Scan) -> Scan:
    def scan(payload: bytes, pos: int, budget: _Budget) -> int:
        return scan_value(payload, _scan_string(payload, pos, budget), budget)

    return scan


def _array(scan_item: Scan) -> Scan:
    def scan(payload: bytes, pos: int, budget: _Budget) -> int:
        total = 0
        while True:
            count, pos = _read_varint(payload, pos, _LONG_BYTES)
            if count == 0:
                return pos
            block_end = None
            if count < 0:  # the size of the block in bytes follows
                count = -count
                size, pos = _read_varint(payload, pos, _LONG_BYTES)
                block_end = pos + size
            total += count
            budget.left -= count
            if total > budget.collection or budget.left < 0:
                raise PayloadError(Reason.LIMIT_EXCEEDED)
            for _ in range(count):
                pos = scan_item(payload, pos, budget)
            if block_end is not None and pos != block_end:
                raise PayloadError(Reason.BAD_VALUE)

    return scan
