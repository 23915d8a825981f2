"""Where a transaction begins and ends: what returned before its end is merged, what comes too late or too early raises,
and what cannot be is refused before its branch is made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise, takewhile
from typing import Any

import pytest

from metajournal import Journal
from metajournal.domains.repositories.client import Repository
from metajournal.domains.repositories.errors import DirtyBranchError
from metajournal.domains.repositories.transactions import _OF_ONE_EVENT, SAID, Transaction
from metajournal.domains.repositories.verdicts import Verdicts
from metajournal.producers.emitter import Emitter
from metajournal.producers.receipts import Receipt
from metajournal.schemas.arguments import parameters
from metajournal.schemas.errors import InputError, InvalidEventError, UnavailableError
from tests.consumers.stream import BrokerStream
from tests.repositories.staying import WAIT_S, committed, end_of, entry, make_trees
from tests.wait import eventually

OnMain = Callable[[], set[str]]
THREAD_S = 60.0
"""Seconds for another thread to do what it is asked to."""


def branches(repo: Repository) -> list[str]:
    return [one.name for one in repo.branches(transactions=True)]


@pytest.fixture
def on_main(journal: Journal, stream: BrokerStream, repo: Repository) -> OnMain:
    """The paths that are on main, once the stream has worked out what its merges contain."""

    def paths() -> set[str]:
        stream.fold()
        make_trees(journal, stream)
        return {one.path for one in repo.list("main", limit=10_000).objects}

    return paths


def refused(act: Callable[[], Any]) -> str:
    """The code of the error that an act raises, which says what to do next."""
    with pytest.raises(InputError) as error:
        act()
    assert error.value.hint != InputError.HINT
    return error.value.code


# Outside of the block


@pytest.mark.parametrize(
    "act",
    [
        lambda tx: tx.write([entry("late")]),
        lambda tx: tx.delete("a", only_existing=False),
        lambda tx: tx.reset(),
        lambda tx: tx.__exit__(None, None, None),
    ],
    ids=["write", "delete", "reset", "end"],
)
def test_a_call_outside_of_the_open_block_raises_and_sends_nothing(
    journal: Journal, repo: Repository, on_main: OnMain, act: Callable[[Transaction], Any]
) -> None:
    def told(tx: Transaction) -> str:
        journal.flush()
        before = end_of(journal, repo)
        code = refused(lambda: act(tx))
        journal.flush()
        assert end_of(journal, repo) == before
        return code

    def interrupted(tx: Transaction) -> None:
        with tx:
            raise ZeroDivisionError

    first, second = (repo.transaction("main", timeout_s=WAIT_S) for _ in range(2))
    assert told(first) == "transaction-not-begun"
    with first:
        first.write([entry("a")])
    assert told(first) == "transaction-ended"
    with pytest.raises(ZeroDivisionError):
        interrupted(second)
    assert told(second) == "transaction-ended"
    assert on_main() == {"a"}


def test_a_transaction_runs_once_whatever_it_wrote(repo: Repository, on_main: OnMain) -> None:
    empty = repo.transaction("main", timeout_s=WAIT_S)
    with empty:
        pass
    assert refused(empty.__enter__) == "transaction-runs-once"
    with repo.transaction("main", timeout_s=WAIT_S) as tx:
        assert refused(tx.__enter__) == "transaction-runs-once"
        tx.write([entry("a")])
        assert refused(tx.__enter__) == "transaction-runs-once"
    assert (on_main(), branches(repo)) == ({"a"}, ["main"])


def test_one_that_could_not_begin_since_the_branch_was_dirty_can_begin_later(repo: Repository, on_main: OnMain) -> None:
    main = repo.branch("main")
    main.write([entry("staged")])
    tx = repo.transaction("main", timeout_s=WAIT_S)
    with pytest.raises(DirtyBranchError):
        tx.__enter__()
    main.reset()
    with tx:
        tx.write([entry("a")])
    assert on_main() == {"a"}


# Other threads


def test_what_another_thread_wrote_before_the_end_is_merged_and_nothing_else(repo: Repository, on_main: OnMain) -> None:
    tx = repo.transaction("main", timeout_s=WAIT_S)
    returned: list[str] = []
    raised: list[str] = []
    codes: list[str] = []
    stopped = threading.Event()

    def write_until_told() -> None:
        until = time.monotonic() + THREAD_S
        for number in takewhile(lambda _: time.monotonic() < until, count()):
            path = f"{number:05}"
            try:
                tx.write([entry(path)])
            except InputError as error:
                raised.append(path)
                codes.append(error.code)
                return
            returned.append(path)
            if stopped.wait(0.001):
                return

    with ThreadPoolExecutor(1) as pool:
        try:
            with tx:
                writing = pool.submit(write_until_told)
                eventually(lambda: len(returned) > 5, THREAD_S, "some writes")
            writing.result(THREAD_S)
        finally:
            stopped.set()
    assert codes == ["transaction-ended"]
    assert tx.merged is not None
    assert (on_main(), branches(repo)) == (set(returned), ["main"])
    assert raised
    assert not {*raised} & {*returned}


def test_the_end_waits_for_a_call_that_is_under_way(repo: Repository, on_main: OnMain) -> None:
    """The call goes on only once another one is refused, so the end has begun by then."""
    tx = repo.transaction("main", timeout_s=WAIT_S)
    begun = threading.Event()
    probed: list[str] = []

    def is_closed() -> bool:
        try:
            tx.write([entry(f"probe/{len(probed)}")])
        except InputError:
            return True
        probed.append(f"probe/{len(probed)}")
        return False

    def entries() -> Iterator[dict[str, Any]]:
        begun.set()
        eventually(is_closed, 5, "the end of the block")
        yield entry("under/way")

    with ThreadPoolExecutor(1) as pool:
        with tx:
            writing = pool.submit(tx.write, entries())
            assert begun.wait(THREAD_S)
        writing.result(THREAD_S)
    assert on_main() == {"under/way", *probed}


def test_a_call_that_does_not_end_in_time_merges_nothing(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    first = committed(repo.branch("main"), "a")
    tx = repo.transaction("main", timeout_s=WAIT_S)
    begun, goes_on = threading.Event(), threading.Event()

    def entries() -> Iterator[dict[str, Any]]:
        begun.set()
        assert goes_on.wait(THREAD_S)
        yield entry("late")

    def ended_early(pool: ThreadPoolExecutor) -> None:
        with tx:
            pool.submit(tx.write, entries())
            assert begun.wait(THREAD_S)
            monkeypatch.setattr(tx, "_timeout_s", 0.05)

    with ThreadPoolExecutor(1) as pool:
        try:
            with pytest.raises(UnavailableError) as busy:
                ended_early(pool)
        finally:
            goes_on.set()
    assert busy.value.code == "transaction-busy"
    assert "Nothing was merged into main" in busy.value.__notes__[-1]
    eventually(lambda: branches(repo) == ["main"], WAIT_S, "the end of its branch")
    assert repo.branch("main").info().head == first


def test_the_verdicts_of_all_writes_share_one_deadline(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = Verdicts.accepted
    waited: list[float] = []

    def slow(verdicts: Verdicts, receipt: Receipt, repository: Any, tenant: str, timeout_s: float, **more: Any) -> Any:
        began = time.monotonic()
        waited.append(timeout_s)
        position = accepted(verdicts, receipt, repository, tenant, timeout_s, **more)
        eventually(lambda: time.monotonic() > began, what="the clock")
        return position

    with repo.transaction("main", timeout_s=WAIT_S) as tx:
        for number in range(4):
            tx.write([entry(f"{number}")])
        monkeypatch.setattr(Verdicts, "accepted", slow)
    of_writes = waited[:4]
    assert max(of_writes) <= WAIT_S
    assert all(later < earlier for earlier, later in pairwise(of_writes)), waited


# A block that merges itself


def test_a_block_that_has_merged_itself_ends_well(repo: Repository, on_main: OnMain) -> None:
    main = repo.branch("main")
    committed(main, "a")
    with repo.transaction("main", timeout_s=WAIT_S) as tx:
        tx.write([entry("b")])
        tx.branch.commit("x", timeout_s=WAIT_S)
        own = tx.branch.merge_into("main", timeout_s=WAIT_S)
    assert tx.merged == own
    assert (main.info().head, on_main(), branches(repo)) == (own.id, {"a", "b"}, ["main"])
    with repo.transaction("main", timeout_s=WAIT_S) as tx:
        tx.write([entry("c")])
        tx.branch.commit("y", timeout_s=WAIT_S)
        tx.branch.merge_into("main", timeout_s=WAIT_S)
        later = committed(main, "d")
    assert tx.merged is not None
    assert (tx.merged.id, main.info().head, branches(repo)) == (later, later, ["main"])


def test_what_a_block_writes_after_it_has_merged_itself_is_merged_too(repo: Repository, on_main: OnMain) -> None:
    with repo.transaction("main", timeout_s=WAIT_S) as tx:
        tx.write([entry("a")])
        tx.branch.commit("x", timeout_s=WAIT_S)
        own = tx.branch.merge_into("main", timeout_s=WAIT_S)
        tx.write([entry("b")])
    assert tx.merged is not None
    assert tx.merged.parents[0] == own.id
    assert (repo.branch("main").info().head, on_main(), branches(repo)) == (tx.merged.id, {"a", "b"}, ["main"])


def test_of_a_block_that_has_merged_itself_and_failed_it_is_not_said_that_nothing_was_merged(
    repo: Repository, on_main: OnMain
) -> None:
    def merged_and_failed() -> None:
        with repo.transaction("main", timeout_s=WAIT_S) as tx:
            tx.write([entry("a")])
            tx.branch.commit("x", timeout_s=WAIT_S)
            tx.branch.merge_into("main", timeout_s=WAIT_S)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as failure:
        merged_and_failed()
    assert failure.value.__notes__ == ["  Nothing was merged into main at the end of the block."]
    assert (on_main(), branches(repo)) == ({"a"}, ["main"])


# Arguments


@pytest.mark.parametrize(
    ("message", "metadata", "said"),
    [
        (3, None, {}),
        ("x" * 100_000, None, {}),
        ("", {"a": 1}, {}),
        ("", 7, {}),
        ("", None, {"actor": 3}),
        ("", None, {"event_time": "yesterday-ish"}),
        ("", None, {"cause": "no id"}),
        ("", None, {"tenant": "No Tenant!"}),
        (3, {"a": 1}, {"actor": ""}),
    ],
)
def test_what_a_commit_refuses_a_transaction_refuses_before_it_begins(
    journal: Journal, repo: Repository, message: Any, metadata: Any, said: dict[str, Any]
) -> None:
    before = end_of(journal, repo)
    with pytest.raises(InvalidEventError) as transaction:
        repo.transaction("main", message, metadata, **said)
    with pytest.raises(InvalidEventError) as commit:
        repo.branch("main").commit(message, metadata, **said)
    assert transaction.value.faults == commit.value.faults
    journal.flush()
    assert end_of(journal, repo) == before


def test_an_argument_that_no_event_takes_is_named_before_it_begins(repo: Repository) -> None:
    with pytest.raises(InputError, match="takes no argument 'acter'") as unknown:
        repo.transaction("main", acter="me")
    assert (unknown.value.code, unknown.value.hint) == ("unknown-argument", "Did you mean actor?")
    with pytest.raises(InputError, match="block_s must be a number") as wrong:
        repo.transaction("main", block_s="long")
    assert wrong.value.code == "wrong-type"
    assert {*SAID, *_OF_ONE_EVENT} == {*parameters(Emitter.emit)} - {"self", "event"}


def test_metadata_that_are_changed_later_are_committed_as_they_were_given(repo: Repository) -> None:
    metadata: dict[str, Any] = {"by": "me"}
    with repo.transaction("main", "m", metadata, timeout_s=WAIT_S) as tx:
        metadata["a"] = 1
        tx.write([entry("a")])
    assert tx.merged is not None
    assert dict(tx.merged.metadata) == {"by": "me"}
