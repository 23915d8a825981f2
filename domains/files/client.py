"""What a `Journal` asks about archived files: by time, by work_id, the newest of a program on a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...lake_client import LakeClient, Point, point

if TYPE_CHECKING:
    from .queries import FileQueries, FilesPage
    from .rows import FileRecordRow

_FILES_A_PAGE = 1000


class FilesClient(LakeClient):
    """Questions about archived files."""

    def files(
        self, *, where: str | None = None, what: str | None = None, start: Any = None, end: Any = None,
        work_id: str | None = None, at: Point | None = None, tenant: str | None = None,
    ) -> Iterator[FileRecordRow]:  # fmt: skip
        """Archived files, by start, where, what and id: all that touch a time, or all of a work_id. Each comes once.

        Args:
            where, what: of this server or program only.
            start, end: both or none; the files that touch the time between them, both ends included. Milliseconds,
                aware datetimes, ISO 8601, or numbers as text.
            work_id: instead of times.
            at: as the journal told it at a point (see `show`); None: now.
        Raises:
            FilesQueryError: it cannot be asked like that; its code says which way.
            NotFinalError: the lake has not reached that point.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        asked: dict[str, Any] = {"where": where, "what": what, "start": start, "end": end, "work_id": work_id}
        asked |= {"at": point(at), "tenant": tenant}
        return self._all_files(self.files_page(**asked, limit=_FILES_A_PAGE), asked)

    def _all_files(self, page: FilesPage, asked: Mapping[str, Any]) -> Iterator[FileRecordRow]:
        yield from page.files
        while page.cursor is not None:
            page = self.files_page(**asked, limit=_FILES_A_PAGE, cursor=page.cursor)
            yield from page.files

    def files_page(
        self, *, where: str | None = None, what: str | None = None, start: Any = None, end: Any = None,
        work_id: str | None = None, limit: int = 100, cursor: str | None = None,
        at: Point | None = None, tenant: str | None = None,
    ) -> FilesPage:  # fmt: skip
        """One page of `files`, and a cursor for the next: all pages speak of the moment of the first.

        Args:
            limit: most files of the page, 1 to 10,000.
            cursor: of the page before, asked with the same arguments.
        """
        self._with_lake()
        from .questions import FilesAsked

        asked = FilesAsked.of(where=where, what=what, start=start, end=end, work_id=work_id)
        who = tenant or self.settings.journal.tenant
        return self.file_queries.page(who, asked, limit=limit, cursor=cursor, at=point(at))

    def latest_file(
        self, what: str, where: str, *, at: Point | None = None, tenant: str | None = None
    ) -> FileRecordRow | None:
        """The newest file of a program on a server: by start, then creation time, then id; None where there is none."""
        found = self.file_queries.latest(tenant or self.settings.journal.tenant, what, where, at=point(at))
        return found.files[0] if found.files else None

    @property
    def file_queries(self) -> FileQueries:
        """The queries over files. Raises: MissingExtraError."""
        queries: FileQueries | None = self._handles.own.get("files")
        if queries is None:
            lake = self.lake
            from .queries import FileQueries

            partitions = {topic: one.partitions for topic, one in self.epochs.items()}
            queries = self._handles.own["files"] = FileQueries(lake.views, self.settings.journal.topics, partitions)
        return queries

    def _with_lake(self) -> None:
        """Refuse where the packages that read the lake are missing."""
        _ = self.lake
