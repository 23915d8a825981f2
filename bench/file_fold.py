"""Where each microsecond of a file recorded in bulk goes: one process, one journal partition, no service.

`python -m bench.file_fold` folds events of a thousand files each from Arrow records to Parquet and to staged documents
and prints microseconds per file: first of each step as a task of the stream tells it, once, in memory that nobody has
touched before; then of each part alone, the best of several rounds through all parts in turn.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench import source
from bench.files import events
from bench.fold import NAMES, Nothing, best_of
from metajournal.fold.folded import Folded, Prior
from metajournal.fold.journal import journal_table
from metajournal.fold.judging import fold
from metajournal.fold.prior import KnownOriginals
from metajournal.fold.published import documents
from metajournal.fold.readings import Readings, read_table
from metajournal.fold.records import SOURCE, Place
from metajournal.fold.repeats import Repeats
from metajournal.fold.steps import MadeOfRows
from metajournal.lake.declared import made_arrow
from metajournal.lake.storage.files import TableFiles
from metajournal.lake.tables import Lake
from metajournal.schemas.header import Header
from metajournal.streaming.parts import StagedPart
from metajournal.streaming.plan import Pin, Plan, Task
from metajournal.streaming.staging import Staging
from metajournal.streaming.tasks import fold_batch

FILES: Final = 40_000
ROUNDS: Final = 5
TOPIC: Final = "metajournal.journal.files"
PLACE: Final = Place(TOPIC, 0, 1, "files", frozenset())
_START_MS: Final = 1_760_000_000_000


def records(files: int = FILES) -> pa.Table:
    """The journal as Spark's Kafka source gives one partition of it."""
    return pa.Table.from_pylist([_record(*event) for event in enumerate(events(files, twice=False))], schema=SOURCE)


def _record(offset: int, event: Any) -> dict[str, Any]:
    time_ms = _START_MS + offset
    header = Header(
        source.identity(offset, time_ms), "default", event.TYPE, event.aggregate, event.entities, "bench", time_ms
    )
    return source.record(TOPIC, 0, offset, header, event)


def parts(table: pa.Table, folder: Path) -> Iterator[tuple[str, Callable[[dict[str, Any]], Any]]]:
    """Each part: its name, and a function of what the parts before it made."""
    end = (1 << 40) + table.num_rows
    yield "read", lambda _: read_table(table, PLACE, 1, 1 << 40, end)
    yield "needs", lambda made: made["read"].needs()
    yield "fold", lambda made: _folded(made["read"])
    yield "entities rows", lambda made: made_arrow("entities", _entities(made["fold"]))
    yield "entities, Parquet", lambda made: _written("entities", made["entities rows"], folder)
    yield "file_records rows", lambda made: made_arrow("file_records", _records(made["fold"]))
    yield "file_records, Parquet", lambda made: _written("file_records", made["file_records rows"], folder)
    yield "journal rows", lambda made: journal_table(made["fold"])
    yield "journal, Parquet", lambda made: _written("journal", made["journal rows"], folder)
    yield "documents, row by row", lambda made: documents(made["fold"], NAMES)
    yield "documents, staged", lambda made: _staged(made["fold"], made["entities rows"], folder)


def _folded(readings: Readings) -> Folded:
    return fold(readings, Prior(Nothing(), {}, KnownOriginals({}, {})), 0)


def _entities(folded: Folded) -> Iterator[Any]:
    return ((change.after, "files", 0) for change in folded.changes)


def _records(folded: Folded) -> Iterator[Any]:
    return ((change.after, "files", 0) for change in folded.facts["file_records"])


def _written(name: str, rows: pa.Table, folder: Path) -> None:
    files = TableFiles(name, str(folder / name))
    files.write(rows)
    files.close()


def _staged(folded: Folded, entities: pa.Table, folder: Path) -> None:
    part = StagedPart(Staging(str(folder)), PLACE)
    part.write(MadeOfRows(folded), NAMES, {"entities": entities})
    part.close()


def measure_task(files: int = FILES) -> dict[str, float]:
    """Microseconds per file of each step of one task that folds so many files into an empty lake."""
    table = records(files)
    end = (1 << 40) + table.num_rows
    with tempfile.TemporaryDirectory(prefix="metajournal-bench-") as folder:
        lake = Lake(folder)
        lake.create()
        pins = {
            table.name: Pin(table.name, table.uri, table.delta.version(), table.storage_options)
            for table in (lake.journal, *lake.histories)
        }
        marks = {table.name: 1 << 40 for table in lake.histories}
        task = Task(PLACE, 1, 1 << 40, end, 0, marks, Repeats())
        plan = Plan({(TOPIC, 0): task}, pins, tuple(pins), NAMES, {}, Staging(folder), {})
        start = time.process_time()
        (part,) = fold_batch(plan, table.to_batches(max_chunksize=10))
        whole = time.process_time() - start
        return {name: seconds / files * 1e6 for name, seconds in {**part.seconds, "whole task": whole}.items()}


def measure(rounds: int = ROUNDS, files: int = FILES) -> dict[str, float]:
    """Microseconds per file of each part, the best of some rounds."""
    table = records(files)
    return best_of(rounds, files, lambda folder: parts(table, folder))


def main() -> None:
    """Print the table. Arguments: rounds, files."""
    given = [int(argument) for argument in sys.argv[1:]]
    for name, cost_us in measure_task(*given[1:]).items():
        print(f"task {name:19} {cost_us:6.2f}")
    best = measure(*given)
    for name, cost_us in best.items():
        print(f"{name:24} {cost_us:6.2f}")
    of_a_task = sum(cost_us for name, cost_us in best.items() if name != "documents, row by row")
    print(f"{'sum of what a task does':24} {of_a_task:6.2f} us per file and core")


if __name__ == "__main__":
    main()
