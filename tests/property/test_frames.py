"""Frames of many records at once are those of each record alone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from workers.records import StoredRecord
from workers.serde.limits import Limits
from workers.serde.local_registry import LocalRegistry
from workers.serde.records import RecordDecoder
from workers.serde.resolver import CachingResolver
from workers.serde.wire_format import SCHEMA_ID_HEADER, parse

LIMITS = Limits(record_bytes=12)
values = (
    st.none()
    | st.sampled_from([b"", b"\0", b"\0\0\0\0\1", b"\1\0\0\0\1x"])
    | st.builds(
        lambda schema_id, payload: b"\0" + schema_id.to_bytes(4, "big") + payload,
        st.integers(0, 2),
        st.binary(max_size=9),
    )
)
headers = st.lists(
    st.sampled_from([("a", b"1"), (SCHEMA_ID_HEADER, b"\1" + b"g" * 16), (SCHEMA_ID_HEADER, b"?")]), max_size=2
).map(tuple)
records = st.lists(st.builds(lambda value, head: StoredRecord(0, 0, b"k", value, head), values, headers), max_size=8)


@settings(max_examples=300, deadline=None)
@given(records, st.none() | st.just(7))
def test_frames_do_not_depend_on_the_records_before(log: list[StoredRecord], bare: int | None) -> None:
    decoder = RecordDecoder(CachingResolver(LocalRegistry(), "turns", LIMITS), LIMITS, bare)
    assert decoder.frames(log) == [parse(record, LIMITS, bare_schema=bare) for record in log]
