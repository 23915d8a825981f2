"""Transactions: what a block writes goes to a throw-away branch, which is merged into the branch it was made from.

    1 begin     a branch `_tx/<uuid>` is created at the head of the branch
    2 write     everything is staged there, where nobody else sees it
    3 commit    of what is staged there; every write's verdict is looked at first
    4 merge     into the branch; where its head has moved, again with the new one, unless both changed the same paths
    5 drop      of the throw-away branch, whatever became of it

Whether the merge is in the journal may not be known (step 4): then the throw-away branch stays, and the error says what
is known. Before step 4 nothing has touched the branch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from ...schemas.errors import (
    InputError,
    KafkaUnavailableError,
    MetajournalError,
    OutcomeUnknownError,
    PositionExpired,
    RejectedError,
    UnavailableError,
)
from .errors import DirtyBranchError, NothingStagedError, StaleHeadError, TransactionUnknownError
from .merges import Merge
from .urns import TRANSACTION

if TYPE_CHECKING:
    from ...producers.receipts import Receipt
    from .answers import CommitInfo
    from .client import Branch
    from .events import Entry

MOST_TRIES: Final = 100
"""Merges that are sent at most, each after somebody else's came first."""
_NOT_ONE_EVENT: Final = ("expected", "event_id", "repeat")


class Transaction:
    """What a `with repo.transaction(branch)` block writes: all of it becomes one merge, or nothing.

    Args:
        onto: the branch that it is merged into.
        own: its throw-away branch, which does not exist yet.
        merge: of the one into the other.
        timeout_s: seconds to wait for what each step becomes.
        said: arguments of `emit`.

    Attributes:
        branch: its throw-away branch; `repo.get(tx.branch.name, path)` and the like read what was written so far.
        merged: the commit of the merge, once the block has ended; None where nothing was written.
    """

    def __init__(self, onto: Branch, own: Branch, merge: Merge, timeout_s: float, said: Mapping[str, Any]) -> None:
        if wrong := [name for name in _NOT_ONE_EVENT if name in said]:
            raise InputError(
                f"A transaction sends several events, so {wrong[0]} cannot be given.", hint=f"Omit {wrong[0]}."
            )
        self.branch = own
        self.merged: CommitInfo | None = None
        self._onto = onto
        self._merge = merge
        self._timeout_s = timeout_s
        self._said = said
        self._head = ""
        self._written: list[Receipt] = []
        self._undecided: Receipt | None = None
        """Of a merge that was sent, as long as its verdict is not known."""

    def write(self, entries: Entry | Mapping[str, Any] | Iterable[Entry | Mapping[str, Any]]) -> None:
        """Stage objects. Arguments and errors as `Branch.write`."""
        self._written += self.branch.write(entries, **self._said)

    def delete(self, paths: str | Iterable[str], *, only_existing: bool = True) -> None:
        """Stage the deletion of paths. Arguments and errors as `Branch.delete`."""
        self._written += self.branch.delete(
            paths, only_existing=only_existing, timeout_s=self._timeout_s, **self._said
        )  # fmt: skip

    def reset(self, *, path: str | None = None, prefix: str | None = None) -> None:
        """Drop what is staged: all, one path, or all paths with a prefix. Errors as `Branch.reset`."""
        reset = self.branch.reset(path=path, prefix=prefix, timeout_s=self._timeout_s, **self._said)
        self._written.append(reset)

    def __enter__(self) -> Self:
        info = self._onto.info(tenant=self._merge.tenant, timeout_s=self._timeout_s)
        if info.staged_events:
            raise DirtyBranchError(info.urn, info.staged_events, info.staged_rows)
        if self._written or self.merged is not None:
            raise InputError("A transaction runs once.", hint="Begin another one: repo.transaction(…).")
        self._head = info.head or ""
        if not self._head:  # what others commit first has nothing in common with what is written here
            options = replace(self._merge.options, unrelated=True)
            self._merge = replace(self._merge, options=options)
        created = self.branch.create(info.head, **self._said)
        try:
            self._accept(created)
        except RejectedError:
            raise
        except BaseException as failure:
            self._drop_after(failure)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._drop_after(error)
            return
        try:
            commit = self._committed()
            receipt = None if commit is None else self._merged(commit)
        except BaseException as failure:
            self._drop_after(failure)
            raise
        try:
            dropped = self._drop()
            if receipt is not None:
                self.merged = self._merge.made(receipt, self._timeout_s)
            dropped.position  # noqa: B018  (waits)
        except BaseException as late:
            if receipt is not None:
                late.add_note(f"  The transaction is merged into {self._onto.name}, at {receipt.position}.")
            late.add_note(f"  The branch {self.branch.name} of {self.branch.repository.name} may be left.")
            raise

    def _accept(self, receipt: Receipt) -> None:
        """Wait for a verdict. Raises: RejectedError: it was refused. Others as `Verdicts.outcome`."""
        merge = self._merge
        merge.verdicts.accepted(receipt, merge.repository, merge.tenant, self._timeout_s, ahead=merge.ahead)

    def _committed(self) -> CommitInfo | None:
        """The commit of what was written; None where nothing was."""
        for receipt in self._written:
            self._accept(receipt)
        options = self._merge.options
        try:
            return self.branch.commit(options.message, options.metadata, timeout_s=self._timeout_s, **self._said)
        except NothingStagedError:
            tenant, timeout_s = self._merge.tenant, self._timeout_s
            head = self.branch.info(tenant=tenant, timeout_s=timeout_s).head
            if head is None or head == self._head:
                return None
            # the block has committed itself
            return self.branch.repository.commit(head, tenant=tenant, timeout_s=timeout_s)

    # The merge

    def _merged(self, commit: CommitInfo) -> Receipt:
        """The merge, sent until it comes first; gives the one that was accepted.

        Raises:
            StaleHeadError: somebody else always came first.
            MergeConflictError: what came first has changed the same paths.
            TransactionUnknownError: it may or may not be merged.
        """
        until = time.monotonic() + self._timeout_s
        merge, head = self._merge, self._head
        for tries in range(1, MOST_TRIES + 1):
            receipt = merge.emit(commit.id, head, None, self._said)
            try:
                self._settle(receipt, commit)
            except StaleHeadError as stale:
                left_s = until - time.monotonic()
                if stale.branch != str(merge.destination) or tries == MOST_TRIES or left_s <= 0:
                    raise
                head = stale.found
                merge.check_commits(commit.id, head, receipt.position.value, left_s)
            else:
                break
        return receipt

    def _settle(self, receipt: Receipt, commit: CommitInfo) -> None:
        """Wait for the verdict on the merge. Raises: TransactionUnknownError: it is not known."""
        self._undecided = receipt
        try:
            receipt.position  # noqa: B018  (waits; the broker's refusal says that the event is not in the log)
        except OutcomeUnknownError as error:
            raise self._unknown(receipt, commit, "The merge may or may not be in the journal") from error
        except KafkaUnavailableError:
            self._undecided = None
            raise
        try:
            self._accept(receipt)
            self._undecided = None
        except RejectedError:
            self._undecided = None
            raise
        except (UnavailableError, PositionExpired, OutcomeUnknownError) as error:
            known = f"The merge is in the journal at {receipt.position}, and whether it was accepted is not known"
            raise self._unknown(receipt, commit, known) from error

    def _unknown(self, receipt: Receipt, commit: CommitInfo, known: str) -> TransactionUnknownError:
        return TransactionUnknownError(
            f"{known}: {self.branch.urn} at {commit.id[:12]} into {self._onto.urn}.",
            branch=str(self._onto.urn), transaction=str(self.branch.urn), commit=commit.id, event_id=receipt.event_id,
        )  # fmt: skip

    # The end

    def _drop(self) -> Receipt:
        """Delete the throw-away branch."""
        return self.branch.drop(**self._said)

    def _drop_after(self, failure: BaseException) -> None:
        """The same where the transaction failed, without hiding why; nothing where the merge may still be accepted."""
        name = f"The branch {self.branch.name} of {self.branch.repository.name}"
        if self._undecided is not None:
            failure.add_note(f"  {name} is kept: whether it is merged into {self._onto.name} is not known.")
            return
        failure.add_note(f"  Nothing was merged into {self._onto.name}.")
        try:
            receipt = self._drop()
            if not isinstance(failure, OutcomeUnknownError | UnavailableError):
                receipt.position  # noqa: B018  (waits; a broker that is away would take its time once more)
        except MetajournalError as error:
            failure.add_note(f"  {name} may be left: {error}")


def throw_away_name() -> str:
    """The name of a new transaction's branch."""
    return f"{TRANSACTION}{uuid4()}"
