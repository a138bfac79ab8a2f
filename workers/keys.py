"""Record keys: parts joined by ``|``, with ``%`` and ``|`` escaped inside each part; partitions by murmur2."""

from __future__ import annotations

from aiokafka.partitioner import murmur2


def encode_key(*parts: str) -> bytes:
    """Return ``parts`` as one UTF-8 key, ``%`` written ``%25`` and ``|`` written ``%7C`` inside each part."""
    return "|".join(part.replace("%", "%25").replace("|", "%7C") for part in parts).encode()


def decode_key(key: bytes, parts: int) -> tuple[str, ...]:
    """Return the ``parts`` parts of ``key``.

    Raises:
        ValueError: the key is not UTF-8, has another number of parts, or is not in the form `encode_key` writes.
    """
    decoded = tuple(part.replace("%7C", "|").replace("%25", "%") for part in key.decode().split("|"))
    if len(decoded) != parts or encode_key(*decoded) != key:
        raise ValueError(f"not a key of {parts} escaped parts")
    return decoded


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition in ``0 .. partitions - 1`` that Kafka's default (murmur2) partitioner gives ``key``."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
