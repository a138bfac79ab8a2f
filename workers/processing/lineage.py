"""Headers that lead from an output back to the record it stems from, and into its trace."""

from __future__ import annotations

from typing import Final

from workers.records import Headers, Partition, RawRecord

SOURCE_HEADER: Final = "engram.source"
"""``topic:partition:offset`` of the input record behind an output."""
TRACE_HEADERS: Final = frozenset({"traceparent", "tracestate"})
MAX_TRACE_BYTES: Final = 1_024
"""Longest trace header that is copied: twice what W3C Trace Context asks for. A tombstone may copy it to thousands of
outputs, and a longer one could make a verdict too large for its topic."""


def source_header(source: Partition, offset: int) -> tuple[str, bytes]:
    """Return the header that names the record at ``offset`` of ``source``."""
    return SOURCE_HEADER, f"{source.topic}:{source.number}:{offset}".encode()


def output_headers(source: Partition, record: RawRecord) -> Headers:
    """Return the headers of an output of ``record``: its source, and its trace context as it came, unless too long."""
    trace = (
        (name, content)
        for name, content in record.headers
        if name in TRACE_HEADERS and len(content or b"") <= MAX_TRACE_BYTES
    )
    return (source_header(source, record.offset), *trace)
