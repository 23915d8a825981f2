"""Row groups of a table's files: what their statistics say, and some columns of some of them.

A query that needs few rows out of many files takes the groups that can hold them by their statistics, reads the columns
that it decides by, and the others only of the groups that hold what it wants. Reading a group here costs a third of
what an engine takes for it, which counts where a page is a few rows of each of twenty files.
Footers of the last files stay in memory: files of a table never change.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import accumulate
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..declared import SPECS
from ..views.table import TableView
from .damage import reading
from .files import opened
from .group_index import GroupIndex, groups_with, read_index
from .store import is_store

_MOST_HELD: Final = 4_096
"""Groups whose footers are kept: about 20 KiB each."""
_MOST_OPEN: Final = 128
_READERS: Final = min(8, os.cpu_count() or 1)
_READERS_OF_STORE: Final = 8

Bounds = tuple[Any, Any]
Done = TypeVar("Done")


class Group(NamedTuple):
    """One row group.

    Attributes:
        path: its file, relative to the table's folder and in URL form.
        number: its place in the file.
        bounds: least and greatest value by column; columns without statistics are not in it.
    """

    path: str
    number: int
    rows: int
    bounds: Mapping[str, Bounds]

    def spans(self, column: str, least: Any, greatest: Any) -> bool:
        """Whether values of a column can lie in a range."""
        bounds = self.bounds.get(column)
        return bounds is None or (bounds[0] <= greatest and bounds[1] >= least)


class _Footer(NamedTuple):
    metadata: pq.FileMetaData
    groups: tuple[Group, ...]
    named: GroupIndex


_Named = tuple[str, tuple[str, ...]]
"""A file, and the columns whose statistics are wanted of it."""


class _Footers:
    """Footers of the files that were read last."""

    def __init__(self) -> None:
        self._held: OrderedDict[_Named, _Footer] = OrderedDict()
        self._groups = 0
        self._lock = Lock()

    def get(self, name: _Named, make: Callable[[], _Footer]) -> _Footer:
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        made = make()
        with self._lock:
            if name not in self._held:
                self._held[name] = made
                self._groups += len(made.groups)
            while self._groups > _MOST_HELD and len(self._held) > 1:
                self._groups -= len(self._held.popitem(last=False)[1].groups)
        return made


_footers = _Footers()


@lru_cache(maxsize=2)
def _pool(_process: int, most: int) -> ThreadPoolExecutor:
    """The threads that read side by side, in this process: to start them takes longer than to read a group."""
    return ThreadPoolExecutor(most, thread_name_prefix="metajournal-groups")


class Groups:
    """Reads row groups of one table.

    Args:
        table: a version of it; which of its files are read is the caller's.
        bounded: columns whose statistics are wanted.
    """

    def __init__(self, table: TableView, bounded: Sequence[str]) -> None:
        self._table = table
        self._bounded = tuple(bounded)
        self._schema = SPECS[table.name].schema
        self._files: dict[str, pq.ParquetFile] = {}

    def of(self, paths: Iterable[str]) -> list[Group]:
        """The row groups of files, file by file."""
        return [group for footer in self._side_by_side(self._footer, list(paths)) for group in footer.groups]

    def read(self, groups: Sequence[Group], columns: Sequence[str]) -> list[pa.Table]:
        """Columns of groups: a table for each, in their order."""
        tables: dict[tuple[str, int], pa.Table] = {}
        for part in self._side_by_side(lambda part: self._tables(part, columns), _by_file(groups)):
            tables |= part
        return [tables[group.path, group.number] for group in groups]

    def possible(self, groups: Sequence[Group], column: str, texts: Collection[str]) -> list[bool | None]:
        """Whether each group can hold a row with one of some values; None where its file has no index of them."""
        numbers_by_path = {
            path: groups_with(self._footer(path).named, column, texts) for path in {group.path for group in groups}
        }
        numbers = [numbers_by_path[group.path] for group in groups]
        return [None if some is None else group.number in some for group, some in zip(groups, numbers, strict=True)]

    def holding(self, groups: Sequence[Group], named: Mapping[str, str]) -> list[bool]:
        """Whether each group has a row with these values; a column is read where those before it leave a row."""
        matching: set[tuple[str, int]] = set()
        for part in self._side_by_side(lambda part: self._groups_holding(part, named), _by_file(groups)):
            matching |= part
        return [(group.path, group.number) in matching for group in groups]

    def _groups_holding(self, part: Sequence[Group], named: Mapping[str, str]) -> set[tuple[str, int]]:
        masks: dict[int, Any] = {}
        for column, value in named.items():
            equal = pc.fill_null(pc.equal(self._rows(part, [column])[column], value), False)
            if masks:
                equal = pc.and_(
                    equal, pa.chunked_array([chunk for group in part for chunk in masks[group.number].chunks])
                )
            rows = pc.indices_nonzero(equal).to_pylist()
            begins = accumulate((group.rows for group in part), initial=0)
            masks = {
                group.number: equal.slice(begin, group.rows)
                for group, begin in zip(part, begins, strict=False)
                if bisect_left(rows, begin) < bisect_left(rows, begin + group.rows)
            }
            part = [group for group in part if group.number in masks]
            if not part:
                break
        return {(group.path, group.number) for group in part}

    def _tables(self, part: Sequence[Group], columns: Sequence[str]) -> dict[tuple[str, int], pa.Table]:
        rows = self._rows(part, columns)
        return {(group.path, group.number): cut for group, cut in zip(part, _cut(rows, part), strict=True)}

    def _rows(self, part: Sequence[Group], columns: Sequence[str]) -> pa.Table:
        """Columns of groups of one file; those of one value only are known without reading."""
        known = {name for name in columns if self._is_known(name, part)}
        read = [name for name in columns if name not in known]
        made = {name: pa.chunked_array([self._repeated(name, group) for group in part]) for name in known}
        if read:
            with reading(self._table, [part[0].path]):
                file = self._file(part[0].path)
                rows = file.read_row_groups([group.number for group in part], columns=read, use_threads=False)
            made |= {name: rows[name] for name in read}
        schema = pa.schema([self._schema.field(name) for name in columns])
        return pa.table([made[name] for name in columns], list(columns)).cast(schema)

    def _file(self, path: str) -> pq.ParquetFile:
        """An open file; some stay open for the next columns, as long as this reader is there."""
        file = self._files.get(path)
        if file is None:
            file = pq.ParquetFile(self._opened(path), metadata=self._footer(path).metadata, pre_buffer=False)
            if len(self._files) < _MOST_OPEN:
                self._files[path] = file
        return file

    def _is_known(self, name: str, part: Sequence[Group]) -> bool:
        """Whether each of the groups has one value in a column: bounds that were cut are never the same."""
        if self._schema.field(name).nullable:
            return False
        bounds = [group.bounds.get(name) for group in part]
        return all(span is not None and span[0] == span[1] for span in bounds)

    def _repeated(self, name: str, group: Group) -> pa.Array:
        return pa.repeat(pa.scalar(group.bounds[name][0], self._schema.field(name).type), group.rows)

    def _footer(self, path: str) -> _Footer:
        name = f"{self._table.uri}/{path}", self._bounded
        return _footers.get(name, lambda: self._read_footer(path))

    def _read_footer(self, path: str) -> _Footer:
        with reading(self._table, [path]), self._opened(path) as source:
            metadata = pq.read_metadata(source)
        places = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
        wanted = {name: places[name] for name in self._bounded}
        parts = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        groups = [Group(path, number, part.num_rows, _bounds(part, wanted)) for number, part in enumerate(parts)]
        return _Footer(metadata, tuple(groups), read_index(metadata.metadata))

    def _opened(self, path: str) -> Any:
        return opened(self._table.uri, self._table.storage_options, unquote(path))

    def _side_by_side(self, work: Callable[[Any], Done], on: Sequence[Any]) -> list[Done]:
        most = _READERS_OF_STORE if is_store(self._table.uri) else _READERS
        if len(on) < 2 or most < 2:
            return list(map(work, on))
        return list(_pool(os.getpid(), most).map(work, on))


def _by_file(groups: Iterable[Group]) -> list[list[Group]]:
    """Groups by file, each once."""
    files: dict[str, dict[int, Group]] = {}
    for group in groups:
        files.setdefault(group.path, {})[group.number] = group
    return [list(part.values()) for part in files.values()]


def _cut(rows: Any, part: Sequence[Group]) -> Iterable[Any]:
    """Rows of groups that stand behind each other, group by group."""
    start = 0
    for group in part:
        yield rows.slice(start, group.rows)
        start += group.rows


def _bounds(part: Any, wanted: Mapping[str, int]) -> dict[str, Bounds]:
    bounds = {}
    for name, place in wanted.items():
        statistics = part.column(place).statistics
        if statistics is not None and statistics.has_min_max:
            bounds[name] = statistics.min, statistics.max
    return bounds
