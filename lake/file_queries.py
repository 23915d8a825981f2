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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

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
from .file_records import READ, row_of_read
from .tables import Lake

MAX_PAGE: Final = 10_000
TABLE: Final = "file_records"
_SPARE: Final = 16
"""Rows read beyond a page: as many may be superseded before another read is due."""
_DIGEST_BYTES: Final = 8
_NOWHERE: Final = (-1, -1)

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
        _check_names(where=where, what=what, work_id=work_id)
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


def _check_names(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and (not isinstance(value, str) or not value):
            raise FilesQueryError(f"{name} must be text, not {value!r:.80}.", code="bad-name")


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
        search = _Search(self._lake.tables[TABLE].delta, tenant, asked, bounds)
        places = search.first(limit + 1, after)
        following = _cursor(identity, places[limit - 1].key, bounds) if len(places) > limit else None
        return FilesPage(tuple(search.rows(places[:limit])), following, bounds.held_to, bounds.final)

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
        _check_names(where=where, what=what)
        asked = FilesAsked(where, what, None, None, None)
        self._refresh()
        bounds = self._cuts.bounds("files", at)
        search = _Search(self._lake.tables[TABLE].delta, tenant, asked, bounds)
        return FilesPage(tuple(search.rows(search.latest())), None, bounds.held_to, bounds.final)

    def _refresh(self) -> None:
        """See what others have written: the journal table first, so that its marks promise no row that is not seen."""
        try:
            self._lake.refresh_pointer()
            self._lake.journal.refresh()
            self._lake.tables[TABLE].refresh()
        except TableNotFoundError as error:
            raise UnavailableError(
                f"There is no lake at {self._lake.path}.",
                code="no-lake",
                hint="Start the stream (`metajournal up`, or `metajournal stream`), or point [lake] path at it.",
                path=self._lake.path,
            ) from error


class _Place(NamedTuple):
    """A row that matches, before its large columns are read: its place in the pages, and in the log."""

    start_ms: int
    file_where: str
    file_what: str
    file_id: str
    bucket: int
    logical_timestamp: int
    seq: int
    journal_partition: int

    @property
    def key(self) -> Key:
        return self[:4]

    @property
    def log(self) -> tuple[int, int, int]:
        """What no other row of the table has."""
        return self[5:]


_PLACE: Final = ", ".join(_Place._fields)


class _Search:
    """One query over one version of the table, as some bounds see it.

    It first finds places by the small columns of all that can match, and then reads the whole of a page's rows: those
    stand close together, as the table is sorted by time.
    """

    def __init__(self, table: DeltaTable, tenant: str, asked: FilesAsked, bounds: Bounds) -> None:
        self._table = table
        self._asked = asked
        self._tenant = tenant
        self._seen = bounds.sql()
        self._values: dict[str, Any] = {"tenant": tenant, "work_id": asked.work_id}
        self._names = ["tenant = $tenant"]
        for column, value in (("file_where", asked.where), ("file_what", asked.what)):
            if value is not None:
                self._values[column] = value
                self._names.append(f"{column} = ${column}")
        self._files = _Files(table, tenant, asked.what)
        self._made: dict[tuple[int, int, int], FileRecordRow] = {}

    def first(self, count: int, after: Key | None) -> list[_Place]:
        """The places of the first files behind a key, in order."""
        found: list[_Place] = []
        while len(found) < count:
            wanted = count - len(found) + _SPARE
            places = self._places(after, "start_ms, file_where, file_what, file_id", wanted)
            found += self._standing(places)
            if len(places) < wanted:
                break
            after = places[-1].key
        return found[:count]

    def latest(self) -> list[_Place]:
        """The place of the newest file, or none."""
        wanted = _SPARE
        while True:
            places = self._places(None, "start_ms desc, created_ms desc nulls last, file_id desc", wanted)
            standing = self._standing(places)
            if standing or len(places) < wanted:
                return standing[:1]
            wanted *= 8  # all of these are superseded

    def rows(self, places: Sequence[_Place]) -> list[FileRecordRow]:
        """The whole rows of places, in their order."""
        if places and not self._made:
            self._read(places)
        return [self._made[one.log] for one in places]

    def _read(self, places: Sequence[_Place]) -> None:
        """Read whole rows: the same conditions as before, so that what does not match is passed over unread."""
        first, last = min(one.start_ms for one in places), max(one.start_ms for one in places)
        statement = (
            f"select {_PLACE}, {READ} from {{rows}} where {self._matching(None)}"
            f" and start_ms between {first} and {last}"
        )
        wanted = {one.log for one in places}
        for row in self._run(statement, self._files.within(self._asked)):
            place, read = _Place(*row[: len(_Place._fields)]), row[len(_Place._fields) :]
            if place.log in wanted:
                self._made[place.log] = row_of_read(self._tenant, read)

    def _places(self, after: Key | None, order: str, count: int) -> list[_Place]:
        """The first matching rows behind a key, superseded ones too; of one key the newest first.

        Files of a work_id stand all over the table, so there the whole rows are read at once.
        """
        whole = self._asked.work_id is not None
        statement = (
            f"select {_PLACE}{f', {READ}' if whole else ''} from {{rows}} where {self._matching(after)}"
            f" order by {order}, logical_timestamp desc limit {count}"
        )
        places = []
        for row in self._run(statement, self._files.within(self._asked)):
            places.append(_Place(*row[: len(_Place._fields)]))
            if whole:
                self._made[places[-1].log] = row_of_read(self._tenant, row[len(_Place._fields) :])
        return places

    def _named(self) -> str:
        """The condition that names tenant, where and what."""
        return " and ".join(self._names)

    def _matching(self, after: Key | None) -> str:
        """The condition of a row that matches the query, if it stands."""
        asked = self._asked
        parts = [*self._names, "not deleted", self._seen]
        if asked.work_id is not None:
            parts.append("work_id = $work_id")
        if asked.start is None or asked.end is None:
            parts.append("bucket = first_bucket")
        else:
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

    def _standing(self, places: Sequence[_Place]) -> list[_Place]:
        """Those of some places that no later row of the same file and bucket replaces."""
        if not places:
            return []
        least, most = min(one.bucket for one in places), max(one.bucket for one in places)
        ids = dict.fromkeys(one.file_id for one in places)
        named = {f"id{number}": file_id for number, file_id in enumerate(ids)}
        statement = (
            "select file_where, file_what, file_id, bucket, max((logical_timestamp, seq)) from {rows}"
            f" where supersedes and {self._named()} and bucket between {least} and {most} and {self._seen}"
            f" and file_id in ({', '.join(f'${name}' for name in named)}) group by all"
        )
        found = self._run(statement, self._files.between(least, most), named)
        newest = {tuple(key): place for *key, place in found}
        return [one for one in places if newest.get(one[1:5], _NOWHERE) <= (one.logical_timestamp, one.seq)]

    def _run(self, statement: str, paths: list[str], named: Mapping[str, str] | None = None) -> list[Any]:
        """The rows of a statement over some files; `named` are values of its own."""
        if not paths:
            return []
        used = {name: value for name, value in self._values.items() if f"${name}" in statement}
        used.update(named or {})
        with scan.cursor() as cursor:
            rows = scan.source(cursor, self._table, paths)
            return list(cursor.execute(statement.format(rows=rows), used).fetchall())


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
