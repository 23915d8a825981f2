"""Parquet files of a table, written outside of delta-rs: by the tasks of the wide way, by compaction, by rebuilds.

Job: rows in, files with their statistics out, ready to become AddActions of one commit. Whether and when they are
committed is the table's matter (`Table.add_files`); a file that never is committed is an orphan for the vacuum.
Invariant: the statistics bound every value of the columns that look-ups name, so pruning never hides a row.
Source: Delta transaction log protocol, "Per-file Statistics" and "Add File and Remove File".
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..columns import PARTITION_COLUMNS, ROW_GROUP_ROWS, TableSpec
from ..declared import SPECS
from .group_index import IndexWriter
from .store import is_store, store_files

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

_PAGE_ROWS = 4_096  # readers pass over whole pages: one row of a group costs 40 % less than with one page a group
_BUFFERED_ROWS = 2 * ROW_GROUP_ROWS
_BUFFERED_BYTES = 64 * 1024 * 1024
_FEWEST_ROWS = 2_048  # of a piece that is written as it is; smaller ones are sooner put together first
_STATISTIC_CHARACTERS = 64
_HIGHEST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One written file, not yet part of its table.

    Attributes:
        path: relative to the table's root, as the log names it.
        partition: values of the partition columns, as text.
        statistics: JSON of the Delta protocol (numRecords, minValues, maxValues, nullCount).
        modified_ms: milliseconds UTC.
    """

    path: str
    size_bytes: int
    rows: int
    partition: Mapping[str, str | None]
    statistics: str
    modified_ms: int

    def add_action(self, *, data_change: bool = True) -> AddAction:
        """The action that makes it part of the table; `data_change` is false where rows only moved."""
        from deltalake.transaction import AddAction  # who only reads does not load delta-rs

        return AddAction(
            path=self.path,
            size=self.size_bytes,
            partition_values=dict(self.partition),
            modification_time=self.modified_ms,
            data_change=data_change,
            stats=self.statistics,
        )


class TableFiles:
    """Writes rows of one table into new files, one for each value of its partition column.

    Args:
        name: the table's name, which fixes its schema.
        uri: the table's root.
        storage_options: options of an object store.
        most_rows: a file is closed when it holds so many rows, and a new one begun.
        run: the rows come in the table's sort order, as one run of this name; without one they come in any order.
    """

    def __init__(
        self,
        name: str,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        most_rows: int | None = None,
        run: str | None = None,
    ) -> None:
        self._name = name
        self._uri = uri.rstrip("/")
        self._options = dict(storage_options or {})
        self._by = PARTITION_COLUMNS.get(name, [])
        self._most_rows = most_rows
        self._run = run
        self._begun = 0
        self._open: dict[Any, _OpenFile] = {}
        self._done: list[DataFile] = []
        self._paths: list[str] = []

    def write(self, rows: pa.Table) -> None:
        """Add rows, of the table's whole schema, in the order in which they shall stand."""
        if not self._by:
            self._write(None, rows)
            return
        (column,) = self._by
        for value in pc.unique(rows[column]).to_pylist():
            part = rows.filter(pc.equal(rows[column], value)) if rows.num_rows else rows
            self._write(value, part.drop_columns([column]))

    def _write(self, value: Any, rows: pa.Table) -> None:
        offset = 0
        while offset < rows.num_rows:
            file = self._open.get(value)
            if file is None:
                file = self._open[value] = self._begin(value)
            room = rows.num_rows - offset if self._most_rows is None else self._most_rows - file.rows
            file.write(rows.slice(offset, room))
            offset += room
            if self._most_rows is not None and file.rows >= self._most_rows:
                self._done.append(file.close())
                del self._open[value]

    def _begin(self, value: Any) -> _OpenFile:
        partition = {column: str(value) for column in self._by}
        folder = "".join(f"{column}={text}/" for column, text in partition.items())
        stem = f"part-{uuid.uuid4()}" if self._run is None else run_file(self._run, self._begun)
        self._begun += 1
        path = f"{folder}{stem}.zstd.parquet"
        self._paths.append(path)
        spec = SPECS[self._name]
        schema = pa.schema([column for column in spec.schema if column.name not in self._by])
        return _OpenFile(self._sink(path), path, schema, partition, spec, IndexWriter(self._name))

    def _sink(self, path: str) -> Any:
        if is_store(self._uri):
            return store_files(self._uri, self._options).open_output_stream(path)
        target = Path(self._uri) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        return pa.OSFile(str(target), "wb")

    def close(self) -> list[DataFile]:
        """Finish all files and tell of them, in the order in which they were finished."""
        self._done += [file.close() for file in self._open.values()]
        self._open.clear()
        return self._done

    def discard(self) -> None:
        """Delete all that was written, after a failure: on a full disk each attempt would leave less room."""
        for file in self._open.values():
            file.abandon()
        self._open.clear()
        self._done.clear()
        if not is_store(self._uri):  # there, what is written and not committed is the vacuum's
            for path in self._paths:
                (Path(self._uri) / path).unlink(missing_ok=True)


@dataclass
class _OpenFile:
    sink: Any
    path: str
    schema: pa.Schema
    partition: Mapping[str, str | None]
    spec: TableSpec
    index: IndexWriter
    rows: int = 0
    _buffered: list[pa.Table] = field(default_factory=list)
    _waiting: int = 0
    _waiting_bytes: int = 0
    _least: dict[str, Any] = field(default_factory=dict)
    _greatest: dict[str, Any] = field(default_factory=dict)
    _nulls: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._writer = pq.ParquetWriter(
            self.sink,
            self.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=sorted(self.spec.repeating & set(self.schema.names)),
            write_statistics=True,
            write_page_index=True,
            max_rows_per_page=_PAGE_ROWS,
            coerce_timestamps="us",
        )

    def write(self, rows: pa.Table) -> None:
        self._buffered.append(rows)
        self.rows += rows.num_rows
        self._waiting += rows.num_rows
        self._note(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= _BUFFERED_BYTES:
            self._flush(1)
        elif self._waiting >= _BUFFERED_ROWS and not self.spec.sorts_files:
            self._flush(_BUFFERED_ROWS)

    def _note(self, rows: pa.Table) -> None:
        for name in self.spec.statistics:
            if name not in rows.schema.names:
                continue
            bounds = pc.min_max(rows[name]).as_py()
            for bounds_by_name, value, choose in (
                (self._least, bounds["min"], min),
                (self._greatest, bounds["max"], max),
            ):
                if value is not None:
                    bounds_by_name[name] = choose(bounds_by_name.get(name, value), value)
            self._nulls[name] = self._nulls.get(name, 0) + rows[name].null_count

    def _flush(self, step: int) -> None:
        """Write what is buffered in whole row groups; the rest waits, unless `step` is 1."""
        rows = pa.concat_tables(self._buffered)
        if len(self._buffered) * _FEWEST_ROWS > rows.num_rows:
            rows = rows.combine_chunks()
        if self.spec.sorts_files:
            rows = in_order(self.spec.name, rows)
        whole = rows.num_rows - rows.num_rows % step
        if whole:
            self._writer.write_table(rows.slice(0, whole), row_group_size=self.spec.group_rows)
            for start in range(0, whole, self.spec.group_rows):
                self.index.note(rows.slice(start, min(self.spec.group_rows, whole - start)))
        rest = rows.slice(whole)
        self._buffered, self._waiting = ([rest], rest.num_rows) if rest.num_rows else ([], 0)
        self._waiting_bytes = rest.nbytes

    def close(self) -> DataFile:
        if self._buffered:
            self._flush(1)
        self._writer.add_key_value_metadata(self.index.metadata())
        self._writer.close()
        size_bytes = self.sink.tell()
        self.sink.close()
        now_ms = int(time.time() * 1000)
        return DataFile(self.path, size_bytes, self.rows, self.partition, self._statistics(), now_ms)

    def abandon(self) -> None:
        """Let go of the file without finishing it."""
        self._writer.is_open = False  # or it would write its footer when it is collected
        with suppress(OSError):
            self.sink.close()

    def _statistics(self) -> str:
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {name: _bound(value, "") for name, value in self._least.items()},
                "maxValues": {name: _bound(value, _HIGHEST) for name, value in self._greatest.items()},
                "nullCount": self._nulls,
            },
            ensure_ascii=False,
        )


def in_order(name: str, rows: pa.Table) -> pa.Table:
    """Rows of a table in the order of its runs."""
    rows = rows.combine_chunks()
    varying = [name for name in SPECS[name].sorted_by if not _is_one(rows[name])]
    return rows.take(pc.sort_indices(rows, [(name, "ascending") for name in varying])) if varying else rows


def _is_one(values: pa.ChunkedArray) -> bool:
    """Whether a column has one value."""
    bounds = pc.min_max(values).as_py()
    return bool(bounds["min"] == bounds["max"])


_RUN_FILE = re.compile(r"(?:.*/)?run-([0-9a-f]{32})-([0-9]{6,})\.zstd\.parquet")


def run_file(run: str, number: int) -> str:
    """The name of a run's file, without its ending: it alone says that the rows are sorted."""
    return f"run-{run}-{number:06}"


def run_of(path: str) -> tuple[str, int] | None:
    """The run that a file belongs to and its number there; None for a file whose rows stand in any order."""
    match = _RUN_FILE.fullmatch(path)
    return (match[1], int(match[2])) if match else None


def _bound(value: Any, end: str) -> Any:
    """A bound as the protocol spells it; a long text is cut, and the greatest one then gets the highest character.

    One that has that character there itself stays whole: cut, it would be less than it is.
    """
    if isinstance(value, str):
        is_short = len(value) <= _STATISTIC_CHARACTERS or value[_STATISTIC_CHARACTERS] == _HIGHEST
        return value if is_short else value[:_STATISTIC_CHARACTERS] + end
    if isinstance(value, int):
        return value
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def files_of(batches: Iterable[pa.Table], files: TableFiles) -> list[DataFile]:
    """Write tables and tell of the files; of a failure none is left."""
    try:
        for rows in batches:
            files.write(rows)
        return files.close()
    except Exception:
        files.discard()
        raise


def opened(uri: str, storage_options: Mapping[str, str], path: str) -> Any:
    """A file of a table, to read in it and to be closed by the caller (a context manager).

    Args:
        uri: the table's root.
        path: relative to it.
    """
    if not is_store(uri):
        return pa.OSFile(f"{uri.rstrip('/')}/{path}", "rb")
    return store_files(uri, storage_options).open_input_file(path)
