"""Folding one journal partition of repositories: events of plain objects in columns, all others one by one.

Refs move between the two ways as rows of `branches`: a run of plain events begins with those of its branches and
repositories as they stand then, and leaves the newest of each branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ....fold.prior import PriorRows
from ....fold.records import Place, Record
from ....fold.runs import Candidate, RunFolder
from ....fold.steps import Folder, FoldRequest, Share, bits
from .plain import candidates, keys_of, staged_on
from .rows import BRANCHES_TABLE, OBJECTS_TABLE, PlainObjects


def folder_of(request: FoldRequest, prior: PriorRows) -> Folder | None:
    """What folds a task's share in columns; None where nothing that objects give is asked for."""
    asked = {BRANCHES_TABLE, OBJECTS_TABLE} & {*request.tables}
    return ObjectFolder(request, prior) if asked else None


class ObjectFolder(RunFolder[PlainObjects]):
    """Folds the records of one journal partition of repositories."""

    def parts(self, share: Share) -> Iterator[Share]:
        yield from bits(share)

    def candidates(
        self, records: Sequence[Record], system_times: Sequence[int], place: Place, first: int
    ) -> Iterable[Candidate[PlainObjects]]:
        return candidates(records, system_times, place, first)

    def settled(self, events: PlainObjects) -> PlainObjects:
        facts = self.known.facts(keys_of(events), events.place, self.request.start)
        return events.settled(staged_on(events, facts))
