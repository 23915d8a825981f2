"""Transactions: what a block writes goes to a throw-away branch, which is merged into the branch it was made from.

    1 begin     a branch `_tx/<uuid>` is created at the head of the branch
    2 write     everything is staged there, where nobody else sees it
    3 commit    of what is staged there; calls of other threads are finished first, later ones refused, and every
                write's verdict is looked at
    4 merge     into the branch; where its head has moved, again with the new one, unless both changed the same paths
    5 drop      of the throw-away branch, whatever became of it

Whether the merge is in the journal may not be known (step 4): then the throw-away branch stays, and the error says what
is known. Before step 4 nothing has touched the branch, unless the block has merged by itself.

Invariant: a write that returned without an error is in the merge, from whichever thread; one that is too late raises.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from ...producers.options import read_options
from ...schemas.arguments import check_names, check_seconds
from ...schemas.errors import (
    InputError,
    InvalidEventError,
    KafkaUnavailableError,
    MetajournalError,
    OutcomeUnknownError,
    PositionExpired,
    RejectedError,
    UnavailableError,
)
from .errors import (
    DirtyBranchError,
    NothingStagedError,
    NothingToMergeError,
    StaleHeadError,
    TransactionUnknownError,
)
from .events import Committed
from .merges import Merge, MergeOptions
from .urns import TRANSACTION

if TYPE_CHECKING:
    from ...producers.receipts import Receipt
    from ...schemas.urn import Urn
    from .answers import BranchInfo, CommitInfo
    from .client import Branch
    from .events import Entry

MOST_TRIES: Final = 100
"""Merges that are sent at most, each after somebody else's came first."""
SAID: Final = ("actor", "event_time", "cause", "tenant", "block_s")
"""Arguments of `emit` that hold for every event of a transaction."""
_OF_ONE_EVENT: Final = ("expected", "event_id", "repeat")
_ANOTHER: Final = "Begin another one: repo.transaction(…)."


class _Phase(Enum):
    NOT_BEGUN = "not begun"
    BEGINNING = "beginning"
    OPEN = "open"
    ENDED = "ended"


class _Calls:
    """The calls of one block: refused unless it is open; its end refuses more and waits for those under way.

    Threads share it. They enter the lock, never the condition (`producers.asked_ends.AskedEnds` says why), and nobody
    holds it while events are sent or awaited: those may wait for the broker.

    Attributes:
        receipts: of what was written; complete once `finish` has returned.
    """

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []
        self._phase = _Phase.NOT_BEGUN
        self._under_way = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    def check_new(self) -> None:
        """Raises: InputError: the block has begun before."""
        if self._phase is not _Phase.NOT_BEGUN:
            raise InputError("A transaction runs once.", code="transaction-runs-once", hint=_ANOTHER)

    def begin(self) -> None:
        """From now on the block cannot begin again; calls are not accepted yet. Raises: as `check_new`."""
        with self._lock:
            self.check_new()
            self._phase = _Phase.BEGINNING

    def open(self) -> None:
        """Accept calls."""
        with self._lock:
            self._phase = _Phase.OPEN

    def give_up(self) -> None:
        """It could not begin: accept no call, ever."""
        with self._lock:
            self._phase = _Phase.ENDED

    def close(self) -> None:
        """Accept no more calls. Raises: InputError: the block is not open."""
        with self._lock:
            self._check_open()
            self._phase = _Phase.ENDED

    def finish(self, timeout_s: float) -> None:
        """Wait for the calls that were under way when the block was closed.

        Raises:
            UnavailableError: some are still under way after so many seconds.
        """
        until = time.monotonic() + timeout_s
        with self._lock:
            while self._under_way and (left_s := until - time.monotonic()) > 0:
                self._changed.wait(min(left_s, threading.TIMEOUT_MAX))
            under_way = self._under_way
        if under_way:
            raise UnavailableError(
                f"Calls of other threads were still under way {timeout_s:g} s after the block: {under_way:,}.",
                code="transaction-busy", hint="Wait for the other threads inside the block, or raise timeout_s.",
            )  # fmt: skip

    @contextmanager
    def call(self) -> Iterator[list[Receipt]]:
        """A call of the open block, which appends to this list what it has written. Raises: InputError: as `close`."""
        written: list[Receipt] = []
        is_counted = False
        try:
            with self._lock:
                self._check_open()
                self._under_way += 1
                is_counted = True
            yield written
        finally:
            with self._lock:
                self.receipts += written
                self._under_way -= is_counted
                self._changed.notify_all()

    def _check_open(self) -> None:
        if self._phase is _Phase.ENDED:
            raise InputError("The transaction has ended; nothing was sent.", code="transaction-ended", hint=_ANOTHER)
        if self._phase is not _Phase.OPEN:
            raise InputError(
                "The transaction has not begun; nothing was sent.", code="transaction-not-begun",
                hint="Write inside of its block: with repo.transaction(…) as tx: tx.write(…).",
            )  # fmt: skip


class Transaction:
    """What a `with repo.transaction(branch)` block writes: all of it becomes one merge, or nothing.

    Threads may share it. A write that returns before the block ends is in the merge; one outside of the open block
    raises InputError (`transaction-not-begun`, `transaction-ended`) and sends nothing. It runs once
    (`transaction-runs-once`).

    Args:
        onto: the branch that it is merged into.
        own: its throw-away branch, which does not exist yet.
        merge: of the one into the other.
        timeout_s: seconds to wait for what each step becomes.
        said: arguments of `emit`, as `checked` takes them.

    Attributes:
        branch: its throw-away branch; `repo.get(tx.branch.name, path)` and the like read what was written so far.
        merged: the commit of the merge, once the block has ended; if the block has merged all of its work by itself,
            the head of the branch, which contains it; None where nothing was written.
    """

    def __init__(self, onto: Branch, own: Branch, merge: Merge, timeout_s: float, said: Mapping[str, Any]) -> None:
        self.branch = own
        self.merged: CommitInfo | None = None
        self._onto = onto
        self._merge = merge
        self._timeout_s = timeout_s
        self._said = said
        self._head = ""
        self._calls = _Calls()
        self._undecided: Receipt | None = None
        """Of a merge that was sent, as long as its verdict is not known."""

    def write(self, entries: Entry | Mapping[str, Any] | Iterable[Entry | Mapping[str, Any]]) -> None:
        """Stage objects. Arguments and errors as `Branch.write`. Raises: InputError: also outside of the block."""
        with self._calls.call() as written:
            written += self.branch.write(entries, **self._said)

    def delete(self, paths: str | Iterable[str], *, only_existing: bool = True) -> None:
        """Stage the deletion of paths. Arguments and errors as `Branch.delete`. Raises: InputError: as `write`."""
        with self._calls.call() as written:
            written += self.branch.delete(
                paths, only_existing=only_existing, timeout_s=self._timeout_s, **self._said
            )  # fmt: skip

    def reset(self, *, path: str | None = None, prefix: str | None = None) -> None:
        """Drop what is staged: all, one path, or all paths with a prefix. Errors as `Branch.reset` and `write`."""
        with self._calls.call() as written:
            written.append(self.branch.reset(path=path, prefix=prefix, timeout_s=self._timeout_s, **self._said))

    def __enter__(self) -> Self:
        self._calls.check_new()
        info = self._onto.info(tenant=self._merge.tenant, timeout_s=self._timeout_s)
        if info.staged_events:
            raise DirtyBranchError(info.urn, info.staged_events, info.staged_rows)
        self._calls.begin()
        try:
            self._create(info)
        except BaseException:
            self._calls.give_up()
            raise
        self._calls.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.close()
        if error is not None:
            self._drop_after(error)
            return
        try:
            self._calls.finish(self._timeout_s)
            commit = self._committed()
            merged = None if commit is None else self._merged(commit)
        except BaseException as failure:
            self._drop_after(failure)
            raise
        try:
            dropped = self._drop()
            self.merged = None if merged is None else self._result(merged)
            dropped.position  # noqa: B018  (waits)
        except BaseException as late:
            if merged is not None:
                place = merged if isinstance(merged, str) else merged.position
                late.add_note(f"  The transaction is merged into {self._onto.name}, at {place}.")
            late.add_note(f"  The branch {self.branch.name} of {self.branch.repository.name} may be left.")
            raise

    def _create(self, info: BranchInfo) -> None:
        """Create the throw-away branch where the other one is. Raises: RejectedError: it was refused."""
        self._head = info.head or ""
        if not self._head:  # what others commit first has nothing in common with what is written here
            options = replace(self._merge.options, unrelated=True)
            self._merge = replace(self._merge, options=options)
        created = self.branch.create(info.head, **self._said)
        try:
            self._accept(created, self._timeout_s)
        except RejectedError:
            raise
        except BaseException as failure:
            self._drop_after(failure, has_begun=False)
            raise

    def _accept(self, receipt: Receipt, timeout_s: float) -> None:
        """Wait for a verdict. Raises: RejectedError: it was refused. Others as `Verdicts.outcome`."""
        merge = self._merge
        merge.verdicts.accepted(receipt, merge.repository, merge.tenant, timeout_s, ahead=merge.ahead)

    def _committed(self) -> CommitInfo | None:
        """The commit of what was written; None where nothing was."""
        until = time.monotonic() + self._timeout_s
        for receipt in self._calls.receipts:
            self._accept(receipt, max(0.0, until - time.monotonic()))
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

    def _merged(self, commit: CommitInfo) -> Receipt | str:
        """The merge that was accepted; or the head of the branch, where that contains the commit already.

        Raises: as `_sent_until_accepted`.
        """
        try:
            return self._sent_until_accepted(commit)
        except NothingToMergeError as contained:  # the block has merged by itself
            return contained.destination_head or commit.id

    def _result(self, merged: Receipt | str) -> CommitInfo:
        """The commit of what `_merged` gave."""
        if isinstance(merged, str):
            repository, tenant = self.branch.repository, self._merge.tenant
            return repository.commit(merged, tenant=tenant, timeout_s=self._timeout_s)
        return self._merge.made(merged, self._timeout_s)

    def _sent_until_accepted(self, commit: CommitInfo) -> Receipt:
        """The merge, sent until it comes first; gives the one that was accepted.

        Raises:
            NothingToMergeError: the branch contains the commit already.
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
            self._accept(receipt, self._timeout_s)
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

    def _drop_after(self, failure: BaseException, *, has_begun: bool = True) -> None:
        """The same where the transaction failed, without hiding why; nothing where the merge may still be accepted.

        Args:
            has_begun: the block has, so it may have merged something by itself.
        """
        name = f"The branch {self.branch.name} of {self.branch.repository.name}"
        if self._undecided is not None:
            failure.add_note(f"  {name} is kept: whether it is merged into {self._onto.name} is not known.")
            return
        when = " at the end of the block" if has_begun else ""
        failure.add_note(f"  Nothing was merged into {self._onto.name}{when}.")
        try:
            receipt = self._drop()
            if not isinstance(failure, OutcomeUnknownError | UnavailableError):
                receipt.position  # noqa: B018  (waits; a broker that is away would take its time once more)
        except MetajournalError as error:
            failure.add_note(f"  {name} may be left: {error}")


def throw_away_name() -> str:
    """The name of a new transaction's branch."""
    return f"{TRANSACTION}{uuid4()}"


def checked(own: Urn, message: str, metadata: Mapping[str, str] | None, said: Mapping[str, Any]) -> MergeOptions:
    """What the commit and the merge of a transaction say, before anything is sent.

    Args:
        own: the URN of its throw-away branch.
        said: arguments of `emit`.
    Raises:
        InputError: an argument is unknown, or of one event alone.
        InvalidEventError: message, metadata or an argument cannot be, as `Branch.commit` refuses it.
    """
    if wrong := [name for name in _OF_ONE_EVENT if name in said]:
        raise InputError(
            f"A transaction sends several events, so {wrong[0]} cannot be given.", hint=f"Omit {wrong[0]}."
        )
    check_names(said, SAID, "A transaction")
    check_seconds("block_s", said.get("block_s", 0.0))
    of_every_event = {name: said.get(name) for name in SAID if name != "block_s"}
    _, faults = read_options(expected=None, event_id=None, repeat=False, **of_every_event)
    commit = Committed(own, message, metadata)
    if faults := commit.validate() + faults:
        raise InvalidEventError(faults)
    return MergeOptions(message=message, metadata=commit.metadata)
