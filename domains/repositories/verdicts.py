"""What became of events on repositories, as soon as a process that stays can know it; and which commit an event made.

The follower knows both a few milliseconds after the acknowledgement. Where it stands back (the lake has other rules, or
is far behind, or is not there), the outcome is waited for, and the lake. One follower for each repository is kept open,
since to open one takes longer than its verdicts; the least recently used one is closed where there are too many.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...lake_client import ConnectedJournal
from ...producers.verdicts import Duplicate, Outcome
from ...schemas.errors import NotYetVisibleError, OperatorError, RejectedError, UnavailableError
from ...schemas.positions import Position
from ...schemas.urn import Urn
from .answers import CommitInfo
from .errors import refusal

if TYPE_CHECKING:
    from ...consumers.facts import AggregateRows
    from ...consumers.followers import Follow
    from ...producers.receipts import Receipt
    from .queries import RepositoryQueries
    from .rows import CommitRow

MOST_FOLLOWED: Final = 64
"""Repositories that a journal follows at once."""
STANDS_BACK_S: Final = 10.0
"""Seconds until a follower that refused is asked again."""
_NAME: Final = "repositories.verdicts"
_T = TypeVar("_T")


class Verdicts:
    """Follows the repositories of a journal; threads share it.

    Args:
        journal: whose.
    """

    def __init__(self, journal: ConnectedJournal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._follows: OrderedDict[tuple[str, str], Follow] = OrderedDict()
        self._refused: dict[tuple[str, str], float] = {}
        """When a follower refused."""

    @classmethod
    def of(cls, journal: ConnectedJournal) -> Verdicts:
        """Those of a journal, kept with it. Raises: MissingExtraError: the packages of the extra `lake` are missing."""
        return journal.opened(_NAME, lambda _: cls(journal))

    def outcome(
        self, receipt: Receipt, repository: Urn, tenant: str, timeout_s: float, *, ahead: bool = True
    ) -> Outcome:
        """The verdict on an event of a repository.

        Args:
            ahead: ask the follower; else wait for the outcome.
        Raises:
            NotYetVisibleError: it is not known in time.
            OutcomeUnknownError, KafkaUnavailableError: the event may not be in the log; see `Receipt.position`.
        """
        until = time.monotonic() + timeout_s
        position = receipt.position
        outcome = None
        if ahead:
            outcome = self._asked(repository, tenant, lambda follow: follow.verdict(position, timeout_s=_left(until)))
        return receipt.outcome(_left(until)) if outcome is None else outcome

    def accepted(
        self, receipt: Receipt, repository: Urn, tenant: str, timeout_s: float, *, ahead: bool = True
    ) -> Position:
        """Where an event stands that was not refused; of one that was sent again, where it stood first.

        Raises:
            RejectedError: it was refused, by its reason as of `errors`. Others as `outcome`.
        """
        outcome = self.outcome(receipt, repository, tenant, timeout_s, ahead=ahead)
        try:
            outcome.raise_if_rejected()
        except RejectedError as error:
            raise refusal(error) from None
        return outcome.of if isinstance(outcome, Duplicate) else outcome.position

    def rows(
        self, repository: Urn, tenant: str, at_least: Position | None, timeout_s: float,
        tables: Collection[str] | None = None,
    ) -> AggregateRows | None:  # fmt: skip
        """The rows that the repository's newest events made, as of `Follow.facts_and_end`; None where nobody knows."""
        return self._asked(repository, tenant, lambda follow: follow.facts_and_end(at_least, timeout_s, tables=tables))

    def record(self, repository: Urn, tenant: str, timeout_s: float) -> Mapping[str, Any] | None:
        """The repository's record as its newest events make it; None where only the lake knows it."""
        row = self._asked(repository, tenant, lambda follow: follow.row_and_end(timeout_s=timeout_s)[0])
        return None if row is None or row.deleted else row.record

    def committed(
        self, receipt: Receipt, queries: RepositoryQueries, repository: Urn, tenant: str, timeout_s: float,
        ahead: bool = True,
    ) -> CommitInfo:  # fmt: skip
        """The commit that an event made, as soon as it is known.

        Args:
            queries: what reads it from the lake where the follower does not have it.
            ahead: ask the follower; else the outcome and the lake alone.
        Raises:
            RejectedError: as `accepted`. Others as `outcome`.
            NotYetVisibleError: the lake did not have it in time; it is made.
        """
        until = time.monotonic() + timeout_s
        at = self.accepted(receipt, repository, tenant, timeout_s, ahead=ahead)
        made = self._commit_at(at, repository, tenant, _left(until)) if ahead else None
        if made is None:
            self._journal.wait(receipt, timeout_s=_left(until))
            made = queries.committed_at(tenant, repository.name, at.value)
        return made

    def _commit_at(self, at: Position, repository: Urn, tenant: str, timeout_s: float) -> CommitInfo | None:
        """The commit that the event at a position made; None where only the lake knows it."""
        rows = self.rows(repository, tenant, at, timeout_s, ("commits",))
        for row in reversed([] if rows is None else rows.rows.get("commits", [])):
            if row.logical_timestamp == at.value:
                return commit_info(row)
        return None

    def _asked(self, repository: Urn, tenant: str, ask: Callable[[Follow], _T]) -> _T | None:
        """What a follower answers; None where it stands back, or does not know it in time."""
        key = (tenant, str(repository))
        try:
            follow = self._follow(key)
            return None if follow is None else ask(follow)
        except (OperatorError, UnavailableError) as error:
            if not isinstance(error, NotYetVisibleError) or key not in self._follows:
                with self._lock:
                    self._refused[key] = time.monotonic()
            return None

    def _follow(self, key: tuple[str, str]) -> Follow | None:
        """The open follower of a repository; None for a while after it refused. Raises: as `Journal.follow`."""
        with self._lock:
            refused_s = self._refused.get(key)
            if refused_s is not None:
                if time.monotonic() - refused_s < STANDS_BACK_S:
                    return None
                del self._refused[key]
            held = self._follows.get(key)
            if held is not None:
                self._follows.move_to_end(key)
                return held
        opened = self._journal.follow(key[1], tenant=key[0])
        with self._lock:
            follow = self._follows.setdefault(key, opened)
            while len(self._follows) > MOST_FOLLOWED:
                self._follows.popitem(last=False)  # it is closed once nobody asks it any more
        return follow


def commit_info(row: CommitRow) -> CommitInfo:
    """A row of the table `commits`, as users get it."""
    urn = Urn.parse(row.commit)
    return CommitInfo(
        str(urn), urn.parts[1], Urn.parse(row.branch).parts[1], tuple(row.parents), row.strategy, row.message,
        row.metadata, row.actor, row.event_time, row.logical_timestamp,
    )  # fmt: skip


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())
