"""The moment the first records of a topic have come, for every contender whose client is aiokafka."""

from __future__ import annotations

from typing import Any

from aiokafka.consumer.fetcher import FetchResult

from bench.contenders.task import Mark, Task


def mark_first_fetch(task: Task) -> None:
    """Write the first mark of ``task`` when aiokafka holds the first records of its input, before they are unpacked.

    The hook takes itself away with that: it costs nothing afterwards.
    """
    original = FetchResult.__init__

    def initialise(self: FetchResult, tp: Any, **details: Any) -> None:  # noqa: ANN401 - aiokafka has no types
        original(self, tp, **details)
        if tp.topic == task.input:
            FetchResult.__init__ = original
            Mark.now().write(task.first_mark)

    FetchResult.__init__ = initialise
