"""`show` of one entity among a million with a fresh handle, as the stream left the tables just before a compaction.

The lake is filled as the stream fills it: a backlog in large appends, then small ones, with upkeep between them, until
one more append would start a compaction. Beside it stands the floor of the same machine in the same run: opening one
Parquet file and reading the one row group that can hold the key.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from metajournal.domains.catalog.urns import dataset
from metajournal.lake.columns import ENTITIES, JOURNAL, TIMESTAMP
from metajournal.lake.reading import LakeReader
from metajournal.lake.storage.compaction import live_files
from metajournal.lake.storage.files import run_of
from metajournal.lake.storage.runs import MOST_LOOSE
from metajournal.lake.tables import Lake, Reached
from metajournal.schemas.topics import TopicNames

ENTITIES_COUNT: Final = 1_000_000
BACKLOG_ROWS: Final = 50_000
BATCH_ROWS: Final = 200
BATCHES: Final = 400
PROBES: Final = 300
LIMIT_MS: Final = 50
_TOPIC: Final = TopicNames().journal("catalog")
_PARTITIONS: Final = 4
_FIRST: Final = 1 << 40


def measure(
    *, entities: int = ENTITIES_COUNT, probes: int = PROBES, say: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Fill a lake and look entities up; gives the p50 in milliseconds with its limit, the p99 and the floor's p50."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        say(f"filling a lake with {entities:,} entities")
        lake = fill(folder, entities)
        files = live_files(lake.tables["entities"].delta)
        loose = sum(run_of(file.path) is None for file in files)
        say(f"{loose} loose and {len(files) - loose} sorted files, {BATCHES} batches since; {probes} probes")
        choose = random.Random(5)
        times_ms = [_probe(folder, choose.randrange(entities)) for _ in range(probes)]
        floor = _floor(folder, probes)
    p50, p99 = statistics.median(times_ms), statistics.quantiles(times_ms, n=100)[98]
    return [
        {
            "name": f"show of one of {entities:,} entities, fresh handle, p50",
            "value": p50,
            "limit": LIMIT_MS,
            "ratio": p50 / LIMIT_MS,
            "unit": "ms",
            "p99": p99,
            "probes": probes,
            "loose_files": loose,
            "floor_p50": floor,
        }
    ]


def fill(folder: str, entities: int) -> Lake:
    """A lake as the stream leaves it just before a compaction of `entities`."""
    lake = Lake(folder)
    lake.create()
    choose = np.random.default_rng(7)
    order = choose.permutation(entities)
    for start in range(0, entities, BACKLOG_ROWS):
        _batch(lake, order[start : start + BACKLOG_ROWS])
        lake.tidy()
    table, batches = lake.tables["entities"], 0
    while batches < BATCHES or sum(run_of(file.path) is None for file in live_files(table.delta)) < MOST_LOOSE - 1:
        _batch(lake, choose.integers(0, entities, BATCH_ROWS))
        lake.tidy()
        batches += 1
    return lake


def _batch(lake: Lake, numbers: Any) -> None:
    """One batch of the stream: rows of these entities, then the journal table."""
    entities, journal = lake.tables["entities"], lake.journal
    first = max(_FIRST, journal.mark((_TOPIC, 0)))
    marks = {(_TOPIC, partition): first + len(numbers) for partition in range(_PARTITIONS)}
    entities.append(rows(numbers, first), Reached(marks, {}, {"catalog": "bench"}))
    journal.append(_journal_rows(first), Reached(marks, marks, {"catalog": "bench"}))


def rows(numbers: Any, first: int) -> pa.Table:
    """Rows of the entities with these numbers, at positions from `first` on, made in columns."""
    count = len(numbers)
    names = pc.binary_join_element_wise("table_", pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 7, "0"), "")
    positions = pa.array(np.arange(first, first + count))
    times = pc.cast(pa.array(np.arange(count) * 1000 + 1_700_000_000_000_000), pa.timestamp("us")).cast(TIMESTAMP)
    urns = pc.binary_join_element_wise("dataset:bench/", names, "")
    pairs = pa.array(np.arange(count + 1) * 2, pa.int32())
    values = pc.cast(pa.array(np.random.default_rng(first).integers(0, 1 << 40, 2 * count)), pa.string())
    properties = pa.MapArray.from_arrays(pairs, pa.array(["description", "owner"] * count), values)
    tags = pa.ListArray.from_arrays(pairs, pa.array(["gold", "pii"] * count))
    columns: dict[str, Any] = {
        "tenant": "default",
        "urn": urns,
        "aggregate": urns,
        "domain": "catalog",
        "journal_partition": pc.bit_wise_and(pa.array(numbers), _PARTITIONS - 1),
        "logical_timestamp": positions,
        "seq": 0,
        "system_time": times,
        "event_time": times,
        "event_id": pc.binary_join_element_wise("01890000-0000-7000-8000-", pc.cast(positions, pa.string()), ""),
        "actor": "bench",
        "deleted": False,
        "kind": "dataset",
        "namespace": "bench",
        "name": names,
        "record": None,
        "user_properties": properties,
        "user_tags": tags,
        "system_properties": properties,
        "system_tags": tags,
    }
    return pa.table([_column(columns[field.name], field.type, count) for field in ENTITIES], schema=ENTITIES)


def _column(values: Any, kind: pa.DataType, count: int) -> Any:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.repeat(pa.scalar(values, kind), count)


def _journal_rows(position: int) -> pa.Table:
    now = datetime.now(UTC)
    row = {
        "topic": _TOPIC,
        "journal_partition": 0,
        "logical_timestamp": position,
        "system_date": now.date(),
        "system_time": now,
        "append_time": now,
        "outcome": "accepted",
    }
    return pa.Table.from_pylist([row], schema=JOURNAL)


def _probe(folder: str, number: int) -> float:
    urn = dataset("bench", f"table_{number:07}")
    start = time.perf_counter()
    answer = LakeReader(Lake(folder), TopicNames(), _PARTITIONS).current("default", urn)
    took = (time.perf_counter() - start) * 1000
    if answer.row is None or answer.row.urn != str(urn):
        raise RuntimeError(f"{urn} is not found")
    return took


def _floor(folder: str, probes: int) -> float:
    """Milliseconds (p50) to open a sorted file and read one of its row groups."""
    largest = max(Path(folder, "entities").glob("*.parquet"), key=lambda path: path.stat().st_size)
    groups, times_ms = pq.read_metadata(largest).num_row_groups, []
    for number in range(probes):
        start = time.perf_counter()
        with pq.ParquetFile(largest) as file:
            file.read_row_group(number % groups)
        times_ms.append((time.perf_counter() - start) * 1000)
    return statistics.median(times_ms)


def main() -> int:
    """Print the figures; 1 when the median misses its limit."""
    (figure,) = measure(say=lambda text: print(text, file=sys.stderr))
    print(f"{figure['name']}: {figure['value']:.1f} ms, at most {figure['limit']} ms; p99 {figure['p99']:.1f} ms")
    print(f"bare read of one row group, p50: {figure['floor_p50']:.1f} ms")
    return 0 if figure["ratio"] <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
