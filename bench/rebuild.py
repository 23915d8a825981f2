"""Figure 2: rebuilding the lake's history tables from its journal table, against 55,000 events a second.

The history tables are taken away before, and their digest must be the same afterwards.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench import source
from bench.workload import journal
from metajournal.fold.records import SOURCE
from metajournal.lake.digest import table_digest
from metajournal.lake.tables import Lake
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.hashing import partition_of, record_key
from metajournal.schemas.header import Header
from metajournal.schemas.settings import LakeSettings, Settings
from metajournal.streaming.engine import Engine
from metajournal.streaming.plan import Part, Plan, Published
from metajournal.streaming.rebuild import LakeRebuild, Pool, Progress
from metajournal.streaming.tasks import fold_batch

EVENTS: Final = 1_000_000
ENTITIES: Final = 300_000
PARTITIONS: Final = 4
LIMIT_PER_S: Final = 55_000
LEAST_RATIO: Final = 1.5
_TOPIC: Final = "metajournal.journal.catalog"
_BATCH: Final = 250_000

Say = Callable[[str], None]


def run(say: Say, *, events: int = EVENTS, entities: int = ENTITIES) -> list[dict[str, Any]]:
    """Measure; gives the figure in events per second."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        settings = Settings(lake=LakeSettings(path=folder))
        epochs = Epochs({_TOPIC: TopicEpoch(_TOPIC, 1, "bench", PARTITIONS)}, frozenset())
        lake = Lake(folder)
        lake.create()
        marks = _fill(settings, epochs, lake, events, entities)
        before = table_digest(lake.tables["entities"].delta, marks)
        shutil.rmtree(Path(folder) / "entities")
        lake = Lake(folder)
        target = lake.begin_generation(["entities"])
        with Pool() as pool:
            pool.warm_up()
            started = time.monotonic()
            done = LakeRebuild(settings, epochs, lake, target, ["entities"], pool, _telling(say)).run()
            took_s = time.monotonic() - started
        assert done.digests["entities"] == before, "the rebuilt table differs"
        assert done.records == events
        say(f"{events:,} events in {took_s:.1f} s, digest equal ({before[:16]})")
    rate = events / took_s
    name = f"rebuild of the lake from its journal table, {events:,} events"
    return [
        {
            "name": name,
            "value": rate,
            "limit": LIMIT_PER_S,
            "ratio": rate / LIMIT_PER_S,
            "unit": "events/s",
            "least": LEAST_RATIO,
        }
    ]


def _telling(say: Say) -> Callable[[Progress], None]:
    return lambda done: say(f"  {done.records:,} of {done.of:,}, {done.per_s:,.0f}/s")


def _fill(settings: Settings, epochs: Epochs, lake: Lake, events: int, entities: int) -> dict[tuple[str, int], int]:
    """Fold a generated journal into the lake, as the wide way would."""
    engine = Engine(settings, epochs, lake, _Nowhere())  # type: ignore[arg-type]
    offsets = [0] * PARTITIONS
    records: list[dict[str, Any]] = []
    for number, event in enumerate(journal(events, entities), 1):
        records.append(_record(number, offsets, *event))
        if len(records) == _BATCH or number == events:
            ends = {(_TOPIC, partition): offset for partition, offset in enumerate(offsets)}
            engine.run_wide(_Local(pa.Table.from_pylist(records, schema=SOURCE)), ends)
            records = []
    return dict(engine.marks)


def _record(number: int, offsets: list[int], tenant: str, entity: Any, event: Any) -> dict[str, Any]:
    time_ms = 1_760_000_000_000 + number // 20
    identity = source.identity(number, time_ms)
    header = Header(identity, tenant, event.TYPE, str(entity), (str(entity),), f"user-{number % 200}", time_ms)
    partition = partition_of(record_key(tenant, str(entity)), PARTITIONS)
    offsets[partition] += 1
    return source.record(_TOPIC, partition, offsets[partition] - 1, header, event)


class _Local:
    """The wide way's tasks in this process, published nowhere."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def fold(self, plan: Plan) -> list[Part]:
        return fold_batch(plan, self._table.to_batches(max_chunksize=100_000))

    def publish(self, plan: Plan, parts: Any) -> list[Published]:
        return []


class _Nowhere:
    partitions: Final[dict[str, int]] = {}


if __name__ == "__main__":
    import sys

    counts = [int(argument) for argument in sys.argv[1:3]] or [EVENTS, ENTITIES]
    print(run(print, events=counts[0], entities=counts[1]))
