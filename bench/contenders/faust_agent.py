"""The peer on stock Faust: an agent as its guide shows it, one event per record, on Faust's own aiokafka driver."""

from __future__ import annotations

import faust
from faust.types import StreamT

from bench.contenders.first_fetch import mark_first_fetch
from bench.contenders.job import RecordJob
from bench.contenders.task import Task
from workers.processing.lineage import SOURCE_HEADER


def build_app(task: Task) -> faust.App:
    """Return the app; the linger and compression of outputs are the worker's defaults, all else is Faust's."""
    app = faust.App(
        task.group,
        broker=";".join(f"kafka://{server}" for server in task.bootstrap_servers.split(",")),
        store="memory://",
        datadir=task.folder,
        web_enabled=False,
        topic_disable_leader=True,
        topic_allow_declare=False,
        producer_linger=0.02,
        producer_compression_type="lz4",
    )
    turns = app.topic(task.input, key_serializer="raw", value_serializer="raw")
    fidelity = app.topic(task.output, key_serializer="raw", value_serializer="raw")
    job = RecordJob()

    @app.agent(turns)
    async def judge(stream: StreamT[bytes]) -> None:
        async for event in stream.events():
            message = event.message
            verdict = job.verdict(event.value)
            source = f"{message.topic}:{message.partition}:{message.offset}".encode()
            await fidelity.send(
                key=verdict.key,
                value=verdict.value,
                partition=message.partition,
                headers=[(SOURCE_HEADER, source)],
            )

    return app


if __name__ == "__main__":
    given = Task.from_command_line()
    mark_first_fetch(given)
    faust.Worker(build_app(given), loglevel="WARN", quiet=True).execute_from_commandline()
