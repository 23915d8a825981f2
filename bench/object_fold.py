"""Where each microsecond of an object written in bulk goes: one process, one journal partition, no service.

`python -m bench.object_fold` folds events of a thousand objects each from Arrow records to Parquet and to staged
documents, in columns and one by one, and prints microseconds of processor time per object of each step, as a task of
the stream tells it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Final

import pyarrow as pa

from bench import source
from bench.fold import NAMES
from bench.objects import created, events, header_of
from metajournal.fold.records import SOURCE, Place
from metajournal.fold.repeats import Repeats
from metajournal.lake.tables import Lake
from metajournal.streaming.plan import Pin, Plan, Task
from metajournal.streaming.staging import Staging
from metajournal.streaming.tasks import fold_batch

OBJECTS: Final = 200_000
REPOSITORY: Final = "bench-0"
TOPIC: Final = "metajournal.journal.repositories"
PLACE: Final = Place(TOPIC, 0, 1, "repositories", frozenset())
_FIRST: Final = 1 << 40
_ARROW_ROWS: Final = 10


def records(objects: int = OBJECTS) -> pa.Table:
    """The journal of one repository as Spark's Kafka source gives its partition."""
    told = [created(REPOSITORY), *events(REPOSITORY, objects)]
    rows = [source.record(TOPIC, 0, number, header_of(event, number), event) for number, event in enumerate(told)]
    return pa.Table.from_pylist(rows, schema=SOURCE)


def measure_task(table: pa.Table, objects: int, *, publishes: bool = True) -> dict[str, float]:
    """Microseconds per object of each step of one task that folds a journal into an empty lake."""
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        lake = Lake(folder)
        lake.include(("repositories",))
        lake.create()
        tables = (lake.journal, *lake.histories) if publishes else lake.histories
        pins = {
            name.name: Pin(name.name, name.uri, name.delta.version(), name.storage_options)
            for name in (lake.journal, *lake.histories)
        }
        marks = {history.name: _FIRST for history in lake.histories}
        task = Task(PLACE, 1, _FIRST, _FIRST + table.num_rows, 0, marks, Repeats())
        staging = Staging(folder) if publishes else None
        plan = Plan({(TOPIC, 0): task}, pins, tuple(one.name for one in tables), NAMES, {}, staging, {})
        started = time.process_time()
        (part,) = fold_batch(plan, table.to_batches(max_chunksize=_ARROW_ROWS))
        whole_s = time.process_time() - started
        assert part.verdicts == {"accepted": table.num_rows}, part.verdicts
        return {name: seconds / objects * 1e6 for name, seconds in {**part.seconds, "whole task": whole_s}.items()}


def main() -> None:
    """Print the tables. Argument: objects."""
    objects = int(sys.argv[1]) if len(sys.argv) > 1 else OBJECTS
    table = records(objects)
    for title, publishes in (("published", True), ("rebuilt", False)):
        for name, cost_us in measure_task(table, objects, publishes=publishes).items():
            print(f"{title:10} {name:12} {cost_us:6.2f} us per object")


if __name__ == "__main__":
    main()
