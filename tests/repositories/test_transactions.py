"""Transactions: all that a block writes becomes one merge, or nothing; and what is not known is said."""

from __future__ import annotations

from typing import Any

import pytest

from metajournal.domains.repositories import transactions
from metajournal.domains.repositories.client import Repository
from metajournal.domains.repositories.errors import (
    DirtyBranchError,
    MergeConflictError,
    StaleHeadError,
    TransactionUnknownError,
)
from metajournal.domains.repositories.merges import Merge
from metajournal.domains.repositories.verdicts import Verdicts
from metajournal.producers.receipts import Receipt
from metajournal.schemas.errors import InputError, NotYetVisibleError, OutcomeUnknownError, RejectedError
from tests.consumers.stream import BrokerStream
from tests.repositories.staying import WAIT_S, committed, entry
from tests.wait import eventually


def left(repo: Repository) -> list[str]:
    """The branches of transactions that are there."""
    return [one.name for one in repo.branches(transactions=True) if one.name.startswith("_tx/")]


def test_what_a_block_writes_becomes_one_merge(repo: Repository, stream: BrokerStream) -> None:
    main = repo.branch("main")
    first = committed(main, "a", "b")
    with repo.transaction("main", "prices", {"by": "me"}, timeout_s=WAIT_S, actor="carol") as tx:
        tx.write([entry("a", "c2"), entry("c")])
        tx.delete(["b"])
        tx.write([entry("d")])
        tx.reset(path="d")
        assert main.info().head == first
        assert [one.path for one in repo.list(tx.branch.name).objects] == ["a", "c"]
        assert [one.path for one in repo.list("main").objects] == ["a", "b"]
    assert tx.merged is not None
    own = tx.merged.parents[1]
    assert (tx.merged.parents[0], tx.merged.message, dict(tx.merged.metadata)) == (first, "prices", {"by": "me"})
    assert (tx.merged.actor, repo.commit(own).branch) == ("carol", tx.branch.name)
    assert (main.info().head, left(repo)) == (tx.merged.id, [])
    stream.fold()
    assert [one.id for one in repo.log("main").items] == [tx.merged.id, own, first]


def test_a_branch_without_commit_gets_one_and_an_empty_block_none(repo: Repository) -> None:
    with repo.transaction("main", timeout_s=WAIT_S) as tx:
        pass
    assert (tx.merged, repo.branch("main").info().head) == (None, None)
    with repo.transaction("main") as tx:
        tx.write([entry("a")])
    assert tx.merged is not None
    assert (len(tx.merged.parents), tx.merged.strategy, left(repo)) == (1, "none", [])
    with repo.transaction("main") as tx:
        tx.write([entry("b")])
        inner = tx.branch.commit("the block itself commits")
    assert tx.merged is not None
    assert tx.merged.parents == (repo.log("main").items[2].id, inner.id)
    with pytest.raises(InputError, match="runs once"), tx:
        pytest.fail("the block must not begin")


def test_a_merge_that_is_made_is_said_though_the_branch_could_not_be_dropped(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(repo.branch("main"), "a")
    transaction = repo.transaction("main")

    class Lost:
        @property
        def position(self) -> None:
            raise OutcomeUnknownError("no answer")

    def interrupted() -> None:
        with transaction as tx:
            tx.write([entry("b")])
            monkeypatch.setattr(tx, "_drop", Lost)

    with pytest.raises(OutcomeUnknownError) as failure:
        interrupted()
    assert transaction.merged is not None
    assert repo.branch("main").info().head == transaction.merged.id
    notes = failure.value.__notes__
    assert any(one.startswith("  The transaction is merged into main, at ") for one in notes)
    assert f"  The branch {transaction.branch.name} of {repo.name} may be left." in notes


def test_an_exception_in_the_block_merges_nothing(repo: Repository) -> None:
    first = committed(repo.branch("main"), "a")
    transaction = repo.transaction("main")

    def interrupted() -> None:
        with transaction as tx:
            tx.write([entry("b")])
            tx.write([entry(str(1 // 0))])

    with pytest.raises(ZeroDivisionError) as failure:
        interrupted()
    assert failure.value.__notes__ == ["  Nothing was merged into main at the end of the block."]
    assert (transaction.merged, repo.branch("main").info().head, left(repo)) == (None, first, [])
    with pytest.raises(InputError, match="several events, so expected cannot be given"):
        repo.transaction("main", expected=3)


def test_where_another_commit_came_first_it_is_merged_with_that(repo: Repository) -> None:
    main = repo.branch("main")
    committed(main, "a")
    with repo.transaction("main", timeout_s=WAIT_S) as outer:
        outer.write([entry("b")])
        with repo.transaction("main") as inner:
            inner.write([entry("c")])
        between = committed(main, "d")
    assert inner.merged is not None
    assert outer.merged is not None
    assert repo.commit(between).parents == (inner.merged.id,)
    assert outer.merged.parents[0] == between
    assert left(repo) == []


def test_where_that_changed_the_same_path_it_is_not(repo: Repository) -> None:
    main = repo.branch("main")
    committed(main, "a")

    def late() -> None:
        with repo.transaction("main", timeout_s=WAIT_S) as tx:
            tx.write([entry("a", "c2"), entry("b")])
            committed(main, "a", checksum="c3")

    with pytest.raises(MergeConflictError) as clash:
        late()
    between = main.info().head
    assert [one.path for one in clash.value.conflicting] == ["a"]
    assert clash.value.destination_head == between
    assert (main.info().head, left(repo)) == (between, [])
    with repo.transaction("main", timeout_s=WAIT_S) as tx:
        tx.write([entry("a", "c4")])
        between = committed(main, "a", checksum="c4")
    assert tx.merged is not None
    assert tx.merged.parents[0] == between, "both wrote the same object"


def test_a_branch_that_is_dirty_takes_no_transaction(repo: Repository) -> None:
    main = repo.branch("main")
    main.write([entry("a")])
    with pytest.raises(DirtyBranchError), repo.transaction("main"):
        pytest.fail("the block must not begin")
    main.reset()

    def staged_meanwhile() -> None:
        with repo.transaction("main") as tx:
            tx.write([entry("b")])
            main.write([entry("c")])

    with pytest.raises(DirtyBranchError) as dirty:
        staged_meanwhile()
    assert dirty.value.position is not None
    assert left(repo) == []


def test_where_others_always_come_first_it_ends(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "MOST_TRIES", 3)
    main, emit = repo.branch("main"), Merge.emit
    sent: list[Any] = []

    def late(merge: Merge, *args: Any) -> Receipt:
        committed(main, f"other/{len(sent)}")
        sent.append(args)
        return emit(merge, *args)

    monkeypatch.setattr(Merge, "emit", late)
    with pytest.raises(StaleHeadError) as stale, repo.transaction("main") as tx:
        tx.write([entry("b")])
    assert (len(sent), stale.value.found, left(repo)) == (3, main.info().head, [])


def test_what_was_begun_without_a_commit_is_merged_with_somebody_elses_first_one(repo: Repository) -> None:
    main = repo.branch("main")
    with repo.transaction("main", timeout_s=WAIT_S) as tx:
        tx.write([entry("a")])
        first = committed(main, "b")
    assert tx.merged is not None
    assert tx.merged.parents[0] == first


def test_a_write_that_was_refused_merges_nothing(repo: Repository) -> None:
    def refused_in_part() -> None:
        with repo.transaction("main", timeout_s=WAIT_S) as tx:
            tx.branch.drop()
            tx.write([entry("a")])
            tx.branch.create()
            tx.write([entry("b")])

    with pytest.raises(RejectedError) as refused:
        refused_in_part()
    assert (refused.value.reason, left(repo)) == ("unknown-entity", [])
    assert repo.branch("main").info().head is None


def test_where_its_branch_is_not_known_to_be_there_nothing_begins(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unheard(*_: Any, **__: Any) -> Any:
        raise NotYetVisibleError({}, "the stream is down")

    with monkeypatch.context() as patch:
        patch.setattr(Verdicts, "accepted", unheard)
        with pytest.raises(NotYetVisibleError) as unknown, repo.transaction("main"):
            pytest.fail("the block must not begin")
    assert unknown.value.__notes__[-1] == "  Nothing was merged into main."
    eventually(lambda: not left(repo), WAIT_S, "the end of its branch")


@pytest.mark.parametrize("acknowledged", [True, False])
def test_what_is_not_known_of_the_merge_is_said_and_nothing_is_deleted(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, acknowledged: bool
) -> None:
    main = repo.branch("main")
    committed(main, "a")
    emit, merges = Merge.emit, []

    class Unacknowledged:
        event_id = "an-id"

        @property
        def position(self) -> Any:
            raise OutcomeUnknownError("no acknowledgement")

    def sent(merge: Merge, *args: Any) -> Any:
        merges.append(emit(merge, *args))
        return merges[-1] if acknowledged else Unacknowledged()

    accepted = Verdicts.accepted

    def unheard(verdicts: Verdicts, receipt: Receipt, *args: Any, **more: Any) -> Any:
        if receipt in merges:
            raise NotYetVisibleError({}, "the stream is down")
        return accepted(verdicts, receipt, *args, **more)

    monkeypatch.setattr(Merge, "emit", sent)
    monkeypatch.setattr(Verdicts, "accepted", unheard)
    with pytest.raises(TransactionUnknownError) as unknown, repo.transaction("main") as tx:
        tx.write([entry("b")])
    error = unknown.value
    assert (error.branch, error.transaction) == (str(main.urn), str(tx.branch.urn))
    assert error.event_id == (merges[0].event_id if acknowledged else "an-id")
    assert ("is in the journal at" in error.message) == acknowledged
    assert "is kept: whether it is merged into main is not known" in error.__notes__[-1]
    assert left(repo) == [tx.branch.name]
    merged = repo.log("main").items[0]
    assert error.commit in merged.parents, "what the error says to look for"
