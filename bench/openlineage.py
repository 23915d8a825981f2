"""Run events a second that the gateway takes in from OpenLineage's real asynchronous client.

200 jobs run again and again; each event names an input and an output with a schema of 20 columns, a nominal time and
the job's SQL. One server in a process of its own, with a principal and a key of the journal; the client in this one,
with gzip and its usual 100 connections. The stream does not run: what an answer takes is the client's, the server's and
the broker's. First every job's first run, which registers its data, its job and its schemas; then the others.
The floor is the same client before an address that answers at once and does nothing.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import nominal_time_run, schema_dataset, sql_job
from openlineage.client.transport.async_http import AsyncHttpConfig, AsyncHttpTransport

from bench.serving import servers
from metajournal.client import Journal
from metajournal.domains.catalog.events import EntityRegistered
from metajournal.domains.catalog.naming import data
from metajournal.domains.catalog.urns import dataset
from metajournal.lake.tables import Lake, Reached
from metajournal.producers.topics import ensure_topics
from metajournal.rules.digest import served_digests
from metajournal.schemas.settings import JournalSettings, LakeSettings, Settings
from metajournal.stack.jars import ensure_parts
from metajournal.stack.kafka import start_kafka

JOBS: Final = 200
RUNS: Final = 20
"""Runs of each job after its first one."""
COLUMNS: Final = 20
LEAST_PER_S: Final = 300
_TIMEOUT_S: Final = 120.0
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_WAREHOUSE: Final = "postgres://db.acme:5432"


def measure(
    *, say: Callable[[str], None] = lambda _: None, kafka: str | None = None, runs: int = RUNS
) -> list[dict[str, Any]]:
    """Measure with a broker of its own, or one that is given; events a second with their limit."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        if kafka is not None:
            return _measured(Path(folder), kafka, say, runs)
        broker = start_kafka(ensure_parts(("kafka",)), Path(folder) / "kafka")
        try:
            return _measured(Path(folder), broker.endpoint, say, runs)
        finally:
            broker.stop()


def _measured(folder: Path, kafka: str, say: Callable[[str], None], runs: int) -> list[dict[str, Any]]:
    settings = Settings(
        journal=JournalSettings(prefix=f"bench-{time.time_ns()}", actor="bench"),
        kafka={"bootstrap.servers": kafka},
        lake=LakeSettings(path=str(folder / "lake")),
    )
    ensure_topics(settings)
    with Journal.connect(settings) as journal:
        _make_lake(journal)
        key = _key(journal)
        with servers(settings, 1) as (server,):
            address = f"http://{server.address}"
            first = _rate(address, key, list(_events(0, 1)))
            say(f"the first runs of {JOBS} jobs: {first:,.0f} events/s")
            later = list(_events(1, runs + 1))
            rate = _rate(address, key, later)
            _check(journal)
        with _process(_answer_at_once) as address:
            floor = _rate(address, key, later)
        say(f"{len(later):,} events of later runs: {rate:,.0f} events/s, the client alone {floor:,.0f}")
    return [
        _figure(f"OpenLineage, the first run events of {JOBS} jobs, which register all that they name", first),
        _figure(f"OpenLineage, run events of {JOBS} jobs with schema facets", rate) | {"floor": floor},
    ]


def _figure(name: str, per_s: float) -> dict[str, Any]:
    return {"name": name, "value": per_s, "limit": LEAST_PER_S, "ratio": per_s / LEAST_PER_S, "unit": "events/s"}


def _make_lake(journal: Journal) -> None:
    """A lake whose marks stand where the journal begins."""
    lake = Lake(journal.settings.lake.path)
    lake.include(journal.epochs.domains)
    lake.create()
    marks: dict[tuple[str, int], int] = {}
    number = 0
    while len(marks) < journal.settings.journal.partitions:
        position = journal.emit(EntityRegistered(dataset("bench", f"mark_{number}"))).position
        marks.setdefault((position.topic, position.partition), position.value)
        number += 1
    lake.journal.append(lake.journal.schema.empty_table(), Reached(marks, {}, served_digests()))


def _key(journal: Journal) -> str:
    """The key of a principal who may emit."""
    access = journal.access
    access.register("airflow")
    access.grant("airflow", ("emitter", "*"))
    key, receipt = access.issue_key("airflow")
    receipt.position  # noqa: B018  (waits)
    return key.text


@contextmanager
def _process(run: Callable[..., None], *given: Any) -> Iterator[str]:
    """A server in a process of its own; gives its address."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=run, args=(*given, there), daemon=True)
    process.start()
    try:
        assert here.poll(_TIMEOUT_S), "the server did not start"
        yield here.recv()
    finally:
        process.terminate()
        process.join(30)


def _answer_at_once(ready: Connection) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r")[0]))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        ready.send(f"http://{host}:{port}")
        await server.serve_forever()

    asyncio.run(run())


def _events(start: int, stop: int) -> Iterator[RunEvent]:
    """The events of some runs of every job, the first one's first; each job's begin a minute after the ones before."""
    for number in range(start, stop):
        for state in (RunState.START, RunState.COMPLETE):
            for job in range(JOBS):
                yield _event(job, number, state)


def _event(job: int, number: int, state: RunState) -> RunEvent:
    second = number * 60 + (state is not RunState.START)
    columns = [schema_dataset.SchemaDatasetFacetFields(f"column_{column}", "varchar") for column in range(COLUMNS)]
    schema: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(columns)}
    nominal: dict[str, Any] = {
        "nominalTime": nominal_time_run.NominalTimeRunFacet(f"2026-01-01T00:{number % 60:02}:00Z")
    }
    sql: dict[str, Any] = {"sql": sql_job.SQLJobFacet(f"insert into wrote_{job} select * from read_{job}")}
    return RunEvent(
        eventTime=(_BEGIN + timedelta(seconds=second)).isoformat(), producer="https://example.com/bench",
        eventType=state, run=Run(str(UUID(int=(number << 64) + job)), facets=nominal),
        job=Job("bench", f"job_{job}", facets=sql),
        inputs=[InputDataset(_WAREHOUSE, f"shop.public.read_{job}", facets=schema)],
        outputs=[OutputDataset(_WAREHOUSE, f"shop.public.wrote_{job}", facets=schema)],
    )  # fmt: skip


def _rate(address: str, key: str, events: Sequence[RunEvent]) -> float:
    """Events a second, from the first emit until the last is answered; every one of them by the first try or later."""
    auth = {"type": "api_key", "apiKey": key}
    config = AsyncHttpConfig.from_dict({"url": address, "auth": auth, "compression": "gzip"})
    transport = AsyncHttpTransport(config)
    started = time.perf_counter()
    for event in events:
        transport.emit(event)
    assert transport.wait_for_completion(_TIMEOUT_S), "the client still waits"
    elapsed = time.perf_counter() - started
    stats = dict(transport.get_stats())
    transport.close(_TIMEOUT_S)
    assert stats == {"pending": 0, "success": len(events), "failed": 0}, stats
    return len(events) / elapsed


def _check(journal: Journal) -> None:
    """What was sent is there: a schema, asked for through a follower."""
    with journal.follow(data(_WAREHOUSE, f"shop.public.wrote_{JOBS - 1}")) as follow:
        row = follow.row()
    assert row is not None
    assert "column_19" in row.system_properties["schema"]
