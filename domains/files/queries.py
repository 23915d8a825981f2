"""The queries over archived files: by time or by work_id, of one `where` and `what` or of all, and the newest of one.

Pages come in the order of start, where, what and id. A cursor names the last file given and the moment that the first
page spoke of: all pages speak of that one moment, so none of them skips or repeats a file, whatever is recorded
meanwhile. What a request must look like stands in `file_questions`, how files are found in `file_search`.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...lake.cuts import At, Cuts
from ...lake.tables import Lake
from ...lake.views.views import View, Views, asked_anew, views_of
from ...schemas.errors import FilesQueryError
from ...schemas.topics import TopicNames
from .cursors import cursor_of, identity_of, read_cursor
from .questions import FilesAsked, check_names
from .rows import FileRecordRow
from .search import Search

__all__ = ["MAX_PAGE", "FileQueries", "FilesAsked", "FilesPage"]

MAX_PAGE: Final = 10_000
TABLE: Final = "file_records"


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
        lake: where the tables are, or the views of it that other readers share.
        names: topic names.
        partitions: number of partitions per journal topic.
    """

    def __init__(self, lake: Lake | Views, names: TopicNames, partitions: Mapping[str, int] | int) -> None:
        self.views = views_of(lake)
        self._names = names
        self._partitions = partitions

    @asked_anew
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
        identity = identity_of(tenant, asked, at)
        opened = None if cursor is None else read_cursor(cursor, identity, self._names.journal("files"))
        view = self.views.take((TABLE,))
        if opened is None:
            after, bounds = None, self._cuts(view).bounds("files", at)
        else:
            after, bounds = opened
            self._cuts(view).check(bounds)
        search = Search(view.tables[TABLE], tenant, asked, bounds)
        places = search.first(limit + 1, after)
        following = cursor_of(identity, places[limit - 1].key, bounds) if len(places) > limit else None
        return FilesPage(tuple(search.rows(places[:limit])), following, bounds.held_to, bounds.final)

    @asked_anew
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
        check_names(where=where, what=what)
        asked = FilesAsked(where, what, None, None, None)
        view = self.views.take((TABLE,))
        bounds = self._cuts(view).bounds("files", at)
        search = Search(view.tables[TABLE], tenant, asked, bounds)
        return FilesPage(tuple(search.rows(search.latest())), None, bounds.held_to, bounds.final)

    def _cuts(self, view: View) -> Cuts:
        return Cuts(view.journal, self._names, self._partitions)
