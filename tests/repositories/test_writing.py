"""Commits, merges and transactions of a process that stays: verdicts ahead of the stream, refusals before sending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from metajournal import Journal, RejectedError
from metajournal.domains.repositories.client import Repository
from metajournal.domains.repositories.errors import (
    DirtyBranchError,
    InvalidQuestionError,
    MergeConflictError,
    NothingStagedError,
    NothingToMergeError,
    StaleHeadError,
    StaleStagingError,
    UnrelatedHistoriesError,
)
from metajournal.domains.repositories.events import RepositoryCreated
from metajournal.domains.repositories.rows import content_of
from metajournal.schemas.errors import InputError, InvalidEventError, NotYetVisibleError, UnknownEntityError
from tests.consumers.stream import BrokerStream
from tests.repositories.staying import WAIT_S, committed, end_of, entry, make_trees


def test_a_commit_is_known_with_its_id_before_the_stream_has_seen_it(repo: Repository, stream: BrokerStream) -> None:
    main = repo.branch("main")
    main.write([entry("a")])
    first = main.commit("first", {"by": "me"}, expected_head="", timeout_s=WAIT_S, actor="carol")
    assert (first.branch, first.parents, first.message, dict(first.metadata), first.actor, first.strategy) == (
        "main", (), "first", {"by": "me"}, "carol", None
    )  # fmt: skip
    assert (main.info().head, main.info().staged_events) == (first.id, 0)
    with pytest.raises(NothingStagedError) as clean:
        main.commit("nothing")
    assert (clean.value.branch, clean.value.reason) == (str(main.urn), "nothing-staged")
    main.write([entry("b")])
    with pytest.raises(StaleHeadError) as stale:
        main.commit("late", expected_head="")
    assert (stale.value.branch, stale.value.expected, stale.value.found) == (str(main.urn), "", first.id)
    assert stale.value.position is not None
    with pytest.raises(StaleStagingError):
        main.commit("late", staging_digest="00" * 16)
    second = main.commit("second", staging_digest=main.info().staging_digest)
    assert second.parents == (first.id,)
    with pytest.raises(RejectedError) as unknown:
        repo.branch("nowhere").commit("m")
    assert unknown.value.reason == "unknown-entity"
    stream.fold()
    assert repo.commit(first.id) == first
    assert [one.id for one in repo.log("main").items] == [second.id, first.id]


def test_what_this_process_has_emitted_is_read_though_it_is_on_its_way(journal: Journal, repo: Repository) -> None:
    """Events that wait 20 s for others to go with are sent when somebody asks."""
    lingering = replace(journal.settings, client=replace(journal.settings.client, linger_ms=20_000))
    with Journal.connect(lingering) as late:
        own = late.repositories[repo.name]
        repo.branch("main").info()  # it is followed already
        created = own.branch("other").create()
        assert created.pending
        assert own.branch("other").info(timeout_s=WAIT_S).head is None
        own.branch("main").write([entry("a")])
        assert [one.path for one in own.list("main", timeout_s=WAIT_S).items] == ["a"]


def test_a_merge_is_sent_only_where_nothing_speaks_against_it(repo: Repository) -> None:
    main, dev, other = (repo.branch(name) for name in ("main", "dev", "other"))
    first = committed(main, "a", "b")
    dev.create(first)
    with pytest.raises(NothingToMergeError) as same:
        dev.merge_into("main")
    assert (same.value.source_head, same.value.destination_head, same.value.position) == (first, first, None)
    changed = committed(dev, "b", "c", checksum="c2")
    merged = dev.merge_into("main", message="dev", actor="carol")
    assert (merged.parents, merged.strategy, merged.branch, merged.message) == ((first, changed), "none", "main", "dev")
    assert merged.actor == "carol"
    with pytest.raises(NothingToMergeError):
        dev.merge_into(main)
    on_main, on_dev = committed(main, "d"), committed(dev, "e")
    with pytest.raises(StaleHeadError) as stale:
        dev.merge_into("main", destination_head=first)
    assert (stale.value.expected, stale.value.found, stale.value.position) == (first, on_main, None)
    with pytest.raises(StaleHeadError):
        dev.merge_into("main", source_head=changed)
    dev.write([entry("f")])
    with pytest.raises(DirtyBranchError) as dirty:
        dev.merge_into("main")
    assert (dirty.value.branch, dirty.value.staged_events, dirty.value.staged_rows) == (str(dev.urn), 1, 1)
    dev.reset()
    main.write([entry("g")])
    with pytest.raises(DirtyBranchError):
        dev.merge_into("main")
    with pytest.raises(StaleStagingError):
        dev.merge_into("main", staged="resolve", staging_digest="11" * 16)
    with pytest.raises(InvalidEventError, match="strategy"):
        dev.merge_into("main", staged="resolve", strategy="ours")
    resolved = dev.merge_into("main", staged="resolve", source_head=on_dev)
    assert resolved.parents == (on_main, on_dev)
    with pytest.raises(UnknownEntityError):
        dev.merge_into("nowhere")
    other.create()
    with pytest.raises(NothingToMergeError) as empty:
        other.merge_into("main")
    assert empty.value.source_head == ""
    assert main.merge_into("other").parents == (resolved.id,)


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"strategy": "ours"}, "strategy: must be one of none, source-wins, dest-wins, not 'ours'"),
        ({"staged": "x"}, "staged: must be refuse or resolve, not 'x'"),
        ({"destination_head": "abc"}, "destination_head: must be a commit's id"),
        ({"source_head": 0}, "source_head: must be a commit's id"),
        ({"staging_digest": "x"}, "staging_digest: must be 32 hexadecimal digits"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"destination": "dev"}, "source: must be another branch than the destination"),
        ({"tenant": "No One"}, "tenant: must match"),
    ],
)
def test_a_merge_that_cannot_be_is_refused_before_anything_is_read(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], fault: str
) -> None:
    """Also where the destination contains the source, or there is no such branch."""
    monkeypatch.setattr(Repository, "branch_info", lambda *_, **__: pytest.fail("it is read"))
    with pytest.raises(InvalidEventError) as refused:
        repo.branch("dev").merge_into(**{"destination": "main", "staged": "resolve", **wrong})
    assert fault in refused.value.message


def test_a_branch_of_another_repository_is_no_destination(journal: Journal, repo: Repository) -> None:
    with pytest.raises(InvalidEventError, match="must be a branch of repo:others, as the destination is"):
        repo.branch("main").merge_into(journal.repositories["others"].branch("main"))


@pytest.mark.parametrize("tenant", [5, "", "No One", ["default"]])
def test_a_question_of_a_tenant_that_cannot_be_is_refused_as_an_event_is(
    journal: Journal, repo: Repository, tenant: Any
) -> None:
    with pytest.raises(InvalidEventError) as refused:
        journal.emit(RepositoryCreated("repo:new", "main", "s3://b"), tenant=tenant)
    asking: list[Callable[[], Any]] = [
        lambda: repo.info(tenant=tenant), lambda: repo.get("main", "a", tenant=tenant),
        lambda: repo.list("main", tenant=tenant), lambda: repo.branch("main").info(tenant=tenant),
        lambda: repo.gc_plan(tenant=tenant), lambda: journal.repositories.list(tenant=tenant),
    ]  # fmt: skip
    for ask in asking:
        with pytest.raises(InvalidQuestionError) as caught:
            ask()
        assert caught.value.faults == refused.value.faults
        assert caught.value.message.startswith("The question is not valid: tenant: must match ")


def test_repositories_are_gone_through_by_name(journal: Journal, repo: Repository, stream: BrokerStream) -> None:
    stream.fold()
    assert list(journal.repositories) == [info.name for info in journal.repositories.list()] == ["lake", "others"]
    assert "lake" in journal.repositories
    assert "none" not in journal.repositories


def test_an_empty_delimiter_is_refused_with_what_lists_everything(repo: Repository) -> None:
    for ask in (repo.list, lambda *given, **named: next(repo.list_all(*given, **named))):
        with pytest.raises(InputError) as refused:
            ask("main", delimiter="")
        assert (refused.value.code, refused.value.message) == ("bad-delimiter", "delimiter must not be empty.")
        assert refused.value.hint.startswith("To list everything, leave it out (None; -r on the command line).")


def test_conflicts_and_unrelated_histories_are_refused_with_what_to_act_on(
    journal: Journal, repo: Repository, stream: BrokerStream
) -> None:
    main, dev, orphan = (repo.branch(name) for name in ("main", "dev", "orphan"))
    first = committed(main, "a", "b", "same")
    dev.create(first)
    on_main, on_dev = committed(main, "a", "same", checksum="c2"), committed(dev, "a", "same", "z", checksum="c3")
    main.write([entry("same", "c3")])
    on_main = main.commit("same").id
    before = end_of(journal, repo)
    with pytest.raises(MergeConflictError) as clash:
        dev.merge_into("main")
    assert end_of(journal, repo) == before, "nothing was sent"
    error = clash.value
    assert (error.source_head, error.destination_head, error.position) == (on_dev, on_main, None)
    assert (error.conflicts, [one.path for one in error.conflicting]) == (1, ["a"])
    sides = [content_of(checksum, 3, None, {}).hex() for checksum in ("c1", "c2", "c3")]
    assert error.conflicting[0] == ("a", *sides)
    orphan.create()
    committed(orphan, "q")
    with pytest.raises(UnrelatedHistoriesError):
        orphan.merge_into("main")
    main.write([entry("a", "c4")])
    resolved = dev.merge_into("main", staged="resolve")
    assert resolved.parents == (on_main, on_dev)
    committed(dev, "a", checksum="c5")
    committed(main, "a", checksum="c6")
    with pytest.raises(NotYetVisibleError):
        dev.merge_into("main", timeout_s=0.5)  # what the merge contains is known once it is made
    stream.fold()
    make_trees(journal, stream)
    with pytest.raises(MergeConflictError):
        dev.merge_into("main")
    assert dev.merge_into("main", strategy="source-wins").strategy == "source-wins"


@pytest.mark.parametrize("given", [5, None, b"a"])
def test_what_are_no_paths_and_no_branch_is_refused_and_nothing_sent(repo: Repository, given: Any) -> None:
    main = repo.branch("main")
    before = main.info()
    for ask in (main.write, main.delete, repo.register, main.merge_into):
        with pytest.raises(InputError):
            ask(given)
    assert main.info() == before


def test_a_deletion_leaves_out_what_is_not_there(repo: Repository) -> None:
    main = repo.branch("main")
    committed(main, "a", "b", "c")
    assert main.delete(["nothing", "there"]) == []
    assert main.info().staged_events == 0
    main.write([entry("new")])  # nobody has waited until the journal has it
    (sent,) = main.delete(["c", "nothing", "new", "a"])
    assert sent.position is not None
    assert (main.info().staged_events, main.info().staged_rows) == (2, 4)
    assert [one.path for one in repo.list("main").objects] == ["b"]
    assert main.delete(["a", "c", "new"]) == []
    assert repo.existing("main", ["a", "b", "b"]) == repo.existing("main", "b") == {"b"}
    main.commit("less")
    assert len(main.delete([f"{number}" for number in range(1_000)] + ["b"])) == 1
    main.reset()
    assert len(main.delete(["a"], only_existing=False)) == 1
    assert main.info().staged_events == 1
    (unknown,) = repo.branch("nowhere").delete(["a"])
    assert unknown.position is not None


def test_a_partial_reset_that_leaves_nothing_leaves_a_clean_branch(repo: Repository) -> None:
    main = repo.branch("main")
    first = committed(main, "a")
    main.write([entry("x/1"), entry("x/2"), entry("y")])
    main.reset(path="y")
    assert (main.info().staged_events, [one.path for one in repo.list("main").objects]) == (2, ["a", "x/1", "x/2"])
    main.reset(path="x/1", expected_head=first)
    assert main.info().staged_events == 3
    seen = main.info().staging_digest
    main.reset(prefix="x/")
    info = main.info()
    assert (info.staged_events, info.staging_digest == seen, info.head) == (0, False, first)
    with pytest.raises(NothingStagedError):
        main.commit("nothing")
    main.delete(["a"])
    main.reset(path="a")
    assert main.info().staged_events == 0
    main.write([entry("x/1")])
    main.reset(prefix="x", staging_digest="00" * 16).position  # noqa: B018
    assert main.info().staged_events == 1, "what the caller wants to be staged holds for the whole reset too"


@pytest.mark.parametrize(
    "ask",
    [
        lambda repo: repo.get("main", 5),
        lambda repo: repo.get("main", "a\0b"),
        lambda repo: repo.get("main", ""),
        lambda repo: repo.log("main", before="5"),
        lambda repo: repo.log("main", before=-1),
        lambda repo: repo.info(timeout_s=None),
        lambda repo: repo.existing("main", [""]),
        lambda repo: repo.existing("main", 5),
        lambda repo: repo.branch("main").commit("m", timeout_s="5"),
        lambda repo: repo.branch("main").commit("m", timeout_s=None),
        lambda repo: repo.branch("main").merge_into("dev", timeout_s=None),
        lambda repo: repo.branch("main").delete(["a"], timeout_s=None),
        lambda repo: repo.branch("main").reset(path="a", timeout_s="1"),
        lambda repo: repo.transaction("main", timeout_s=None),
    ],
)
def test_an_argument_that_cannot_be_is_refused_and_nothing_sent(
    journal: Journal, repo: Repository, ask: Callable[[Repository], Any]
) -> None:
    repo.branch("main").write([entry("a")])
    before = repo.branch("main").info()
    with pytest.raises(InputError):
        ask(repo)
    assert repo.branch("main").info() == before


def test_what_an_entry_behind_an_event_is_refused_for_says_what_stays_staged(repo: Repository) -> None:
    main = repo.branch("main")
    with pytest.raises(InvalidEventError) as first:
        main.write([entry("a"), entry("a")])
    assert "nothing was sent" in first.value.hint
    with pytest.raises(InvalidEventError) as written:
        main.write([*(entry(f"{number}") for number in range(1_001)), {**entry("b"), "size": -1}])
    with pytest.raises(InvalidEventError) as deleted:
        main.delete([*(f"{number}" for number in range(1_001)), ""])
    for behind in (written.value, deleted.value):
        assert behind.data["sent"] == 1_000
        assert "[1]" in behind.faults[0].field
        assert "1,000 in front stay staged" in behind.hint
