"""The queries over archived files: by time or by work_id, of one `where` and `what` or of all, and the newest of one.

A file is found by the row of its first bucket within the asked range, so it comes once however many days it spans. What
a row says counts as long as no later row of the same file and bucket is seen; only rows marked `supersedes` can be
such, so these few are all that is looked through. Pages come in the order of start, where, what and id. A cursor names
the last file given and the moment that the first page spoke of: all pages speak of that one moment, so none of them
skips or repeats a file, whatever is recorded meanwhile.

What a request must look like stands in `FilesAsked`. Source: docs on the files domain, "Queries".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from ..rules.files_rows import FileRecordRow
from ..schemas.errors import FilesQueryError, UnavailableError
from ..schemas.events.files import DAY_MS
from ..schemas.times import time_ms
from ..schemas.topics import TopicNames
from . import scan
from .cuts import At, Bounds, Cuts
from .file_records import COLUMNS, row_from_dict
from .tables import Lake

MAX_PAGE: Final = 10_000
TABLE: Final = "file_records"
_SPARE: Final = 16
"""Rows read beyond a page: as many may be superseded before another read is due."""
_NO_FILE: Final = (-(1 << 63), "", "", "")
_DIGEST_BYTES: Final = 8

Key = tuple[int, str, str, str]
"""Place in the order of pages: start in milliseconds, where, what, id."""


@dataclass(frozen=True, slots=True)
class FilesAsked:
    """One of the four queries; made by `of`.

    Attributes:
        where: of one server, or None.
        what: of one program, or None.
        start: milliseconds since the epoch, with `end`; a file that ends at it is found.
        end: milliseconds since the epoch; a file that starts at it is found.
        work_id: instead of times.
    """

    where: str | None
    what: str | None
    start: int | None
    end: int | None
    work_id: str | None

    @classmethod
    def of(
        cls, *, where: str | None = None, what: str | None = None, start: Any = None, end: Any = None,
        work_id: str | None = None,
    ) -> FilesAsked:  # fmt: skip
        """A query from what somebody asks.

        Args:
            start, end: as `schemas.times.time_ms` takes them.
        Raises:
            FilesQueryError: with a code for each way in which it cannot be: `no-arguments`, `work-id-with-times`,
                `one-time-only`, `unreadable-time`, `start-after-end`, `bad-name`.
        """
        for name, value in (("where", where), ("what", what), ("work_id", work_id)):
            if value is not None and (not isinstance(value, str) or not value):
                raise FilesQueryError(f"{name} must be text, not {value!r:.80}.", code="bad-name")
        if work_id is None and start is None and end is None:
            raise FilesQueryError("Give either a work_id, or both start and end.", code="no-arguments")
        if work_id is not None and (start is not None or end is not None):
            raise FilesQueryError("Give a work_id or times, not both.", code="work-id-with-times")
        if work_id is not None:
            return cls(where, what, None, None, work_id)
        if start is None or end is None:
            missing = "start" if start is None else "end"
            raise FilesQueryError(f"Times need both start and end; {missing} is missing.", code="one-time-only")
        first, last = _time("start", start), _time("end", end)
        if first > last:
            raise FilesQueryError(f"start ({first}) is after end ({last}).", code="start-after-end")
        return cls(where, what, first, last, None)


def _time(name: str, value: Any) -> int:
    try:
        return time_ms(value)
    except ValueError as error:
        raise FilesQueryError(
            f"{name} {error}.",
            code="unreadable-time",
            hint="Write 2026-01-31T12:00:00Z, seconds, or milliseconds since 1970.",
        ) from None


@dataclass(frozen=True, slots=True)
class FilesPage:
    """Some files, in order.

    Attributes:
        files: the rows of the files; each file once.
        cursor: asks for the next page; None after the last one.
        held_to: the journal topic's partitions are spoken of up to (not including) these positions.
        final: no event still to come can change this answer.
    """

    files: tuple[FileRecordRow, ...]
    cursor: str | None
    held_to: Mapping[tuple[str, int], int]
    final: bool


class FileQueries:
    """Reads files from the lake.

    Args:
        lake: where the tables are.
        names: topic names.
        partitions: number of partitions per journal topic.
    """

    def __init__(self, lake: Lake, names: TopicNames, partitions: Mapping[str, int] | int) -> None:
        self._lake = lake
        self._names = names
        self._cuts = Cuts(lake, names, partitions)

    def page(
        self, tenant: str, asked: FilesAsked, *, limit: int = 100, cursor: str | None = None, at: At | None = None
    ) -> FilesPage:
        """A page of a query's files.

        Args:
            limit: most files, 1 to 10,000.
            cursor: of the page before, for the same query and tenant.
            at: as the journal told it then (see `cuts.At`); None: now, or what the cursor's first page spoke of.
        Raises:
            FilesQueryError: `unreadable-cursor`, `bad-limit`.
            NotFinalError: the lake has not reached that point.
            UnavailableError: there is no lake.
        """
        if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
            raise FilesQueryError(f"limit must be 1 to {MAX_PAGE:,}, not {limit!r:.80}.", code="bad-limit")
        identity = _identity(tenant, asked, at)
        opened = None if cursor is None else _opened(cursor, identity, self._names.journal("files"))
        self._refresh()
        if opened is None:
            after, bounds = None, self._cuts.bounds("files", at)
        else:
            after, bounds = opened
            self._cuts.check(bounds)
        found = _Search(self._lake.tables[TABLE].delta, tenant, asked, bounds).first(limit + 1, after)
        more = len(found) > limit
        files = tuple(found[:limit])
        following = _cursor(identity, _key(files[-1]), bounds) if more else None
        return FilesPage(files, following, bounds.held_to, bounds.final)

    def latest(self, tenant: str, what: str, where: str, *, at: At | None = None) -> FilesPage:
        """The newest file of one program on one server: by start, then by creation time, then by id.

        A file without a creation time is older than one with any.

        Returns:
            A page with one file, or with none.
        Raises:
            FilesQueryError: `no-arguments`, `bad-name`. Others as `page`.
        """
        if what is None or where is None:
            raise FilesQueryError("latest needs both what and where.", code="no-arguments")
        asked = FilesAsked.of(where=where, what=what, start=_NO_FILE[0], end=-1 - _NO_FILE[0])
        self._refresh()
        bounds = self._cuts.bounds("files", at)
        found = _Search(self._lake.tables[TABLE].delta, tenant, asked, bounds).latest()
        return FilesPage(tuple(found), None, bounds.held_to, bounds.final)

    def _refresh(self) -> None:
        try:
            self._lake.refresh()
        except TableNotFoundError as error:
            raise UnavailableError(
                f"There is no lake at {self._lake.path}.",
                code="no-lake",
                hint="Start the stream (`metajournal up`, or `metajournal stream`), or point [lake] path at it.",
                path=self._lake.path,
            ) from error


def _key(row: FileRecordRow) -> Key:
    return row.start_ms, row.file_where, row.file_what, row.file_id


class _Search:
    """One query over one version of the table, as some bounds see it."""

    def __init__(self, table: DeltaTable, tenant: str, asked: FilesAsked, bounds: Bounds) -> None:
        self._table = table
        self._asked = asked
        self._seen = bounds.sql()
        self._values: dict[str, Any] = {"tenant": tenant}
        self._names = ["tenant = $tenant"]
        for column, value in (("file_where", asked.where), ("file_what", asked.what)):
            if value is not None:
                self._values[column] = value
                self._names.append(f"{column} = ${column}")
        self._files = _Files(table, tenant, asked.what)

    def first(self, count: int, after: Key | None) -> list[FileRecordRow]:
        """The first files behind a place, in order."""
        found: list[FileRecordRow] = []
        while len(found) < count:
            wanted = count - len(found) + _SPARE
            rows = list(self._rows(after, wanted))
            found += self._standing(rows)
            if len(rows) < wanted:
                break
            after = _key(rows[-1])
        return found[:count]

    def latest(self) -> list[FileRecordRow]:
        """The newest file, or none."""
        order = "start_ms desc, created_ms desc nulls last, file_id desc"
        wanted = _SPARE
        while True:
            rows = self._read(self._matching(None), order, wanted)
            standing = self._standing(rows)
            if standing or len(rows) < wanted:
                return standing[:1]
            wanted *= 8  # all of these are superseded

    def _rows(self, after: Key | None, count: int) -> Iterator[FileRecordRow]:
        """Rows behind a place, superseded ones too: all of one key together, or the next read would lose some."""
        yield from self._read(self._matching(after), "start_ms, file_where, file_what, file_id", count)

    def _matching(self, after: Key | None) -> str:
        """The condition of a row that matches the query, if it stands."""
        asked = self._asked
        parts = [*self._names, "not deleted", self._seen]
        if asked.work_id is not None:
            self._values["work_id"] = asked.work_id
            parts += ["work_id = $work_id", "bucket = first_bucket"]
        elif asked.start is not None and asked.end is not None:
            first = asked.start // DAY_MS
            least = first if after is None else max(first, after[0] // DAY_MS)
            parts += [
                f"bucket between {least} and {asked.end // DAY_MS}",
                f"bucket = greatest(first_bucket, {first})",
                f"start_ms <= {asked.end}",
                f"coalesce(end_ms, start_ms) >= {asked.start}",
            ]
        if after is not None:
            self._values |= dict(zip(("at_where", "at_what", "at_id"), after[1:], strict=True))
            parts += [
                f"start_ms >= {after[0]}",
                f"(start_ms > {after[0]} or (file_where, file_what, file_id) > ($at_where, $at_what, $at_id))",
            ]
        return " and ".join(parts)

    def _read(self, where: str, order: str, count: int) -> list[FileRecordRow]:
        paths = self._files.within(self._asked)
        if not paths:
            return []
        with scan.cursor() as cursor:
            rows = scan.source(cursor, self._table, paths)
            statement = f"select {COLUMNS} from {rows} where {where} order by {order}, logical_timestamp desc limit {count}"
            found = cursor.execute(statement, self._used(statement)).to_arrow_table()
        return [row_from_dict(row) for row in found.to_pylist()]

    def _used(self, statement: str) -> dict[str, Any]:
        return {name: value for name, value in self._values.items() if f"${name}" in statement}

    def _standing(self, rows: Sequence[FileRecordRow]) -> list[FileRecordRow]:
        """Those of some rows that no later one of the same file and bucket replaces."""
        if not rows:
            return []
        newest = self._later({row.urn for row in rows}, {row.bucket for row in rows})
        return [
            row
            for row in rows
            if newest.get((row.urn, row.bucket), (-1, -1)) <= (row.logical_timestamp, row.seq)
        ]

    def _later(self, urns: set[str], buckets: set[int]) -> dict[tuple[str, int], tuple[int, int]]:
        """Place in the log of the newest row that supersedes another one, by file and bucket."""
        least, most = min(buckets), max(buckets)
        paths = self._files.between(least, most)
        with scan.cursor() as cursor:
            cursor.register("asked_files", pa.table({"urn": sorted(urns)}))
            rows = scan.source(cursor, self._table, paths)
            statement = (
                f"select urn, bucket, max((logical_timestamp, seq)) as place from {rows} semi join asked_files using (urn)"
                f" where supersedes and {' and '.join(self._names)} and bucket between {least} and {most}"
                f" and {self._seen} group by all"
            )
            found = cursor.execute(statement, self._used(statement)).fetchall()
        return {(urn, bucket): tuple(place) for urn, bucket, place in found}


class _Files:
    """The files of a table that can hold rows of a tenant and what, by the statistics in its log."""

    def __init__(self, table: DeltaTable, tenant: str, what: str | None) -> None:
        files = pa.table(table.get_add_actions(flatten=True))
        files = _spanning(files, "tenant", tenant, tenant)
        self._found = files if what is None else _spanning(files, "file_what", what, what)

    def within(self, asked: FilesAsked) -> list[str]:
        if asked.start is None or asked.end is None:
            return self._paths(self._found)
        return self.between(asked.start // DAY_MS, asked.end // DAY_MS)

    def between(self, least: int, most: int) -> list[str]:
        return self._paths(_spanning(self._found, "bucket", least, most))

    @staticmethod
    def _paths(files: pa.Table) -> list[str]:
        paths: list[str] = files["path"].to_pylist()
        return paths


def _spanning(files: pa.Table, column: str, least: Any, most: Any) -> pa.Table:
    """The files whose values of a column can lie in a range; those that do not say so can."""
    names = files.column_names
    for name, holds, value in ((f"min.{column}", pc.less_equal, most), (f"max.{column}", pc.greater_equal, least)):
        if name in names and files.num_rows:
            files = files.filter(pc.fill_null(holds(files[name], pa.scalar(value)), True))
    return files


# Cursors: JSON behind a digest, as base64 of the alphabet that needs no quoting anywhere.


def _identity(tenant: str, asked: FilesAsked, at: At | None) -> str:
    """What a cursor belongs to."""
    point = sorted((*key, value) for key, value in at.items()) if isinstance(at, Mapping) else str(at)
    text = json.dumps([tenant, asdict(asked), point], sort_keys=True)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def _cursor(identity: str, after: Key, bounds: Bounds) -> str:
    body = json.dumps([1, identity, list(after), bounds.to_json(), bounds.final], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_check(body) + body).rstrip(b"=").decode()


def _opened(cursor: str, identity: str, topic: str) -> tuple[Key, Bounds]:
    """What a cursor says. Raises: FilesQueryError."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        body = raw[_DIGEST_BYTES:]
        if raw[:_DIGEST_BYTES] != _check(body):
            raise ValueError("another digest")
        version, belongs_to, (start, where, what, file_id), bounds, final = json.loads(body)
        if version != 1 or type(start) is not int or not all(type(one) is str for one in (where, what, file_id)):
            raise ValueError("another form")
        opened = (start, where, what, file_id), Bounds.from_json(topic, bounds, final is True)
    except (ValueError, TypeError, RecursionError):
        raise FilesQueryError(
            "The cursor cannot be read.",
            code="unreadable-cursor",
            hint="Give the cursor of the page before as it was, or none for the first page.",
        ) from None
    if belongs_to != identity:
        raise FilesQueryError(
            "The cursor belongs to another query.",
            code="unreadable-cursor",
            hint="Ask with the same arguments as for the page before, or without a cursor.",
        )
    return opened


def _check(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST_BYTES, person=b"mj-files").digest()
