"""What the queries of every domain begin with: a view of the lake, and what is seen of it.

A domain asks the lake in three files of one form: `questions.py` has its questions as values, checked as they are made;
`cursors.py` says where a page ends; `queries.py` has one class made of the one here, whose methods take a tenant and a
question and give the answer as at a point. Each method is `asked_anew` where a file that its view names is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Final, NamedTuple

from ..schemas.errors import InputError, NotFinalError
from ..schemas.topics import TopicNames
from .cuts import At, Bounds, Cuts
from .kept_cursors import KeptCursors
from .tables import Lake
from .views.views import View, Views, views_of

KEPT_BYTES: Final = 256 * 1024 * 1024
"""What the questions of a domain may keep of the lake in memory, unless they are told otherwise."""


class Seen(NamedTuple):
    """What a question reads: the lake at one moment, and how much of it."""

    view: View
    bounds: Bounds


class Queries:
    """The queries over the tables of one domain.

    Args:
        lake: where the tables are, or the views of it that other readers share.
        names: topic names.
        partitions: number of partitions per journal topic.
    """

    TOPIC: ClassVar[str]
    """The domain in whose journal topic the events stand that made the rows."""
    TABLES: ClassVar[tuple[str, ...]]
    """What is read besides the journal table."""

    def __init__(self, lake: Lake | Views, names: TopicNames, partitions: Mapping[str, int] | int) -> None:
        self.views = views_of(lake)
        self._names = names
        self._partitions = partitions
        self._topic = names.journal(self.TOPIC)
        self._cursors = KeptCursors(refusal=self._unknown_cursor)

    def keep_cursors_whole(self) -> None:
        """Give whole cursors, which any machine takes, from now on; not their short names."""
        self._cursors = KeptCursors(refusal=self._unknown_cursor, named=False)

    def _unknown_cursor(self, message: str, /, *, hint: str) -> InputError:
        """The error of a cursor that this machine did not keep."""
        return InputError(message, code="unknown-cursor", hint=hint)

    def _named(self, cursor: str | None) -> str | None:
        """A cursor as users get it: mostly a short name, under which this machine keeps it."""
        return None if cursor is None else self._cursors.name(cursor)

    def _whole(self, cursor: str) -> str:
        """The cursor of a name, or a whole one as it is. Raises: InputError: the name is not known here."""
        return str(self._cursors.whole(cursor))

    def _seen(self, as_at: At | None, *, final_only: bool = False, names: Collection[str] | None = None) -> Seen:
        """What is seen of the tables now, or as at a point.

        Args:
            names: those of the tables that are needed; all where None.
        Raises:
            NotFinalError: the lake has not reached that point; or `final_only`, and events still to come could change
                an answer.
            InvalidPositionError, InputError: it is no point of this journal.
            UnavailableError: there is no lake.
        """
        view = self.views.take(self.TABLES if names is None else names)
        bounds = self._cuts(view).bounds(self.TOPIC, as_at)
        if final_only and not bounds.final:
            raise NotFinalError("Facts that arrive later may change that answer.")
        return Seen(view, bounds)

    def _seen_again(self, bounds: Bounds) -> Seen:
        """What the first page of an answer saw. Raises: NotFinalError: the lake does not hold it. UnavailableError."""
        view = self.views.take(self.TABLES)
        self._cuts(view).check(bounds)
        return Seen(view, bounds)

    def _cuts(self, view: View) -> Cuts:
        return Cuts(view.journal, self._names, self._partitions)
