"""The queries over archived files: by time or by work_id, of one `where` and `what` or of all, and the newest of one.

Pages come in the order of start, where, what and id. A cursor names the last file given and the moment that the first
page spoke of: all pages speak of that one moment, so none of them skips or repeats a file, whatever is recorded
meanwhile. What a question must look like stands in `questions`, how files are found in `search`.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...lake.cuts import At
from ...lake.queries import Queries, Seen
from ...lake.views.views import asked_anew
from ...schemas.errors import FilesQueryError
from .cursors import cursor_of, identity_of, read_cursor
from .order import PageKey
from .questions import FilesQuestion, check_names
from .rows import FileRecordRow
from .search import Search

MAX_PAGE: Final = 10_000


@dataclass(frozen=True, slots=True)
class FilesPage:
    """Some files, in order.

    Attributes:
        files: the rows of the files; each file once.
        cursor: asks for the next page; None after the last one.
        held_to: the journal topic's partitions are included up to (not including) these positions.
        final: no event that arrives later can change this answer.
    """

    files: tuple[FileRecordRow, ...]
    cursor: str | None
    held_to: Mapping[tuple[str, int], int]
    final: bool


class FileQueries(Queries):
    """Reads files from the lake; its arguments are those of `Queries`."""

    TOPIC = "files"
    TABLES = ("file_records",)

    @asked_anew
    def page(
        self,
        tenant: str,
        question: FilesQuestion,
        *,
        limit: int = 100,
        cursor: str | None = None,
        as_at: At | None = None,
    ) -> FilesPage:
        """A page of a query's files.

        Args:
            limit: most files, 1 to 10,000.
            cursor: of the page before, for the same query and tenant.
            as_at: as the journal recorded it then (see `cuts.At`); None: now, or what the cursor's first page spoke of.
        Raises:
            FilesQueryError: `unreadable-cursor`, `bad-limit`.
            NotFinalError: the lake has not reached that point.
            UnavailableError: there is no lake.
        """
        if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
            raise FilesQueryError(f"limit must be 1 to {MAX_PAGE:,}, not {limit!r:.80}.", code="bad-limit")
        identity = identity_of(tenant, question, as_at)
        seen, after = self._begun(cursor, identity, as_at)
        search = self._search(tenant, question, seen)
        places = search.first(limit + 1, after)
        following = cursor_of(identity, places[limit - 1].key, seen.bounds) if len(places) > limit else None
        return FilesPage(
            tuple(search.rows(places[:limit])), self._named(following), seen.bounds.held_to, seen.bounds.final
        )

    @asked_anew
    def latest(self, tenant: str, what: str, where: str, *, as_at: At | None = None) -> FilesPage:
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
        question = FilesQuestion(where, what, None, None, None)
        seen = self._seen(as_at)
        search = self._search(tenant, question, seen)
        return FilesPage(tuple(search.rows(search.latest())), None, seen.bounds.held_to, seen.bounds.final)

    def _unknown_cursor(self, message: str, /, *, hint: str) -> FilesQueryError:
        return FilesQueryError(message, code="unreadable-cursor", hint=hint)

    def _search(self, tenant: str, question: FilesQuestion, seen: Seen) -> Search:
        (name,) = self.TABLES
        return Search(seen.view.tables[name], tenant, question, seen.bounds)

    def _begun(self, cursor: str | None, identity: str, as_at: At | None) -> tuple[Seen, PageKey | None]:
        """What is seen by a page, and where it begins."""
        if cursor is None:
            return self._seen(as_at), None
        after, bounds = read_cursor(self._whole(cursor), identity, self._topic)
        return self._seen_again(bounds), after
