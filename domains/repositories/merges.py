"""Merging one branch into another one: what the client knows to be refused is refused before anything is sent.

That is exact as long as the heads hold, which the event names: the rules reject it where one has moved.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...consumers.followers import place_of
from ...lake_client import ConnectedJournal
from ...schemas.errors import InvalidEventError, NotYetVisibleError
from ...schemas.hashing import record_key
from ...schemas.positions import Position
from ...schemas.urn import Urn
from .answers import BranchInfo, CommitInfo
from .apart import Outlook, outlook_of_rows
from .errors import (
    DirtyBranchError,
    MergeConflictError,
    NothingToMergeError,
    StaleHeadError,
    StaleStagingError,
    UnrelatedHistoriesError,
)
from .events import NO_STRATEGY, REFUSE, RESOLVE, Merged
from .verdicts import Verdicts

if TYPE_CHECKING:
    from ...producers.receipts import Receipt
    from .queries import RepositoryQueries

_POLL_S: Final = 0.05


@dataclass(frozen=True)
class MergeOptions:
    """How to merge.

    Attributes:
        strategy: whose value a path in conflict gets: `none` (conflicts are refused), `source-wins`, `dest-wins`.
        staged: what becomes of what is staged on the destination: `refuse` or `resolve`.
        message, metadata: of the commit.
        unrelated: whether heads without a common ancestor are merged, with the empty tree as base.
    """

    strategy: str = NO_STRATEGY
    staged: str = REFUSE
    message: str = ""
    metadata: Mapping[str, str] | None = None
    unrelated: bool = False


def check_merge(
    source: Urn, destination: Urn, options: MergeOptions, source_head: str | None, destination_head: str | None,
    staging_digest: str | None,
) -> None:  # fmt: skip
    """Refuse what no state of the two branches makes a merge.

    Args:
        source, destination: URNs of the branches.
        source_head, destination_head, staging_digest: as of `Merge.check_branches`.
    Raises:
        InvalidEventError: an argument cannot be, or the two are no different branches of one repository.
    """
    if staging_digest is None and options.staged == RESOLVE:
        staging_digest = _SOME_DIGEST
    event = Merged(
        source, destination, _NO_HEAD if source_head is None else source_head,
        _NO_HEAD if destination_head is None else destination_head, options.strategy, options.staged, staging_digest,
        options.message, options.metadata,
    )  # fmt: skip
    if faults := event.validate():
        raise InvalidEventError(faults)


_NO_HEAD: Final = ""
_SOME_DIGEST: Final = "0" * 32
"""In place of what is read of the branches where the caller does not give it."""


@dataclass(frozen=True)
class Merge:
    """The merge of one branch into another one.

    Args:
        journal: where it is sent.
        verdicts: what tells what became of it.
        queries: what reads the lake.
        tenant: whose branches.
        source, destination: URNs of branches of one repository.
        options: how.
        ahead: ask this process's follower; else outcomes and the lake alone.
    """

    journal: ConnectedJournal
    verdicts: Verdicts
    queries: RepositoryQueries
    tenant: str
    source: Urn
    destination: Urn
    options: MergeOptions
    ahead: bool = True

    @property
    def repository(self) -> Urn:
        """The URN of the repository."""
        return self.destination.aggregate

    def check_branches(
        self, source: BranchInfo, destination: BranchInfo, source_head: str | None, destination_head: str | None,
        staging_digest: str | None,
    ) -> None:  # fmt: skip
        """Refuse what the two branches tell.

        Args:
            source, destination: the branches as they are.
            source_head, destination_head: where they must be; None: anywhere.
            staging_digest: what must be staged on the destination; None: anything.
        Raises:
            StaleHeadError, StaleStagingError, DirtyBranchError, NothingToMergeError: in this order, as the rules do.
        """
        for branch, head in ((destination, destination_head), (source, source_head)):
            if head is not None and head != (branch.head or ""):
                raise StaleHeadError(branch.urn, head, branch.head or "")
        if staging_digest is not None and staging_digest != destination.staging_digest:
            raise StaleStagingError(destination.urn, staging_digest, destination.staging_digest)
        for branch in (source,) if self.options.staged == RESOLVE else (destination, source):
            if branch.staged_events:
                raise DirtyBranchError(branch.urn, branch.staged_events, branch.staged_rows)
        if source.head is None or source.head == destination.head:
            raise NothingToMergeError(self.source, self.destination, source.head or "", destination.head or "")

    def check_commits(self, source_head: str, destination_head: str, at_least: int, timeout_s: float) -> None:
        """Refuse what history and contents of the two heads tell; where they are not known yet, wait.

        Args:
            source_head, destination_head: ids; of the destination the empty text for none.
            at_least: a position at or above those of both commits.
        Raises:
            NothingToMergeError: the destination has the source's head in its history.
            UnrelatedHistoriesError: they have no common ancestor.
            MergeConflictError: without a strategy, both have changed a path differently.
            NotYetVisibleError: it is not known in time; nothing was sent.
        """
        if not destination_head:
            return
        outlook = self._outlook(source_head, destination_head, self._position(at_least), timeout_s)
        heads = (self.source, self.destination, source_head, destination_head)
        if outlook.contained:
            raise NothingToMergeError(*heads)
        if outlook.unrelated and not self.options.unrelated:
            raise UnrelatedHistoriesError(*heads)
        if outlook.conflicts and self.options.strategy == NO_STRATEGY:
            raise MergeConflictError(*heads, outlook.conflicts, outlook.conflicting)

    def _position(self, value: int) -> Position:
        key = record_key(self.tenant, str(self.repository))
        return Position(*place_of(self.journal.settings, self.journal.epochs, self.repository, key), value)

    def _outlook(self, source_head: str, destination_head: str, at_least: Position, timeout_s: float) -> Outlook:
        until = time.monotonic() + timeout_s
        resolving = self.destination.parts[1] if self.options.staged == RESOLVE else None
        while True:
            left_s = max(0.0, until - time.monotonic())
            rows = self.verdicts.rows(self.repository, self.tenant, at_least, left_s) if self.ahead else None
            if rows is None:
                self.journal.wait(at_least, timeout_s=left_s)
            else:
                outlook = outlook_of_rows(rows.rows, rows.begin, source_head, destination_head)
                if outlook is not None:
                    return outlook
            try:
                return self.queries.outlook(
                    self.tenant, self.repository.name, source_head, destination_head, resolving=resolving, ahead=rows
                )
            except NotYetVisibleError:
                if time.monotonic() >= until:
                    raise
            time.sleep(_POLL_S)

    def emit(
        self, source_head: str, destination_head: str, staging_digest: str | None, said: Mapping[str, Any]
    ) -> Receipt:
        """Send it. Raises: InvalidEventError: an argument cannot be; nothing was sent. Others as `Journal.emit`."""
        options = self.options
        event = Merged(
            self.source, self.destination, source_head, destination_head, options.strategy, options.staged,
            staging_digest, options.message, options.metadata,
        )  # fmt: skip
        return self.journal.emit(event, **said)

    def send(
        self, source_head: str, destination_head: str, staging_digest: str | None, timeout_s: float,
        said: Mapping[str, Any],
    ) -> CommitInfo:  # fmt: skip
        """Send it, and wait for what it becomes.

        Raises:
            RejectedError: it was refused, by its reason as of `errors`.
            OutcomeUnknownError: it may or may not be in the log.
            NotYetVisibleError: its verdict, or the commit, was not known in time. Others as `emit`.
        """
        return self.made(self.emit(source_head, destination_head, staging_digest, said), timeout_s)

    def made(self, receipt: Receipt, timeout_s: float) -> CommitInfo:
        """The commit that an event made. Raises: as `Verdicts.committed`."""
        return self.verdicts.committed(receipt, self.queries, self.repository, self.tenant, timeout_s, self.ahead)
