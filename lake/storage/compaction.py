"""Compaction of one table in short steps: loose files to sorted runs, runs to larger runs.

Only the writer of the table calls it, between two appends. A job reads live files, writes new ones and puts them in
the place of the old ones in one commit that changes no row and no mark; until then nothing of it counts, so a process
that ends in between leaves orphans for the vacuum. A commit that somebody else made meanwhile wins: the job is dropped.
What to compact is decided in `runs`; memory holds a few row groups for each run that is merged, never a table.
"""

from __future__ import annotations

import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from .. import scan
from ..columns import PARTITION_COLUMNS
from ..declared import SPECS
from .damage import reading
from .files import DataFile, TableFiles, in_order, opened
from .runs import LiveFile, Merge, Run, Sort, to_merge, to_sort

if TYPE_CHECKING:
    from deltalake import DeltaTable

StepHook = Callable[[str], None]
"""Called with the name of each point at which a process may die; for crash tests."""

_STEP_S = 0.08
_STEP_ROWS = 32_768
_LEAST_FILES = 10
_BATCH_ROWS = 8_192
_STEP_BYTES = 32 * 1024 * 1024
_FILE_ROWS = 1 << 20


def passed(_point: str) -> None:
    """What a `StepHook` is outside of crash tests."""


class Compactable(Protocol):
    """What compaction needs of a table (`table.Table`)."""

    name: str
    uri: str
    storage_options: dict[str, str]

    @property
    def delta(self) -> DeltaTable: ...

    def replace(self, removed: Sequence[LiveFile], added: Sequence[DataFile]) -> bool:
        """Put new files in the place of live ones, in one commit; False where somebody else committed meanwhile."""


class Compaction:
    """The compaction of one table: holds the job in hand from step to step.

    Args:
        table: its writer's handle.
    """

    def __init__(self, table: Compactable) -> None:
        self._table = table
        self._sorting: _Job | None = None
        self._merging: _Job | None = None
        self._clean_version: int | None = None

    def step(self, hook: StepHook) -> tuple[bool, int]:
        """Do one short piece of work: sorting loose files goes first, a merge under way waits for it.

        Returns:
            Whether there was anything to do, and how many files went away.
        """
        version = self._table.delta.version()
        if version == self._clean_version:
            return False, 0
        live = live_files(self._table.delta)
        if self._sorting is None and (sort := to_sort(live)) is not None:
            self._sorting = _Job(self._table, sort.files, _sorted_runs(self._table, sort))
        if self._sorting is None and self._merging is None and (merge := to_merge(live)) is not None:
            self._merging = _Job(self._table, merge.files, _merged(self._table, merge))
        job = self._sorting or self._merging
        if job is None:
            self._clean_version = version
            return False, 0
        try:
            removed = job.step(live, hook)
        except BaseException:
            self._sorting = self._merging = None
            raise
        if removed is not None:
            self._sorting, self._merging = (None, self._merging) if job is self._sorting else (self._sorting, None)
            if not removed:
                self._clean_version = self._table.delta.version()  # somebody else committed: try again on a later one
        return True, removed or 0


class _Job:
    def __init__(self, table: Compactable, files: Sequence[LiveFile], work: Iterator[list[DataFile] | None]) -> None:
        self._table = table
        self._files = files
        self._work = work
        self._begun = False

    def step(self, live: Iterable[LiveFile], hook: StepHook) -> int | None:
        """Go on for a while; gives the number of files that went away once the job is over, None before."""
        if not self._begun:
            hook("compact-before-files")
            self._begun = True
        added = next(self._work)
        if added is None:
            return None
        hook("compact-after-files")
        there = {file.path for file in live}
        if not all(file.path in there for file in self._files) or not self._table.replace(self._files, added):
            return 0
        hook("compact-after-commit")
        return len(self._files)


def live_files(delta: DeltaTable) -> list[LiveFile]:
    """The files of a handle's version."""
    listed = scan.live_files(delta)
    partitions = [name for name in listed.column_names if name.startswith("partition.")]
    return [
        LiveFile(
            path,
            rows or 0,
            size_bytes,
            {
                name.removeprefix("partition."): None if value is None else str(value)
                for name, value in zip(partitions, values, strict=True)
            },
        )
        for path, rows, size_bytes, *values in zip(
            *(listed[name].to_pylist() for name in ("path", "num_records", "size_bytes", *partitions)), strict=True
        )
    ]


def _sorted_runs(table: Compactable, sort: Sort) -> Iterator[list[DataFile] | None]:
    """Sort loose files piece by piece: each piece that fits into a step becomes a run of its own."""
    written: list[TableFiles] = []
    with _discarded_on_failure(written):
        yield from _sort(table, sort, written)
    yield [file for files in written for file in files.close()]


@contextmanager
def _discarded_on_failure(written: Sequence[TableFiles]) -> Iterator[None]:
    """Leave nothing of a job that fails: on a full disk each attempt would leave less room."""
    try:
        yield
    except Exception:
        for files in written:
            files.discard()
        raise


def _sort(table: Compactable, sort: Sort, written: list[TableFiles]) -> Iterator[None]:
    piece: list[pa.Table] = []
    rows = size_bytes = 0
    until = time.monotonic() + _STEP_S
    for number, file in enumerate(sort.files, 1):
        for batch in _batches(table, file):
            piece.append(batch)
            rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
            if rows >= _STEP_ROWS or size_bytes >= _STEP_BYTES:
                _write_run(table, pa.concat_tables(piece), written)
                piece, rows, size_bytes = [], 0, 0
            elif number % _LEAST_FILES:
                continue  # or a slow machine would sort no faster than files come
            if time.monotonic() > until:
                yield None
                until = time.monotonic() + _STEP_S
    if rows:
        _write_run(table, pa.concat_tables(piece), written)


def _write_run(table: Compactable, rows: pa.Table, written: list[TableFiles]) -> None:
    files = TableFiles(table.name, table.uri, table.storage_options, run=uuid.uuid4().hex)
    written.append(files)
    files.write(in_order(table.name, rows))
    files.close()


def _merged(table: Compactable, merge: Merge) -> Iterator[list[DataFile] | None]:
    """Merge runs into one: what no smaller key can follow is written, then the run that ended is read on."""
    files = TableFiles(table.name, table.uri, table.storage_options, most_rows=_FILE_ROWS, run=uuid.uuid4().hex)
    with _discarded_on_failure([files]):
        yield from _merge(files, table, merge)
        done = files.close()
    yield done


def _merge(files: TableFiles, table: Compactable, merge: Merge) -> Iterator[None]:
    open_runs = [_OpenRun(table, run) for run in merge.runs]
    until = time.monotonic() + _STEP_S
    while open_runs:
        for open_run in open_runs:
            open_run.read_on()
            if time.monotonic() > until:
                yield None
                until = time.monotonic() + _STEP_S
        open_runs = [open_run for open_run in open_runs if open_run.rows.num_rows]
        if open_runs:
            bound = min(open_run.last() for open_run in open_runs)
            files.write(in_order(table.name, pa.concat_tables([open_run.take(bound) for open_run in open_runs])))


class _OpenRun:
    """A run being read: the part of it that is in memory, from the first row not taken yet."""

    def __init__(self, table: Compactable, run: Run) -> None:
        self._batches = (batch for file in run.files for batch in _batches(table, file))
        self._by = SPECS[table.name].sorted_by
        self.rows = SPECS[table.name].schema.empty_table()

    def read_on(self) -> None:
        """Have rows in memory, as long as the run has any."""
        while not self.rows.num_rows and (batch := next(self._batches, None)) is not None:
            self.rows = batch

    def last(self) -> tuple[Any, ...]:
        return self._key(self.rows.num_rows - 1)

    def take(self, bound: tuple[Any, ...]) -> pa.Table:
        """The rows in memory up to a key, that one included."""
        count = bisect_right(range(self.rows.num_rows), bound, key=self._key)
        taken, self.rows = self.rows.slice(0, count), self.rows.slice(count)
        return taken

    def _key(self, row: int) -> tuple[Any, ...]:
        return tuple(self.rows[name][row].as_py() for name in self._by)


def _batches(table: Compactable, file: LiveFile) -> Iterator[pa.Table]:
    """The rows of one file, with the table's whole schema, some at a time: fewer where they are large."""
    schema = SPECS[table.name].schema
    with (
        reading(table.delta, [file.path]),
        opened(table.uri, table.storage_options, unquote(file.path)) as source,
        pq.ParquetFile(source, pre_buffer=False) as parquet,
    ):
        groups = [parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups)]
        total = max(1, sum(group.num_rows for group in groups))
        row_bytes = sum(group.total_byte_size for group in groups) / total
        size = max(64, min(_BATCH_ROWS, int(_STEP_BYTES / max(1.0, row_bytes))))
        for batch in parquet.iter_batches(batch_size=size):
            rows = pa.Table.from_batches([batch])
            for column in PARTITION_COLUMNS.get(table.name, []):
                value = pa.scalar(_value(schema.field(column).type, file.partition[column]), schema.field(column).type)
                rows = rows.append_column(schema.field(column), pa.repeat(value, rows.num_rows))
            yield rows.select(schema.names).cast(schema)


def _value(kind: pa.DataType, text: str | None) -> Any:
    return date.fromisoformat(text) if text is not None and pa.types.is_date(kind) else text
