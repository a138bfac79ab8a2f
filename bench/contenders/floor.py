"""The floor: plain aiokafka that fetches and unpacks every record, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Final

from aiokafka import AIOKafkaConsumer

from bench.contenders.first_fetch import mark_first_fetch
from bench.contenders.task import Mark, Task, wait_for_the_end

_MAX_RECORDS: Final = 2_000
_PARTITION_BYTES: Final = 8 << 20
"""As the worker fetches."""


async def consume(task: Task) -> None:
    """Read all turns of ``task`` and mark the end."""
    consumer = AIOKafkaConsumer(
        task.input,
        bootstrap_servers=task.bootstrap_servers,
        group_id=task.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_partition_fetch_bytes=_PARTITION_BYTES,
        fetch_max_wait_ms=100,
    )
    await consumer.start()
    try:
        left = task.turns
        while left > 0:
            batches = await consumer.getmany(timeout_ms=1_000, max_records=_MAX_RECORDS)
            left -= sum(map(len, batches.values()))
        Mark.now().write(task.last_mark)
    finally:
        await consumer.stop()


if __name__ == "__main__":
    given = Task.from_command_line()
    mark_first_fetch(given)
    asyncio.run(consume(given))
    wait_for_the_end()
