"""`journal.repositories`: repositories, their branches and commits; what changes them, what the lake tells of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...lake_client import ConnectedJournal, Point, point
from ...schemas.arguments import check_seconds
from ...schemas.errors import InvalidEventError, MetajournalError, MissingExtraError, UnknownEntityError
from .events import (
    NO_STRATEGY,
    REFUSE,
    RESOLVE,
    BranchCreated,
    BranchDeleted,
    BranchReset,
    BranchReverted,
    Committed,
    Entry,
    ObjectsDeleted,
    ObjectsRegistered,
    ObjectsUnregistered,
    ObjectsWritten,
    RepositoryCreated,
    RepositoryDeleted,
)
from .merges import Merge, MergeOptions, check_merge
from .pieces import oversized, pieces, pieces_of_paths
from .questions import check_branch, check_repository
from .reads import ends_of, queries_of, settle, tenant_of
from .transactions import Transaction, checked, throw_away_name
from .upkeep import RepositoryUpkeep
from .urns import branch_urn, commit_urn
from .verdicts import Verdicts

if TYPE_CHECKING:
    from ...producers.receipts import Receipt
    from .answers import AnswerList, BranchInfo, CommitInfo, RepositoryInfo

WAIT_S: Final = 30.0
"""Seconds to wait for a verdict, and for the lake to hold what it speaks of."""


class RepositoriesClient:
    """All repositories: `journal.repositories["name"]` is one of them.

    Args:
        journal: whose repositories.
    """

    def __init__(self, journal: ConnectedJournal) -> None:
        self._journal = journal

    def __getitem__(self, name: str) -> Repository:
        """A repository, whether it exists or not. Raises: InputError: none can have that name."""
        return Repository(self._journal, check_repository(name))

    def __iter__(self) -> Iterator[str]:
        """The names of those that exist, as `list` has them, with its errors; so `in` asks whether one exists."""
        return (info.name for info in self.list())

    def waiting(self, name: str) -> Repository:
        """A repository as a process asks it that does not stay: reads wait for the lake, and open no follower."""
        return Repository(self._journal, check_repository(name), stays=False)

    def create(
        self, name: str, *, storage_namespace: str, default_branch: str = "main", timeout_s: float = WAIT_S, **said: Any
    ) -> Repository:
        """Create a repository, and wait for the verdict.

        Args:
            name: `[a-z0-9][a-z0-9._-]{0,62}`.
            storage_namespace: where the objects' bytes lie, such as `s3://bucket/folder`.
            default_branch: name of the branch that it begins with.
            timeout_s: seconds to wait for the verdict.
            said: arguments of `emit`: actor, tenant, event_time, cause, expected.
        Raises:
            InputError, InvalidEventError: a name cannot be. Nothing was sent.
            AlreadyThereError: there is one of that name. RejectedError: for another reason.
            OutcomeUnknownError: no verdict came in time.
        """
        repository = self[name]
        made = RepositoryCreated(repository.urn, default_branch, storage_namespace)
        self._journal.emit(made, **said).outcome(timeout_s).raise_if_rejected()
        return repository

    def list(
        self, *, as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S
    ) -> AnswerList[RepositoryInfo]:
        """Every repository, by name.

        Args:
            as_at: as the journal recorded it then (see `show`); None: now. Whether an event still to come can change
                the answer, `.final` says.
            tenant: `journal.tenant` of the settings if None.
            timeout_s: seconds to wait until the lake holds what the journal holds now.
        Raises:
            NotFinalError: the lake has not reached that position, or the time is in the future.
            NotYetVisibleError: the lake did not reach it in time.
            MissingExtraError: the packages of the extra `lake` are not installed.
        """
        who = tenant_of(self._journal, tenant)
        if as_at is None:
            settle(self._journal, timeout_s)
            self._journal.wait(ends_of(self._journal, timeout_s=timeout_s), timeout_s=timeout_s)
        return queries_of(self._journal).repositories(who, as_at=point(as_at))


class Repository(RepositoryUpkeep):
    """One repository: what it has (see `RepositoryReads` and `RepositoryUpkeep`), and what changes it.

    Args:
        journal: whose.
        name: its name.
        stays: as of `RepositoryReads`.
    """

    def __repr__(self) -> str:
        return f"<Repository {self.name}>"

    def branch(self, name: str) -> Branch:
        """A branch, whether it exists or not. Raises: InputError: none can have that name."""
        return Branch(self._journal, self, check_branch(name))

    def delete(self, **said: Any) -> Receipt:
        """Delete it, with its branches and registered objects; commits stay. Arguments of `emit`, and its errors."""
        return self._journal.emit(RepositoryDeleted(self.urn), **said)

    def register(self, paths: Iterable[str], **said: Any) -> list[Receipt]:
        """Make objects entities, which search finds and which take tags: up to 1,000 an event.

        Args:
            paths: any number of them, without an empty segment.
            said: arguments of `emit`.
        Raises:
            InvalidEventError: a path cannot be registered. What was sent before stays: `sent` says how many paths,
                where there are some, and the faults count behind them. So does any other error of `emit`.
        """
        return self._sent(ObjectsRegistered, paths, said)

    def unregister(self, paths: Iterable[str], **said: Any) -> list[Receipt]:
        """Make objects entities no longer. Arguments and errors as `register`."""
        return self._sent(ObjectsUnregistered, paths, said)

    def _sent(
        self, event: type[ObjectsRegistered | ObjectsUnregistered], paths: Iterable[str], said: Mapping[str, Any]
    ) -> list[Receipt]:
        given = pieces_of_paths(paths, registered_in=self.name)
        return _sent(given, lambda some: self._journal.emit(event(self.urn, some), **said))

    def transaction(
        self, branch: str, message: str = "", metadata: Mapping[str, str] | None = None, *, timeout_s: float = WAIT_S,
        **said: Any,
    ) -> Transaction:  # fmt: skip
        """A block whose writes become one merge into a branch, or nothing.

            with repo.transaction("main", "Prices of May") as tx:
                tx.write(prices)
                tx.delete(["april.csv"])
            tx.merged.id

        They go to a throw-away branch, made at the branch's head. At the end of the block that is committed, merged,
        once more with the new head where another commit came first, and deleted. An exception in the block deletes it
        and merges nothing. Threads may share the block: a write that returns before its end is in the merge, a later
        one raises InputError.

        Args:
            branch: name of the branch.
            message, metadata: of the commit and of the merge.
            timeout_s: seconds to wait for what each step becomes, and to try the merge again.
            said: arguments of `emit` that hold for every event.
        Raises:
            InputError, InvalidEventError: an argument cannot be. Nothing was sent.
            UnknownEntityError: at the beginning: the branch or the repository does not exist.
            DirtyBranchError: something is staged on the branch.
            MergeConflictError: what came first has changed the same paths differently.
            StaleHeadError: others came first until the time was over.
            TransactionUnknownError: it is not known whether it is merged; the error has what is known.
            RejectedError: a write was refused; nothing was merged.
            UnavailableError: `transaction-busy`: calls of other threads did not finish in time; nothing was merged.
            OutcomeUnknownError, NotYetVisibleError, MissingExtraError: as `Branch.commit`; nothing was merged.
        """
        check_seconds("timeout_s", timeout_s)
        onto, own = self.branch(branch), self.branch(throw_away_name())
        merge = own._merge(onto, checked(own.urn, message, metadata, said), said)
        return Transaction(onto, own, merge, timeout_s, said)


class Branch:
    """One branch of a repository.

    Args:
        journal: whose.
        repository: its repository.
        name: its name.

    Attributes:
        name: its name.
        urn: its URN.
        repository: its repository.
    """

    def __init__(self, journal: ConnectedJournal, repository: Repository, name: str) -> None:
        self._journal = journal
        self.repository = repository
        self.name = name
        self.urn = branch_urn(repository.name, name)

    def __repr__(self) -> str:
        return f"<Branch {self.name} of {self.repository.name}>"

    def create(self, commit: str | None = None, **said: Any) -> Receipt:
        """Create it.

        Args:
            commit: id of the commit that it begins at; None: without one.
            said: arguments of `emit`.
        Raises:
            InvalidEventError: the id cannot be.
        """
        at = None if commit is None else commit_urn(self.repository.name, commit)
        return self._journal.emit(BranchCreated(self.urn, at), **said)

    def drop(self, *, expected_head: str | None = None, **said: Any) -> Receipt:
        """Delete the branch itself, and what is staged on it. Arguments and errors as `reset`."""
        return self._journal.emit(BranchDeleted(self.urn, expected_head), **said)

    def write(
        self, entries: Entry | Mapping[str, Any] | Iterable[Entry | Mapping[str, Any]], **said: Any
    ) -> list[Receipt]:  # fmt: skip
        """Stage objects: up to 1,000 an event. A later entry of a path replaces all of it.

            repo.branch("main").write([{"path": "a.csv", "size": 3, "checksum": "…", "address": "s3://b/1"}])

        Args:
            entries: one `Entry`, or mapping of its fields, or any number of them; each path once in an event.
            said: arguments of `emit`.
        Returns:
            The receipt of each event.
        Raises:
            InputError: they are no entries at all.
            InvalidEventError: an entry cannot be, with the faults of its event. What was sent before stays staged:
                `sent` says how many entries, where there are some, and the faults count behind them. So does any other
                error of `emit`. Of a list the first event is sent once none of the entries exceeds an event by itself.
        """
        is_listed = isinstance(entries, list | tuple) and type(entries) is not Entry
        if is_listed and (faults := oversized(entries)):
            raise InvalidEventError(faults)
        return self._staged(ObjectsWritten, pieces(entries), said)

    def delete(
        self, paths: str | Iterable[str], *, only_existing: bool = True, timeout_s: float = WAIT_S, **said: Any
    ) -> list[Receipt]:
        """Stage the deletion of a path, or of many: up to 1,000 an event.

        Paths at which the branch has nothing are left out, so what is already gone stages nothing. They are looked up
        once everything that this client has sent before is acknowledged, or has failed.

        Args:
            paths: one path, or any number of them; each once in 1,000.
            only_existing: look them up; False: send all. So does a client without the extra `lake`, which cannot look.
                A conflict whose path the destination has deleted is resolved by sending its deletion once more.
            timeout_s: seconds to wait until what the journal holds now, and what this client has sent, can be seen.
            said: arguments of `emit`.
        Returns:
            The receipt of each event; none where nothing was there.
        Raises:
            NotYetVisibleError: what the branch has could not be seen in time. Others as `write`; what was sent before
                stays staged.
        """
        if not only_existing:
            return self._staged(ObjectsDeleted, pieces_of_paths(paths), said)
        check_seconds("timeout_s", timeout_s)
        there = partial(self.existing, tenant=said.get("tenant"), timeout_s=timeout_s)
        return self._staged(ObjectsDeleted, pieces_of_paths(paths), said, there)

    def existing(self, paths: list[str], *, tenant: str | None = None, timeout_s: float = WAIT_S) -> list[str]:
        """Those of some paths that deleting would change, as far as that can be known.

        Args:
            paths: at most 1,000.
            tenant: `journal.tenant` of the settings if None.
            timeout_s: seconds to wait until what the journal holds now, and what this client has sent, can be seen.
        Returns:
            All of them where a client without the extra `lake` cannot look, or there is no such branch.
        Raises:
            NotYetVisibleError: it could not be seen in time.
        """
        if ObjectsDeleted(self.urn, paths).validate():
            return paths  # their event is refused, and says why
        try:
            there = self.repository.existing(self.name, paths, tenant=tenant, timeout_s=timeout_s)
        except (MissingExtraError, UnknownEntityError):
            return paths
        return [path for path in paths if path in there]

    def _staged(
        self, event: type[ObjectsWritten | ObjectsDeleted], given: Iterable[list[Any]], said: Mapping[str, Any],
        chosen: Callable[[list[Any]], list[Any]] = lambda some: some,
    ) -> list[Receipt]:  # fmt: skip
        """Send an event of each piece, or of what is chosen of it."""

        def send(some: list[Any]) -> Receipt | None:
            wanted = chosen(some)
            return self._journal.emit(event(self.urn, wanted), **said) if wanted else None

        return _sent(given, send, "stay staged")

    def commit(
        self, message: str, metadata: Mapping[str, str] | None = None, *, expected_head: str | None = None,
        staging_digest: str | None = None, allow_empty: bool = False, timeout_s: float = WAIT_S, **said: Any,
    ) -> CommitInfo:  # fmt: skip
        """Commit what is staged, and wait until that is known to be accepted.

        A process that stays knows it from a follower, some milliseconds after the acknowledgement and before the lake
        has the commit; any other waits for the outcome and for the lake.

        Args:
            message, metadata: of the commit.
            expected_head: id of the commit that the branch must be at; empty: none; None: any.
            staging_digest: what must be staged (`info().staging_digest`); None: anything.
            allow_empty: also where nothing is staged.
            timeout_s: seconds to wait.
            said: arguments of `emit`.
        Raises:
            InvalidEventError: an argument cannot be. Nothing was sent.
            StaleHeadError, StaleStagingError, NothingStagedError: it was refused.
            RejectedError: for another reason, such as `unknown-entity`.
            OutcomeUnknownError: it may or may not be in the log.
            NotYetVisibleError: the verdict, or the commit in the lake, was not known in time.
            MissingExtraError: the packages of the extra `lake` are not installed; nothing was sent.
        """
        check_seconds("timeout_s", timeout_s)
        queries, verdicts = queries_of(self._journal), Verdicts.of(self._journal)
        event = Committed(self.urn, message, metadata, expected_head, staging_digest, allow_empty)
        receipt = self._journal.emit(event, **said)
        tenant = tenant_of(self._journal, said.get("tenant"))
        return verdicts.committed(receipt, queries, self.repository.urn, tenant, timeout_s, self.repository.stays)

    def merge_into(
        self, destination: str | Branch, *, strategy: str = NO_STRATEGY, staged: str = REFUSE,
        staging_digest: str | None = None, message: str = "", metadata: Mapping[str, str] | None = None,
        source_head: str | None = None, destination_head: str | None = None, timeout_s: float = WAIT_S, **said: Any,
    ) -> CommitInfo:  # fmt: skip
        """Merge it into another branch, which gets a commit with both heads as parents.

        Heads, history and contents are looked at first, so most refusals come before anything is sent (`position` of
        the error is None). If a head moves meanwhile, the rules refuse the merge (`StaleHeadError`): decide again.

        Args:
            destination: a branch of the same repository.
            strategy: whose value a path gets that both have changed differently: `none` refuses the merge,
                `source-wins`, `dest-wins`.
            staged: what becomes of what is staged on the destination: `refuse` refuses the merge, `resolve` lays it
                over the result; that is how to resolve conflicts.
            staging_digest: of what must be staged on the destination (`info().staging_digest`); with `resolve`, what
                is staged now where None.
            message, metadata: of the commit.
            source_head, destination_head: ids of the commits where the branches must be; empty: none; None: where they
                are now.
            timeout_s: seconds to wait for heads, verdict and contents, each.
            said: arguments of `emit`.
        Raises:
            StaleHeadError, StaleStagingError: a branch is elsewhere, or something else is staged.
            DirtyBranchError: something is staged on the source, or on the destination without `resolve`.
            NothingToMergeError: the destination has all of the source.
            UnrelatedHistoriesError: they have no common ancestor.
            MergeConflictError: both have changed paths differently; it has both heads and the first 100 paths with
                what they are at the base and on both sides.
            UnknownEntityError: a branch or the repository does not exist.
            InvalidEventError: an argument cannot be, or the destination is this branch; nothing was read or sent.
            OutcomeUnknownError, NotYetVisibleError, MissingExtraError: as `commit`.
        """
        check_seconds("timeout_s", timeout_s)
        onto = destination if isinstance(destination, Branch) else self.repository.branch(destination)
        options = MergeOptions(strategy, staged, message, metadata)
        check_merge(self.urn, onto.urn, options, source_head, destination_head, staging_digest)
        merge = self._merge(onto, options, said)
        taken, into = (one.info(tenant=merge.tenant, timeout_s=timeout_s) for one in (self, onto))
        merge.check_branches(taken, into, source_head, destination_head, staging_digest)
        heads = taken.head or "", into.head or ""
        merge.check_commits(*heads, max(taken.logical_timestamp, into.logical_timestamp), timeout_s)
        if staged == RESOLVE and staging_digest is None:
            staging_digest = into.staging_digest
        return merge.send(*heads, staging_digest, timeout_s, said)

    def _merge(self, onto: Branch, options: MergeOptions, said: Mapping[str, Any]) -> Merge:
        journal, stays = self._journal, self.repository.stays
        tenant = tenant_of(journal, said.get("tenant"))
        return Merge(journal, Verdicts.of(journal), queries_of(journal), tenant, self.urn, onto.urn, options, stays)

    def reset(
        self, *, path: str | None = None, prefix: str | None = None, staging_digest: str | None = None,
        expected_head: str | None = None, timeout_s: float = WAIT_S, **said: Any,
    ) -> Receipt:  # fmt: skip
        """Drop what is staged: all, one path, or all paths with a prefix.

        If one path or a prefix is all that is staged, everything is dropped, so that the branch is clean again: with
        the digest that was seen, so that a write that comes first is not lost (the reset is `stale-staging` then).

        Args:
            path, prefix: one of the two, or neither for everything.
            staging_digest, expected_head: as of `commit`.
            timeout_s: seconds to wait until what is staged now can be seen, where it is looked at.
            said: arguments of `emit`.
        Raises:
            InvalidEventError: an argument cannot be.
            NotYetVisibleError: as `delete`, of one path or a prefix.
        """
        check_seconds("timeout_s", timeout_s)
        event = BranchReset(self.urn, path, prefix, staging_digest, expected_head)
        if (path is not None or prefix is not None) and not event.validate():
            seen = self._emptied_by(path, prefix, said.get("tenant"), timeout_s)
            if seen is not None and staging_digest in (None, seen):
                event = BranchReset(self.urn, None, None, seen, expected_head)
        return self._journal.emit(event, **said)

    def _emptied_by(self, path: str | None, prefix: str | None, tenant: str | None, timeout_s: float) -> str | None:
        """The digest of what is staged where a reset leaves nothing of it, as far as that can be known."""
        try:
            return self.repository._emptied_by(self.name, path, prefix, tenant, timeout_s)
        except (MissingExtraError, UnknownEntityError):
            return None

    def revert(self, commit: str, *, expected_head: str | None = None, **said: Any) -> Receipt:
        """Have the head be another commit of the repository, by its id. Arguments and errors as `reset`."""
        at = commit_urn(self.repository.name, commit)
        return self._journal.emit(BranchReverted(self.urn, at, expected_head), **said)

    def info(self, *, as_at: Point | None = None, tenant: str | None = None, timeout_s: float = WAIT_S) -> BranchInfo:
        """Where it is and what is staged.

        Raises:
            UnknownEntityError: it does not exist (then). Others as `Repository.info`.
        """
        return self.repository.branch_info(self.name, as_at=as_at, tenant=tenant, timeout_s=timeout_s)


class WithRepositories(ConnectedJournal, Protocol):
    """A journal that has this as an object of its own."""

    @property
    def repositories(self) -> RepositoriesClient:
        """`Journal.repositories`."""


CLIENT: Final = RepositoriesClient
"""What `journal.repositories` is."""


def _sent(
    given: Iterable[list[Any]], send: Callable[[list[Any]], Receipt | None], stays: str = "stay"
) -> list[Receipt]:  # fmt: skip
    """Send each piece; an error behind the first one says how many were sent.

    Args:
        send: one event of a piece; None where nothing of it is to be sent.
        stays: what becomes of what was sent.
    """
    receipts: list[Receipt] = []
    sent = 0
    for some in given:
        try:
            receipt = send(some)
        except MetajournalError as error:
            if sent:
                error.data = {**error.data, "sent": sent}
                error.__dict__["sent"] = sent
                error.advise(_behind(error, sent, stays))
            raise
        receipts += [] if receipt is None else [receipt]
        sent += len(some)
    return receipts


def _behind(error: MetajournalError, sent: int, stays: str) -> str:
    """The next step after an error behind some that were sent."""
    if isinstance(error, InvalidEventError):
        return f"Correct the listed fields, counted from number {sent:,} on; the {sent:,} in front {stays}."
    return f"{error.hint} Go on from number {sent:,}; the {sent:,} in front {stays}."
