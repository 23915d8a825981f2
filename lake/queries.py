"""What the queries of every domain begin with: tables looked at anew, and what is seen of them.

A domain asks the lake in three files of one form: `questions.py` has its questions as values, checked as they are made;
`cursors.py` says where a page ends; `queries.py` has one class made of the one here, whose methods take a tenant and a
question and give the answer as at a point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from deltalake.exceptions import TableNotFoundError

from ..schemas.errors import NotFinalError, UnavailableError
from ..schemas.topics import TopicNames
from .columns import JOURNAL_TABLE
from .cuts import At, Bounds, Cuts
from .tables import Lake


class Queries:
    """The queries over the tables of one domain.

    Args:
        lake: where the tables are.
        names: topic names.
        partitions: number of partitions per journal topic.
    """

    TOPIC: ClassVar[str]
    """The domain in whose journal topic the events stand that made the rows."""
    TABLES: ClassVar[tuple[str, ...]]
    """What is read besides the journal table."""

    def __init__(self, lake: Lake, names: TopicNames, partitions: Mapping[str, int] | int) -> None:
        self._lake = lake
        self._topic = names.journal(self.TOPIC)
        self._cuts = Cuts(lake, names, partitions)

    def _seen(self, as_at: At | None, *, final_only: bool = False) -> Bounds:
        """What is seen of the tables now, or as at a point.

        Raises:
            NotFinalError: the lake has not reached that point; or `final_only`, and events still to come could change
                an answer.
            InvalidPositionError, InputError: it is no point of this journal.
            UnavailableError: there is no lake.
        """
        self._refresh()
        bounds = self._cuts.bounds(self.TOPIC, as_at)
        if final_only and not bounds.final:
            raise NotFinalError("Facts still to come can change that answer.")
        return bounds

    def _seen_again(self, bounds: Bounds) -> Bounds:
        """What the first page of an answer saw. Raises: NotFinalError: the lake does not hold it. UnavailableError."""
        self._refresh()
        self._cuts.check(bounds)
        return bounds

    def _refresh(self) -> None:
        """See what others have written: the journal table first, so that its marks promise no row that is not seen."""
        try:
            self._lake.refresh((JOURNAL_TABLE, *self.TABLES))
        except TableNotFoundError as error:
            raise UnavailableError(
                f"There is no lake at {self._lake.path}.",
                code="no-lake",
                hint="Start the stream (`metajournal up`, or `metajournal stream`), or point [lake] path at it.",
                path=self._lake.path,
            ) from error
