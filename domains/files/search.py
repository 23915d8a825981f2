"""How the files of a query are found: row groups in the order of time, until no unread one can hold an earlier file.

A file is found by the row of its first bucket within the asked range, so it comes once however many days it spans. What
a row says counts as long as no later row of the same file and bucket is seen; only rows marked `supersedes` can be
such, so these few are all that is looked through. The columns that decide are read of all groups that can hold a page's
files, the large ones only of those that do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, compress
from operator import attrgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...lake.cuts import Bounds
from ...lake.storage.groups import Group, Groups
from ...lake.views.table import TableView
from .events import DAY_MS
from .order import BY_START, NEWEST_FIRST, Order, PageKey, behind, first_of, tuples_of
from .questions import FilesQuestion
from .rows import FileRecordRow
from .tables import READ, row_of_read

_SPARE: Final = 16
"""Rows read beyond a page: as many may be superseded before another read is due."""
_MOST_AT_ONCE: Final = 512
"""Groups whose small columns are read at once, and kept: some 100 MB."""
_NOWHERE: Final = (-1, -1)
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1

_BOUNDED: Final = ("tenant", "file_where", "file_what", "bucket", "start_ms", "deleted", "supersedes", "version")


class _Place(NamedTuple):
    """A row that matches, before its large columns are read: its place in pages, in the log, and in what is read."""

    start_ms: int
    file_where: str
    file_what: str
    file_id: str
    bucket: int
    logical_timestamp: int
    seq: int
    at: int

    @property
    def key(self) -> PageKey:
        return PageKey(self.start_ms, self.file_where, self.file_what, self.file_id)


_PLACED: Final = tuple(name for name in _Place._fields if name != "at")
_OF_FILE: Final = attrgetter("file_where", "file_what", "file_id", "bucket")
"""The key of a row."""
_REPLACING: Final = ("supersedes", "bucket", "file_where", "file_what")
_REPLACED_BY: Final = ("file_where", "file_what", "file_id", "bucket", "logical_timestamp", "seq")


class Search:
    """One query over one version of the table, as some bounds see it.

    Args:
        table: `file_records`.
        tenant: whose files.
        asked: what for; without times and work_id all that where and what name.
        bounds: what is seen.
    """

    def __init__(self, table: TableView, tenant: str, asked: FilesQuestion, bounds: Bounds) -> None:
        self._asked = asked
        self._bounds = bounds
        named = {"tenant": tenant, "file_where": asked.where, "file_what": asked.what}
        self._tenant = tenant
        self._named = {column: value for column, value in named.items() if value is not None}
        self._source = Groups(table, _BOUNDED)
        self._paths = _possible_files(table, self._named, asked)
        self._groups = [group for group in self._source.of(self._paths) if self._can_hold_named(group)]
        self._read: dict[int, pa.Table] = {}
        self._laid: list[int] = []
        self._ends: list[int] = [0]
        rare = {"work_id": asked.work_id, "file_where": asked.where, "file_what": asked.what}
        self._rare = {column: value for column, value in rare.items() if value is not None}
        self._columns = [*_PLACED, "journal_partition", "tenant", "first_bucket", "end_ms", "deleted", "supersedes"]
        self._columns += ["system_time"] if bounds.until_ms else []
        self._columns += ["created_ms"] if asked.start is None else []
        self._columns += ["work_id"] if asked.work_id is not None else []

    def first(self, count: int, after: PageKey | None) -> list[_Place]:
        """The places of the first files behind a key, in order."""
        standing: list[_Place] = []
        while len(standing) < count:
            wanted = count - len(standing) + _SPARE
            places = self._places(after, BY_START, wanted)
            standing += self._standing(places)
            if len(places) < wanted:
                break
            after = places[-1].key
        return standing[:count]

    def latest(self) -> list[_Place]:
        """The place of the newest file, or none."""
        wanted = _SPARE
        while True:
            places = self._places(None, NEWEST_FIRST, wanted)
            standing = self._standing(places)
            if standing or len(places) < wanted:
                return standing[:1]
            wanted *= 8  # all of these are superseded

    def rows(self, places: Sequence[_Place]) -> list[FileRecordRow]:
        """The whole rows of places, in their order."""
        wanted: dict[int, list[_Place]] = {}
        for place in places:
            wanted.setdefault(bisect_right(self._ends, place.at) - 1, []).append(place)
        tables = self._source.read([self._groups[self._laid[part]] for part in wanted], READ)
        made = {}
        for (part, part_places), rows in zip(wanted.items(), tables, strict=True):
            numbers = pa.array([place.at - self._ends[part] for place in part_places], pa.int64())
            for place, read in zip(part_places, tuples_of(rows.take(numbers)), strict=True):
                made[place.at] = row_of_read(self._tenant, place.bucket, place.logical_timestamp, place.seq, read)
        return [made[place.at] for place in places]

    def _places(self, after: PageKey | None, order: Order, count: int) -> list[_Place]:
        """The first matching rows behind a key, superseded ones too."""
        up = order[0][1] == "ascending"
        edges = sorted((self._edge(number, up), number) for number in self._possible(after))
        if not up:
            edges.reverse()
        tables: list[pa.Table] = []
        begun, until = 0, self._begin_with(edges, after)
        while True:
            until = min(until, begun + _MOST_AT_ONCE)
            tables += self._matching([number for _, number in edges[begun:until]], after)
            tables = [first_of(tables, order, count)] if tables else []
            begun, rest = until, edges[until:]
            if not rest:
                break
            until = 2 * begun
            if tables and tables[0].num_rows == count:
                last = tables[0]["start_ms"][-1].as_py()
                until = begun + sum(edge <= last if up else edge >= last for edge, _ in rest)
                if until == begun:
                    break
        return [_Place(*row) for row in tuples_of(tables[0].select(_Place._fields))] if tables else []

    def _begin_with(self, edges: Sequence[tuple[int, int]], after: PageKey | None) -> int:
        """How many groups to read at first: about one of each file, and those that begin before the page does."""
        start = self._asked.start if after is None else after.start_ms
        if self._asked.work_id is not None:
            return len(edges)  # they stand all over the table
        before = 0 if start is None else sum(edge <= start for edge, _ in edges)
        return min(len(edges), max(before, len(self._paths)))

    def _edge(self, number: int, up: bool) -> int:
        """The least start of a group, or its greatest."""
        least, greatest = self._groups[number].bounds.get("start_ms", (_LEAST, _GREATEST))
        return int(least if up else greatest)

    def _can_hold_named(self, group: Group) -> bool:
        return all(group.spans(column, value, value) for column, value in self._named.items())

    def _possible(self, after: PageKey | None) -> list[int]:
        """Numbers of the groups that can hold a match behind a key."""
        asked = self._asked
        least = _LEAST if after is None else after.start_ms
        spanning = [number for number, group in enumerate(self._groups) if group.spans("start_ms", least, _GREATEST)]
        if asked.start is None or asked.end is None:
            return spanning
        first, last = max(asked.start, least) // DAY_MS, asked.end // DAY_MS
        return [
            number
            for number in spanning
            if self._groups[number].spans("bucket", first, last)
            and self._groups[number].spans("start_ms", _LEAST, asked.end)
        ]

    def _matching(self, numbers: Sequence[int], after: PageKey | None) -> Iterable[pa.Table]:
        """The rows of some groups that match the query, if they stand, and where they stand in what was read."""
        numbers = self._holding(numbers)
        if not numbers:
            return
        rows, begin = pa.concat_tables(self._small(numbers)), self._ends[-1]
        self._laid += numbers
        self._ends += [begin + end for end in accumulate(self._groups[number].rows for number in numbers)]
        mask = self._matches(rows, after)
        yield rows.filter(mask).append_column("at", pc.add(pc.indices_nonzero(mask), pa.scalar(begin, pa.uint64())))

    def _holding(self, numbers: Sequence[int]) -> Sequence[int]:
        """Those of some groups that hold what is rare: by the index, and by a look at it unless that has told all."""
        work_id, is_told = self._asked.work_id, False
        if work_id is not None:
            numbers, is_told = self._possible_with(numbers, "work_id", [work_id])
        if len(self._rare) > 1 or (work_id is not None and not is_told):
            groups = [self._groups[number] for number in numbers]
            return list(compress(numbers, self._source.holding(groups, self._rare)))
        return numbers

    def _possible_with(self, numbers: Sequence[int], column: str, texts: Collection[str]) -> tuple[Sequence[int], bool]:
        """Those of some groups that can hold one of some values, and whether the index spoke of each of them."""
        possible = self._source.possible([self._groups[number] for number in numbers], column, texts)
        holding = [number for number, can_hold in zip(numbers, possible, strict=True) if can_hold is not False]
        return holding, None not in possible

    def _small(self, numbers: Sequence[int]) -> list[pa.Table]:
        """The columns that decide, of some groups; the first ones are kept."""
        missing = [number for number in numbers if number not in self._read]
        tables = self._source.read([self._groups[number] for number in missing], self._columns)
        read = self._read | dict(zip(missing, tables, strict=True))
        if len(read) <= _MOST_AT_ONCE:
            self._read = read
        return [read[number] for number in numbers]

    def _seen(self, rows: pa.Table) -> pa.Array:
        """Which rows are seen, of what is named."""
        mask = self._bounds.seen(rows)
        for column, value in self._named.items():
            mask = pc.and_(mask, pc.equal(rows[column], value))
        return mask

    def _matches(self, rows: pa.Table, after: PageKey | None) -> pa.Array:
        """Which rows match the query, if they stand."""
        asked, start = self._asked, rows["start_ms"]
        mask = pc.and_(self._seen(rows), pc.invert(rows["deleted"]))
        if asked.work_id is not None:
            mask = pc.and_(mask, pc.fill_null(pc.equal(rows["work_id"], asked.work_id), False))
        first = rows["first_bucket"]
        if asked.start is not None and asked.end is not None:
            first = pc.max_element_wise(first, asked.start // DAY_MS)
            mask = pc.and_(mask, pc.less_equal(start, asked.end))
            mask = pc.and_(mask, pc.greater_equal(pc.coalesce(rows["end_ms"], start), asked.start))
        mask = pc.and_(mask, pc.equal(rows["bucket"], first))
        return mask if after is None else pc.and_(mask, behind(rows, after))

    def _standing(self, places: Sequence[_Place]) -> list[_Place]:
        """Those of some places that no later row of the same file and bucket replaces."""
        if not places:
            return []
        newest = self._newest({*map(_OF_FILE, places)})
        return [
            place for place in places if newest.get(_OF_FILE(place), _NOWHERE) <= (place.logical_timestamp, place.seq)
        ]

    def _newest(self, wanted: set[tuple[str, str, str, int]]) -> dict[tuple[Any, ...], tuple[int, int]]:
        """The newest place in the log of files in buckets, of those that were recorded more than once."""
        ids = pa.array({file_id for *_, file_id, _ in wanted}, pa.string())
        newest: dict[tuple[Any, ...], tuple[int, int]] = {}
        for rows in self._small(self._replacing(wanted)):
            mask = pc.and_(pc.and_(rows["supersedes"], pc.is_in(rows["file_id"], ids)), self._seen(rows))
            for *key, logical_timestamp, seq in tuples_of(rows.select(_REPLACED_BY).filter(mask)):
                place = logical_timestamp, seq
                newest[tuple(key)] = max(place, newest.get(tuple(key), _NOWHERE))
        return newest

    def _replacing(self, wanted: set[tuple[str, str, str, int]]) -> list[int]:
        """Numbers of the groups that can hold later rows of files in buckets.

        The index says it of the files that came again; where a file has none, four small columns do.
        """
        buckets = {bucket for *_, bucket in wanted}
        keys = pa.array({f"{where}/{what}/{bucket}" for where, what, _, bucket in wanted}, pa.string())
        numbers: Sequence[int] = [
            number
            for number, group in enumerate(self._groups)
            if group.spans("supersedes", True, True) and group.spans("bucket", min(buckets), max(buckets))
        ]
        numbers, _ = self._possible_with(numbers, "file_id", {file_id for *_, file_id, _ in wanted})
        replacing = [number for number in numbers if number in self._read]
        numbers = [number for number in numbers if number not in self._read]
        tables = self._source.read([self._groups[number] for number in numbers], _REPLACING)
        for number, rows in zip(numbers, tables, strict=True):
            days = rows["bucket"].cast(pa.string())
            places = pc.binary_join_element_wise(rows["file_where"], rows["file_what"], days, "/")
            if pc.any(pc.and_(rows["supersedes"], pc.is_in(places, keys))).as_py():
                replacing.append(number)
        return replacing


def _possible_files(table: TableView, named: Mapping[str, str], asked: FilesQuestion) -> list[str]:
    """The files that can hold what is asked, by the statistics in the table's log."""
    files = table.files
    for column, value in named.items():
        files = _spanning(files, column, value, value)
    if asked.start is not None and asked.end is not None:
        files = _spanning(files, "bucket", asked.start // DAY_MS, asked.end // DAY_MS)
    paths: list[str] = files["path"].to_pylist()
    return paths


def _spanning(files: pa.Table, column: str, least: Any, most: Any) -> pa.Table:
    """The files whose values of a column can lie in a range; those that do not say so can."""
    names = files.column_names
    for name, holds, value in ((f"min.{column}", pc.less_equal, most), (f"max.{column}", pc.greater_equal, least)):
        if name in names and files.num_rows:
            files = files.filter(pc.fill_null(holds(files[name], pa.scalar(value)), True))
    return files
