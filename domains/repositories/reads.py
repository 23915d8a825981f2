"""The questions about one repository: each sees everything that the journal holds when it is asked, and what its own
process has emitted before.

A follower gives the rows that the lake lacks; where it stands back, and for a command that does not stay, the lake is
waited for. As at a point nobody is waited for: the lake holds it, or says that it does not yet. As at a time it may
lack events of then: such an answer is not `final`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ...consumers.ends import committed_ends
from ...lake_client import WAIT_S, ConnectedJournal, Point, point
from ...producers.options import read_options
from ...schemas.arguments import check_seconds, check_whole
from ...schemas.errors import InputError, NotYetVisibleError
from ...schemas.hashing import partition_of, record_key
from ...schemas.positions import Cut
from ...schemas.wording import many
from .domain import DOMAIN
from .errors import InvalidQuestionError
from .questions import PAGE, Ref, check_branch, check_path, check_paths
from .urns import repository_urn
from .verdicts import Verdicts

if TYPE_CHECKING:
    from ...lake.cuts import At
    from ...lake.reading import LakeReader
    from .answers import (
        AnswerList,
        BranchInfo,
        CommitInfo,
        Difference,
        DiffPage,
        ListPage,
        LogPage,
        ObjectInfo,
        PrefixInfo,
        RepositoryInfo,
        TreeInfo,
    )
    from .moment import NewerRows
    from .queries import RepositoryQueries

_OF_REPOSITORY: Final = ("branches",)
_REFS: Final = ("branches", "commits")
_CONTENTS: Final = (*_REFS, "objects", "resets")
_POLL_S: Final = 0.02
_T = TypeVar("_T")


class RepositoryReads:
    """What one repository has.

    Args:
        journal: whose.
        name: its name.
        stays: whether this process stays, so that a follower is worth while; else the lake is waited for.

    Attributes:
        name: its name.
        urn: its URN.
        stays: as given.
    """

    def __init__(self, journal: ConnectedJournal, name: str, *, stays: bool = True) -> None:
        self._journal = journal
        self.stays = stays
        self.name = name
        self.urn = repository_urn(name)

    def info(
        self, *, as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S
    ) -> RepositoryInfo:
        """What it is.

        Args:
            as_at: as the journal recorded it then (see `show`); None: now. Whether an event still to come can change
                the answer, `.final` says, of every answer here; of what is not there the error does.
            tenant: `journal.tenant` of the settings if None.
            timeout_s: seconds to wait until everything that the journal holds now, and that this process has emitted,
                can be seen.
        Raises:
            UnknownEntityError: it does not exist (then).
            NotFinalError: the lake has not reached that position, or the time is in the future.
            NotYetVisibleError: what the journal holds could not be seen in time.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        who = self._tenant(tenant)

        def ask(queries: RepositoryQueries, at: At | None, ahead: NewerRows | None) -> RepositoryInfo:
            newer = None if ahead is None else Verdicts.of(self._journal).record(self.urn, who, timeout_s)
            return queries.repository(who, self.name, as_at=at, ahead=ahead, newer=newer)

        return self._asked(who, as_at, timeout_s, _OF_REPOSITORY, ask)

    def branches(
        self, *, transactions: bool = False, as_at: Point | None = None, tenant: str | None = None,
        timeout_s: float = WAIT_S,
    ) -> AnswerList[BranchInfo]:  # fmt: skip
        """Its branches, by name.

        Args:
            transactions: also those of transactions.
            as_at, tenant, timeout_s: as of `info`, and its errors.
        """
        who = self._tenant(tenant)
        return self._asked(
            who, as_at, timeout_s, _REFS,
            lambda queries, at, ahead: queries.branches(
                who, self.name, transactions=transactions, as_at=at, ahead=ahead
            ),
        )  # fmt: skip

    def branch_info(
        self, branch: str, *, as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S
    ) -> BranchInfo:
        """Where one of its branches is, and what is staged on it.

        Raises:
            UnknownEntityError: it does not exist (then). Others as `info`.
        """
        who = self._tenant(tenant)
        return self._asked(
            who, as_at, timeout_s, _REFS,
            lambda queries, at, ahead: queries.branch(who, self.name, branch, as_at=at, ahead=ahead),
        )  # fmt: skip

    def log(
        self, ref: str, *, limit: int = PAGE, before: int | None = None, as_at: Point | None = None,
        tenant: str | None = None, timeout_s: float = WAIT_S,
    ) -> LogPage:  # fmt: skip
        """The commits of a ref's history, itself included, the newest first: `.items`, and `.before` for more.

        Args:
            ref: a branch; `branch@` without what is staged on it; `branch@2026-01-31T12:00Z` as it was then; a
                commit's id or the beginning of one (4 digits at least). Each may be followed by `~n` (n times the
                first parent) or `^n` (the n-th parent).
            limit: most commits of this page, 1 to 10,000.
            before: `.before` of the page before.
            as_at, tenant, timeout_s: as of `info`.
        Raises:
            UnknownEntityError: the repository or the ref does not exist (then).
            InputError: the ref is none, ambiguous, or a branch without commit. Others as `info`.
        """
        asked, who = Ref.of(ref), self._tenant(tenant)
        check_whole("before", before, 0)
        return self._asked(
            who, as_at, timeout_s, _REFS,
            lambda queries, at, ahead: queries.log(
                who, self.name, asked, limit=limit, before=before, as_at=at, ahead=ahead
            ),
        )  # fmt: skip

    def commit(
        self, ref: str, *, as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S
    ) -> CommitInfo:
        """The commit that a ref names. Arguments and errors as `log`."""
        asked, who = Ref.of(ref), self._tenant(tenant)
        return self._asked(
            who, as_at, timeout_s, _REFS,
            lambda queries, at, ahead: queries.commit(who, self.name, asked, as_at=at, ahead=ahead),
        )  # fmt: skip

    def merge_bases(
        self, left: str, right: str, *, as_at: Point | None = None, tenant: str | None = None,
        timeout_s: float = WAIT_S,
    ) -> AnswerList[str]:  # fmt: skip
        """The best common ancestors of two refs, as git has them: ids of commits, the newest first.

        None of them is an ancestor of another one; there are several where histories cross. Arguments and errors as
        `log`.
        """
        sides, who = (Ref.of(left), Ref.of(right)), self._tenant(tenant)
        return self._asked(
            who, as_at, timeout_s, _REFS,
            lambda queries, at, ahead: queries.merge_bases(who, self.name, *sides, as_at=at, ahead=ahead),
        )  # fmt: skip

    def get(
        self, ref: str, path: str, *, as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S
    ) -> ObjectInfo:
        """One object; of a branch with what is staged on it.

        Args:
            ref: as of `log`.
            path: the object's.
            as_at, tenant, timeout_s: as of `info`.
        Raises:
            UnknownEntityError: there is no such object, ref or repository.
            InputError: the path cannot be.
            NotYetVisibleError: what a merge contains was not known in time. Others as `log`.
        """
        asked, wanted, who = Ref.of(ref), check_path(path), self._tenant(tenant)
        return self._asked(
            who, as_at, timeout_s, _CONTENTS,
            lambda queries, at, ahead: queries.get(who, self.name, asked, wanted, as_at=at, ahead=ahead),
        )  # fmt: skip

    def existing(
        self, branch: str, paths: str | Iterable[str], *, tenant: str | None = None, timeout_s: float = WAIT_S
    ) -> set[str]:
        """Those of some paths, or of one, at which a branch has an object now, with what is staged on it.

        Raises:
            UnknownEntityError: there is no such branch or repository.
            InputError: they are no paths, or one cannot be.
            NotYetVisibleError: what a merge contains was not known in time. Others as `info`.
        """
        name, wanted, who = check_branch(branch), [*map(check_path, check_paths(paths))], self._tenant(tenant)
        return self._asked(
            who, None, timeout_s, _CONTENTS,
            lambda queries, _, ahead: queries.existing(who, self.name, name, wanted, ahead=ahead),
        )  # fmt: skip

    def _emptied_by(
        self, branch: str, path: str | None, prefix: str | None, tenant: str | None, timeout_s: float
    ) -> str | None:
        """What `RepositoryQueries.emptied_by` says of now."""
        who = self._tenant(tenant)
        return self._asked(
            who, None, timeout_s, _CONTENTS,
            lambda queries, _, ahead: queries.emptied_by(who, self.name, branch, path, prefix or "", ahead=ahead),
        )  # fmt: skip

    def list(
        self, ref: str, *, prefix: str = "", delimiter: str | None = None, after: str | None = None, limit: int = PAGE,
        as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S,
    ) -> ListPage:  # fmt: skip
        """Some of what a ref contains, in the order of paths' bytes: `.items`, and `.after` for more.

        Args:
            ref: as of `log`; a branch with what is staged on it.
            prefix: only paths that begin so.
            delimiter: most often `/`: paths that have it behind the prefix come as one common prefix (`PrefixInfo`).
            after: only items behind this path or common prefix; of a common prefix that it lies within, what follows.
            limit: most items of this page, 1 to 10,000.
            as_at, tenant, timeout_s: as of `info`.
        Raises:
            InputError: an argument cannot be. Others as `get`.
        """
        asked, who = Ref.of(ref), self._tenant(tenant)
        if delimiter == "":
            raise InputError(
                "delimiter must not be empty.",
                code="bad-delimiter",
                hint="To list everything, leave it out (None; -r on the command line). Most often it is /.",
            )
        return self._asked(
            who, as_at, timeout_s, _CONTENTS,
            lambda queries, at, ahead: queries.list_objects(
                who, self.name, asked, prefix=prefix, delimiter=delimiter, after=after, limit=limit, as_at=at,
                ahead=ahead,
            ),
        )  # fmt: skip

    def list_all(
        self, ref: str, *, prefix: str = "", delimiter: str | None = None, after: str | None = None,
        as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S,
    ) -> Iterator[ObjectInfo | PrefixInfo]:  # fmt: skip
        """All items of `list`, page by page: of one commit, if the ref is one; a branch may move meanwhile."""
        while True:
            page = self.list(
                ref, prefix=prefix, delimiter=delimiter, after=after, limit=_PAGE_OF_ALL, as_at=as_at, tenant=tenant,
                timeout_s=timeout_s,
            )  # fmt: skip
            yield from page.items
            if (after := page.after) is None:
                return

    def diff(
        self, left: str, right: str, *, prefix: str = "", after: str | None = None, limit: int = PAGE,
        as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S,
    ) -> DiffPage:  # fmt: skip
        """Some of the paths that two refs do not have alike: what became of the left one's in the right one.

        Args:
            left, right: refs, as of `log`; branches with what is staged on them, so `diff("main@", "main")` is what a
                commit would change.
            prefix: only paths that begin so.
            after: only paths behind this one.
            limit: most paths of this page, 1 to 10,000.
            as_at, tenant, timeout_s: as of `info`.
        Returns:
            `.items` by path, each `added`, `changed` or `removed`, with the objects of both sides; `.after` for more.
        Raises:
            InputError: an argument cannot be. Others as `get`.
        """
        sides, who = (Ref.of(left), Ref.of(right)), self._tenant(tenant)
        return self._asked(
            who, as_at, timeout_s, _CONTENTS,
            lambda queries, at, ahead: queries.diff(
                who, self.name, *sides, prefix=prefix, after=after, limit=limit, as_at=at, ahead=ahead
            ),
        )  # fmt: skip

    def diff_all(
        self, left: str, right: str, *, prefix: str = "", after: str | None = None, as_at: Point | None = None,
        tenant: str | None = None, timeout_s: float = WAIT_S,
    ) -> Iterator[Difference]:  # fmt: skip
        """All items of `diff`, page by page."""
        while True:
            page = self.diff(
                left, right, prefix=prefix, after=after, limit=_PAGE_OF_ALL, as_at=as_at, tenant=tenant,
                timeout_s=timeout_s,
            )  # fmt: skip
            yield from page.items
            if (after := page.after) is None:
                return

    def tree(
        self, ref: str, *, as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S
    ) -> TreeInfo:
        """What the commit of a ref contains, in sum: counts, what it changed, conflicts, hashes of its content.

        Arguments and errors as `log`. Raises: NotYetVisibleError: it was not known in time.
        """
        asked, who = Ref.of(ref), self._tenant(tenant)
        return self._asked(
            who, as_at, timeout_s, _REFS,
            lambda queries, at, ahead: queries.tree(who, self.name, asked, as_at=at, ahead=ahead),
        )  # fmt: skip

    def _asked(
        self, tenant: str, as_at: Point | None, timeout_s: float, tables: tuple[str, ...],
        ask: Callable[[RepositoryQueries, At | None, NewerRows | None], _T],
    ) -> _T:  # fmt: skip
        """An answer that has everything that the journal holds now, or as at a point what the lake has.

        Args:
            tables: those whose newer rows the question needs; none: it asks the lake alone.
        """
        check_seconds("timeout_s", timeout_s)
        queries = queries_of(self._journal)
        if as_at is not None:
            return ask(queries, point(as_at), None)
        until = time.monotonic() + timeout_s
        settle(self._journal, timeout_s)
        ahead: NewerRows | None = None
        if self.stays and tables:
            ahead = Verdicts.of(self._journal).rows(self.urn, tenant, None, timeout_s, tables)
        if ahead is None:
            self._wait_for_lake(tenant, until)
        while True:
            try:
                return ask(queries, None, ahead)
            except NotYetVisibleError:
                if time.monotonic() >= until:
                    raise
            time.sleep(_POLL_S)

    def _wait_for_lake(self, tenant: str, until: float) -> None:
        """Wait until the lake holds what the repository's partition holds now. Raises: NotYetVisibleError."""
        ends = ends_of(self._journal, record_key(tenant, str(self.urn)), timeout_s=max(0.0, until - time.monotonic()))
        self._journal.wait(ends, timeout_s=max(0.0, until - time.monotonic()))

    def _tenant(self, tenant: str | None) -> str:
        return tenant_of(self._journal, tenant)


_PAGE_OF_ALL: Final = 10_000
_ENDS_S: Final = 10.0
"""Seconds that Kafka has to say where partitions end."""


def tenant_of(journal: ConnectedJournal, tenant: str | None) -> str:
    """Whose repositories are asked for; the settings' tenant if None.

    Raises:
        InvalidQuestionError: no tenant can have that name, which `emit` refuses as well.
    """
    options, faults = read_options(
        tenant=tenant, actor=None, event_time=None, expected=None, cause=None, event_id=None, repeat=False
    )
    if faults:
        raise InvalidQuestionError(faults)
    return options.tenant or journal.settings.journal.tenant


def settle(journal: ConnectedJournal, timeout_s: float) -> None:
    """Wait until the log holds what this process has emitted. Raises: NotYetVisibleError: it does not in time."""
    left = journal.settle(timeout_s)
    if left:
        were = "was" if left == 1 else "were"
        error = NotYetVisibleError(
            {}, f"{many(left, 'event')} of this process {were} not acknowledged within {timeout_s:g} s."
        )
        error.advise("Is Kafka reachable? `metajournal status` says so. What is known already: ask with as_at.")
        raise error


def ends_of(journal: ConnectedJournal, key: bytes | None = None, *, timeout_s: float = _ENDS_S) -> Cut:
    """Where the topic of repositories ends now: the partition of a key, or all of them.

    Args:
        timeout_s: seconds to wait for Kafka.
    Raises:
        UnservedDomainError: the journal has no repositories.
        KafkaUnavailableError: Kafka does not answer.
    """
    topic = journal.settings.journal.topics.journal(DOMAIN.name)
    if topic not in journal.epochs:
        raise journal.epochs.not_served(DOMAIN.name, "journal.repositories")
    partitions = None if key is None else [partition_of(key, journal.epochs[topic].partitions)]
    return committed_ends(journal.settings, journal.epochs, topic, partitions, timeout_s=timeout_s)


def queries_of(journal: ConnectedJournal) -> RepositoryQueries:
    """What reads a journal's repositories from its lake. Raises: MissingExtraError: the extra `lake` is missing."""
    return journal.opened("repositories", _opened)


def _opened(lake: LakeReader) -> RepositoryQueries:
    from .queries import RepositoryQueries

    return lake.beside(partial(RepositoryQueries, kept_bytes=lake.kept_bytes))
