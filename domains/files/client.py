"""`journal.files`: archived files, recorded, and found by time, by work_id, or the newest of a program on a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol

from ...lake_client import ConnectedJournal, Point, point
from ...schemas.arguments import renamed
from ...schemas.errors import RenamedError
from ...schemas.limits import MAX_ENTRIES
from .questions import FilesQuestion

if TYPE_CHECKING:
    from ...lake.reading import LakeReader
    from ...producers.receipts import Receipt
    from .events import FileRecord
    from .queries import FileQueries, FilesPage
    from .rows import FileRecordRow

_FILES_A_PAGE: Final = 1000


class FilesClient:
    """Archived files: recording and querying them.

    Args:
        journal: whose files.
    """

    FORMER: ClassVar[Mapping[str, str]] = {
        "record_files": "files.record", "files_page": "files.page", "latest_file": "files.latest",
        "file_queries": "files.queries",
    }  # fmt: skip
    """What the journal itself had under other names."""

    def __init__(self, journal: ConnectedJournal) -> None:
        self._journal = journal

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise RenamedError("journal.files(…)", "journal.files.find(…)")

    def record(
        self,
        files: Iterable[FileRecord | Mapping[str, Any]],
        *,
        progress: Callable[[int], None] | None = None,
        files_an_event: int = MAX_ENTRIES,
        **said: Any,
    ) -> list[Receipt]:
        """Record many archived files: up to 1,000 an event, some events in flight, until all are acknowledged.

            journal.files.record(file_record(url, {"start": ..., "where": ..., ...}, content=path) for path in paths)

        Args:
            files: `file_record(...)`s, or mappings with url, metadata, size and created, of any where and what.
            progress: called with the number of files acknowledged so far.
            files_an_event: maximum number of files per event, 1 to 1,000.
            said: arguments of `emit` that hold for every event: actor, tenant, event_time, cause.
        Returns:
            The receipt of each event.
        Raises:
            InvalidEventError: a file is not valid: lists every fault of it (`files[4711].metadata.start`); files sent
                before remain recorded.
            OutcomeUnknownError: some were not acknowledged in time; send the same files with the same ids again.
        """
        from .recording import record_files

        return record_files(self._journal.emitter, files, progress=progress, files_an_event=files_an_event, **said)

    @renamed(at="as_at")
    def find(
        self, *, where: str | None = None, what: str | None = None, start: Any = None, end: Any = None,
        work_id: str | None = None, as_at: Point | None = None, tenant: str | None = None,
    ) -> Iterator[FileRecordRow]:  # fmt: skip
        """Archived files, ordered by start, where, what and id: all that cover a time range, or all of a work_id. Each
        is returned once.

        Args:
            where, what: of this server or program only.
            start, end: both or none; the files that cover any time between them, both ends included. Milliseconds,
                aware datetimes, ISO 8601, or numbers as text.
            work_id: instead of times.
            as_at: what the journal had recorded by that point (see `show`); None: now.
            tenant: `journal.tenant` of the settings if None.
        Raises:
            FilesQueryError: the query is not valid; its code says why.
            NotFinalError: the lake has not reached that point.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        asked: dict[str, Any] = {"where": where, "what": what, "start": start, "end": end, "work_id": work_id}
        asked |= {"as_at": point(as_at), "tenant": tenant}
        return self._every(self.page(**asked, limit=_FILES_A_PAGE), asked)

    def _every(self, page: FilesPage, asked: Mapping[str, Any]) -> Iterator[FileRecordRow]:
        """The files of a page and of those behind it."""
        yield from page.files
        while page.cursor is not None:
            page = self.page(**asked, limit=_FILES_A_PAGE, cursor=page.cursor)
            yield from page.files

    @renamed(at="as_at")
    def page(
        self, *, where: str | None = None, what: str | None = None, start: Any = None, end: Any = None,
        work_id: str | None = None, limit: int = 100, cursor: str | None = None,
        as_at: Point | None = None, tenant: str | None = None,
    ) -> FilesPage:  # fmt: skip
        """One page of `find`, and a cursor for the next: all pages show the state at the time of the first.

        Args:
            limit: maximum number of files per page, 1 to 10,000.
            cursor: of the previous page, with the same arguments.
        """
        queries = self.queries
        question = FilesQuestion.of(where=where, what=what, start=start, end=end, work_id=work_id)
        return queries.page(self._tenant(tenant), question, limit=limit, cursor=cursor, as_at=point(as_at))

    @renamed(at="as_at")
    def latest(
        self, what: str, where: str, *, as_at: Point | None = None, tenant: str | None = None
    ) -> FileRecordRow | None:
        """The newest file of a program on a server: by start, then creation time, then id; None where there is none."""
        page = self.latest_page(what, where, as_at=as_at, tenant=tenant)
        return page.files[0] if page.files else None

    def latest_page(self, what: str, where: str, *, as_at: Point | None = None, tenant: str | None = None) -> FilesPage:
        """`latest` as a page with one file or none, which says whether it is `.final`."""
        return self.queries.latest(self._tenant(tenant), what, where, as_at=point(as_at))

    @property
    def queries(self) -> FileQueries:
        """The queries over files. Raises: MissingExtraError."""
        return self._journal.opened("files", _opened)

    def _tenant(self, tenant: str | None) -> str:
        return tenant or self._journal.settings.journal.tenant


class WithFiles(ConnectedJournal, Protocol):
    """A journal that has this as an object of its own."""

    @property
    def files(self) -> FilesClient:
        """`Journal.files`."""


CLIENT: Final = FilesClient
"""What `journal.files` is."""


def _opened(lake: LakeReader) -> FileQueries:
    from .queries import FileQueries

    return lake.beside(FileQueries)
