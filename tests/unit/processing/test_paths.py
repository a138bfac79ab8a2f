"""The path inventory: what is told once, what is counted once, and what stays bounded."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.processing.paths import OTHER, PathInventory, PathKey, key_of_row
from workers.records import Partition
from workers.resources import resource_folder

SOURCE = Partition("turns", 3)
MINUTE, DAY = 60_000, 86_400_000
START = 20_000 * DAY


def turn(path: str | None = "reply", **producer: Any) -> dict[str, Any]:
    known = {"service": "chat", "build_id": "b1", "sdk": "py", "sdk_version": "1.0", "path": path}
    return {"tenant": "acme", "producer": known | producer}


def rows_of(inventory: PathInventory, at: int) -> dict[PathKey, dict[str, Any]]:
    return {key_of_row(row): row for _, row in inventory.due_rows(at)}


def test_a_path_is_told_at_its_first_record_and_never_again() -> None:
    inventory = PathInventory(SOURCE)
    key = inventory.observe(turn(None), "7", True, START, 0)
    assert key == PathKey("turns", "acme", "chat", "b1", "py", "1.0", "unset", "7")
    assert key.subject() == {
        "service": "chat", "release": "b1", "sdk": "py", "sdk_version": "1.0", "path": "unset", "schema_id": "7"
    }  # fmt: skip
    assert inventory.observe(turn(None), "7", True, START, 1) is None
    for other, schema in ((turn("jobs"), "7"), (turn(None, build_id=None), "7"), (turn(None), "8")):
        assert inventory.observe(other, schema, True, START, 2) is not None


def test_a_state_write_is_known_by_its_writer() -> None:
    inventory = PathInventory(SOURCE, kind="state_writes")
    write = {"tenant": "acme", "writer": {"service": "memory", "build_id": None, "path": "import"}}
    assert inventory.observe(write, "9", False, START, 0) == PathKey(
        "state_writes", "acme", "memory", None, None, None, "import", "9"
    )


def test_rows_fit_their_schema_and_bring_the_inventory_back() -> None:
    schema = fastavro.parse_schema(json.loads((resource_folder("schemas") / "producer-paths" / "v1.avsc").read_text()))
    inventory = PathInventory(SOURCE)
    for offset in range(20):
        inventory.observe(turn(f"path-{offset % 3}"), "7", offset % 2 == 0, START + offset * DAY, offset)
    restored = PathInventory(SOURCE)
    published = inventory.due_rows(START + 20 * DAY)
    for _, row in published:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, row, strict=True)
        restored.restore(row)
    assert len({key for key, _ in published}) == len(restored) == 3
    assert all(len(key) == 64 and int(key, 16) >= 0 for key, _ in published)
    assert restored.due_rows(START + 30 * DAY) == []
    for copy in (inventory, restored):
        assert copy.observe(turn("path-0"), "7", True, START + 20 * DAY, 20) is None
    assert rows_of(inventory, START + 40 * DAY) == rows_of(restored, START + 40 * DAY)


def test_the_key_of_a_row_names_the_source_partition() -> None:
    keys = set[bytes]()
    for source in (SOURCE, Partition("turns", 4), Partition("turns-2", 3)):
        inventory = PathInventory(source)
        inventory.observe(turn(), "7", True, START, 0)
        keys.update(key for key, _ in inventory.due_rows(START))
    assert len(keys) == 3


def test_a_row_of_another_partition_is_refused() -> None:
    inventory = PathInventory(SOURCE)
    inventory.observe(turn(), "7", True, START, 0)
    [(_, row)] = inventory.due_rows(START)
    with pytest.raises(ValueError, match="turns:3"):
        PathInventory(Partition("turns", 4)).restore(row)


def test_a_new_row_is_due_at_once_and_then_at_most_once_a_minute() -> None:
    inventory = PathInventory(SOURCE)
    inventory.observe(turn("a"), "7", True, START, 0)
    assert len(inventory.due_rows(START)) == 1
    published = 0
    for second in range(1, 176):
        at = START + second * 1_000
        inventory.observe(turn("a"), "7", True, at, second)
        published += len(inventory.due_rows(at))
    assert published == 2
    inventory.observe(turn("b"), "7", True, START + 176_000, 176)
    assert [row["path"] for _, row in inventory.due_rows(START + 176_000)] == ["b"]
    assert inventory.due_rows(START + DAY)[0][1]["turns"] == 176
    assert inventory.due_rows(START + 2 * DAY) == []


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=40), st.data())
def test_records_read_again_after_a_restart_count_once(log: list[tuple[str, bool]], data: st.DataObject) -> None:
    """The rows published before the crash hold at least what was committed."""
    crash = data.draw(st.integers(0, len(log)))
    commit = data.draw(st.integers(0, crash))
    before = PathInventory(SOURCE)
    for offset, (path, complete) in enumerate(log[:crash]):
        before.observe(turn(path), "7", complete, START + offset, offset)
    after = PathInventory(SOURCE)
    for _, row in before.due_rows(START + crash):
        after.restore(row)
    for offset, (path, complete) in list(enumerate(log))[commit:]:
        after.observe(turn(path), "7", complete, START + offset, offset)
        assert len(after) <= 3
    rows = {key.path: row for key, row in rows_of(after, START + DAY).items()}
    for path, row in rows.items():
        counted = [complete for name, complete in log if name == path]
        assert (row["turns"], row["complete"]) == (len(counted), sum(counted))
        assert (row["first_seen"], row["source_offset"]) == (
            START + [name for name, _ in log].index(path),
            max(offset for offset, (name, _) in enumerate(log) if name == path),
        )
    assert set(rows) == {name for name, _ in log[crash:]}


def test_days_are_the_last_seven_with_traffic_in_order_even_if_a_brokers_clock_steps_back() -> None:
    inventory = PathInventory(SOURCE)
    for offset, day in enumerate([0, 1, 1, 2, 5, 6, 9, 8, 10, 30]):
        inventory.observe(turn(), "7", day != 1, START + day * DAY, offset)
    [row] = rows_of(inventory, START + 31 * DAY).values()
    assert [day["day"] - 20_000 for day in row["days"]] == [1, 2, 5, 6, 9, 10, 30]
    assert [(day["turns"], day["complete"]) for day in row["days"]][:5] == [(2, 0), (1, 1), (1, 1), (1, 1), (2, 2)]
    assert (row["turns"], row["complete"], row["last_seen"]) == (10, 8, START + 30 * DAY)


def test_keys_beyond_the_limit_are_counted_in_one_row_and_not_told() -> None:
    inventory = PathInventory(SOURCE, limit=5)
    told = [inventory.observe(turn(f"p{n}"), "7", True, START + n, n) for n in range(20)]
    assert sum(key is not None for key in told) == 5
    assert len(inventory) == 6
    assert inventory.folded == 15
    other = next(row for row in rows_of(inventory, START + 20).values() if row["path"] == OTHER)
    assert (other["tenant"], other["turns"], other["source_offset"]) == ("", 15, 19)
    restored = PathInventory(SOURCE, limit=5)
    restored.restore(other)
    assert restored.observe(turn("new"), "7", True, START + 21, 21) is not None


def test_keys_quiet_for_a_week_make_room_and_their_rows_are_to_be_nulled() -> None:
    inventory = PathInventory(SOURCE, limit=2)
    inventory.observe(turn("busy"), "7", True, START, 0)
    inventory.observe(turn("old"), "7", True, START, 1)
    _, (old, _) = inventory.due_rows(START)
    inventory.observe(turn("old"), "7", True, START, 2)
    inventory.observe(turn("busy"), "7", True, START + 6 * DAY, 3)
    assert inventory.observe(turn("new"), "7", True, START + 7 * DAY, 4) is None
    assert inventory.take_forgotten() == []
    assert inventory.observe(turn("new"), "7", True, START + 7 * DAY + 1, 5) is not None
    assert inventory.take_forgotten() == [old]
    assert inventory.take_forgotten() == []
    assert "old" not in {key.path for key in rows_of(inventory, START + 8 * DAY)}


def test_texts_of_any_length_keep_the_inventory_small() -> None:
    inventory = PathInventory(SOURCE)
    key = inventory.observe(turn("p" * 1_000, service="s" * 256, build_id="b" * 257), "7", True, START, 0)
    assert key is not None
    assert (key.path, key.service, key.release) == ("p" * 255 + "…", "s" * 256, "b" * 255 + "…")


def busy(path: str, partition: int, turns: int, last_day: int, release: str = "b1") -> dict[str, Any]:
    inventory = PathInventory(Partition("turns", partition))
    for offset in range(turns):
        inventory.observe(turn(path, build_id=release), "7", True, START + last_day * DAY + offset, offset)
    [row] = rows_of(inventory, START + 40 * DAY).values()
    return row
