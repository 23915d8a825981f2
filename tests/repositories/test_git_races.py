"""An import beside others who change the same branches: it stops, drops what it has staged, and says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from metajournal.domains.repositories.errors import StaleHeadError, StaleStagingError
from metajournal.domains.repositories.events import BranchReset, BranchReverted, Committed, Merged, ObjectsWritten
from metajournal.domains.repositories.git_history import sending, unconfirmed, withdrawing
from metajournal.domains.repositories.git_history.sending import JournalSink
from metajournal.domains.repositories.git_history.unconfirmed import ROUND_COMMITS, Sent, Unconfirmed
from metajournal.domains.repositories.rows import NOTHING_STAGED, staged_digest
from metajournal.domains.repositories.urns import branch_urn, commit_urn, repository_urn
from metajournal.rules import Rejected
from metajournal.schemas.errors import KafkaUnavailableError, NotYetVisibleError
from tests.repositories import git_histories as gits
from tests.repositories.git_imports import NAME, WAITED, GitRuns, Judged, queries_in
from tests.repositories.staying import entry
from tests.repositories.test_git_history import assert_as_git_has_it

MAIN = branch_urn(NAME, "main")
COMMITS, ROUND = 100, 8
BEFORE = 30
"""Commits of the import before somebody else comes."""


@pytest.fixture
def line(tmp_path: Path) -> Path:
    """A history without merges."""
    writer = gits.Writer()
    for number in range(COMMITS):
        writer.commit({"a": ("100644", f"{number}")}, [number - 1] if number else [])
    writer.save(tmp_path / "git", {"main": COMMITS - 1})
    return tmp_path / "git"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRuns:
    """Imports whose rounds are short."""
    monkeypatch.setattr(unconfirmed, "ROUND_COMMITS", ROUND)
    return GitRuns(tmp_path, monkeypatch)


def once(memory: Judged, is_time: Callable[[], bool], *events: Any) -> Callable[[], bool]:
    """Before the first event of the import at which it is time, others send theirs."""
    left = [*events]

    def ends() -> bool:
        if left and is_time():
            while left:
                memory.add(left.pop(0))
        return False

    return ends


def made_by_import(memory: Judged) -> list[int]:
    """The numbers of its commits' events."""
    events = [event for event, _ in memory.events]
    return [at for at, event in enumerate(events) if isinstance(event, Committed | Merged) and event.metadata]


def by_hand(name: str = "by-hand") -> list[Any]:
    return [ObjectsWritten(MAIN, [entry(name)]), Committed(MAIN, "by hand")]


@pytest.mark.thorough
@pytest.mark.parametrize("behind", [0, 1], ids=["between commits", "behind what is staged for one"])
def test_an_import_stops_soon_after_another_commit_and_leaves_nothing_staged(
    runs: GitRuns, line: Path, tmp_path: Path, behind: int
) -> None:
    memory = runs.memory
    memory.ends = once(memory, lambda: len(memory.events) == 1 + 2 * BEFORE + behind, *by_hand())
    with pytest.raises(StaleHeadError) as caught:
        runs.run(line)
    error = caught.value
    assert len(made_by_import(memory)) <= BEFORE + 2 * ROUND
    good = [made for made in runs.present("default", NAME).commits if made.git_id][-1]
    assert (error.expected, error.data["dropped"], error.data["left"]) == (good.id, ["main"], [])
    assert "What it had staged on main is dropped." in error.hint
    assert error.hint.endswith(f"metajournal repo revert {NAME} main {good.id}")
    assert runs.present_branches("default", NAME)["main"].staged_events == 0
    memory.add(BranchReverted(MAIN, commit_urn(NAME, good.id)))
    done = runs.run(line)
    assert (done.had, done.counts.commits, done.elsewhere) == (BEFORE, COMMITS - BEFORE, [])
    assert runs.present_branches("default", NAME)["main"].head == done.branches["main"]["commit"]


def test_what_others_have_staged_is_not_dropped_with_it(runs: GitRuns, line: Path) -> None:
    memory = runs.memory
    memory.ends = once(memory, lambda: len(memory.events) == 1 + 2 * BEFORE, by_hand()[0])
    with pytest.raises(StaleStagingError) as caught:
        runs.run(line)
    assert (caught.value.data["dropped"], caught.value.data["left"]) == ([], ["main"])
    assert f"`metajournal repo diff {NAME} main@ main`" in caught.value.hint
    assert not any(isinstance(event, BranchReset) for event, _ in memory.events)
    assert runs.present_branches("default", NAME)["main"].staged_events > 1


def test_what_others_stage_while_it_is_being_dropped_stays(runs: GitRuns, line: Path) -> None:
    memory = runs.memory

    def is_reset() -> bool:
        return bool(runs.read) and runs.read[-1] == "present_branches"

    first = once(memory, lambda: len(memory.events) == 1 + 2 * BEFORE, *by_hand())
    second = once(memory, is_reset, ObjectsWritten(MAIN, [entry("later")]))
    memory.ends = lambda: first() or second()
    with pytest.raises(StaleHeadError) as caught:
        runs.run(line)
    assert caught.value.data["left"] == ["main"]
    assert isinstance(memory.outcomes[-1], Rejected)


@pytest.mark.thorough
def test_a_merge_that_is_refused_names_the_commit_before_which_others_came(
    runs: GitRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unconfirmed, "ROUND_COMMITS", 1_000)
    writer = gits.Writer()
    root = writer.commit({"a": ("100644", "0")})
    side = writer.commit({"a": ("100644", "0"), "b": ("100644", "0")}, [root])
    tip = root
    for number in range(6):
        tip = writer.commit({"a": ("100644", f"m{number}")}, [tip])
    merge = writer.commit({"a": ("100644", "m5"), "b": ("100644", "0")}, [tip, side])
    writer.save(tmp_path / "git", {"main": merge})
    memory = runs.memory

    def has_line() -> bool:
        events = [memory.events[at][0] for at in made_by_import(memory)]
        return sum(isinstance(event, Committed) and event.branch == MAIN for event in events) == 4

    memory.ends = once(memory, has_line, *by_hand())
    with pytest.raises(StaleHeadError) as caught:
        runs.run(tmp_path / "git")
    good = [made for made in runs.present("default", NAME).commits if made.git_id]
    assert caught.value.expected in {made.id for made in good}
    assert runs.present_branches("default", NAME)["main"].staged_events == 0


def test_verdicts_are_asked_for_a_round_later_and_at_the_end_once_the_lake_has_all(runs: GitRuns, line: Path) -> None:
    runs.run(line)
    made, everything = made_by_import(runs.memory), len(runs.memory.events)
    created, *asked = runs.memory.confirmed
    assert created == (0, 1)
    waited = asked.index((WAITED, everything))
    assert [number for number, _ in asked[:waited]] == made[ROUND - 1 : -ROUND : ROUND]
    for number, events in asked[:waited]:
        assert len([at for at in made if number < at < events]) == ROUND
    assert asked[waited + 1 :] == [(made[95], everything), (made[99], everything)]


def test_a_round_of_large_commits_is_full_with_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unconfirmed, "ROUND_PATHS", 1_000)
    asked: list[Sent] = []
    some = Unconfirmed(asked.append)
    for number in range(8):
        some.staged("main", Sent(bytes(16), None), 500)
        some.committed("main", Sent(bytes(16), number))
    assert [sent.receipt for sent in asked] == [1, 3, 5]


def test_only_the_last_events_that_were_sent_for_a_branch_are_all_of_what_is_staged_there() -> None:
    some = Unconfirmed(lambda sent: None)
    digests = [bytes([number] * 16) for number in range(3)]
    for digest in digests:
        some.staged("main", Sent(digest, None), 1)
    last = staged_digest(staged_digest(NOTHING_STAGED, digests[1]), digests[2])
    assert some.is_all_of("main", 2, last)
    assert not some.is_all_of("main", 3, last)
    assert not some.is_all_of("main", 0, NOTHING_STAGED)
    assert not some.is_all_of("main", 4, last)
    assert not some.is_all_of("dev", 2, last)
    assert (some.has_staged("main"), some.has_staged("dev"), ROUND_COMMITS) == (True, False, 256)


def test_an_import_that_cannot_look_at_what_it_has_staged_says_how_to() -> None:
    said = withdrawing.not_withdrawn(NAME, KafkaUnavailableError("Kafka is away."))
    assert "is still there (Kafka is away.)" in said
    assert f"`metajournal repo branches {NAME}`" in said


class SlowLake:
    """A journal whose lake is behind, and comes nearer each time that it is waited for; and its verdicts.

    Attributes:
        said: what was asked, in order.
    """

    settings = SimpleNamespace(
        journal=SimpleNamespace(tenant="default"), client=SimpleNamespace(delivery_timeout_s=1.0)
    )

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self.said: list[str] = []

    def opened(self, name: str, opens: Any) -> SlowLake:
        return self

    def emit(self, event: Any, **options: Any) -> str:
        return "receipt"

    def flush(self) -> None:
        self.said.append("flush")

    def wait(self, at_least: str, *, timeout_s: float) -> None:
        assert at_least == "receipt"
        self.said.append("wait")
        self.behind -= 1
        if self.behind > 0:
            raise NotYetVisibleError({("t", 0): self.behind}, "behind")

    def accepted(self, receipt: str, *_: Any) -> None:
        self.said.append("verdict")
        if self.behind > 0:
            raise NotYetVisibleError({("t", 0): self.behind}, "behind")


def test_a_verdict_is_waited_for_as_long_as_the_lake_comes_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = SlowLake(4)
    monkeypatch.setattr(sending, "encode", lambda event, header: b"")
    sink = JournalSink(lake, repository_urn(NAME), "me", 0.1)  # type: ignore[arg-type]
    sent = sink.send(BranchReset(MAIN))
    sink.confirm(sent)
    assert lake.said == ["verdict", "wait", "wait", "wait", "wait", "verdict"]
    lake.said.clear()
    sink.wait()
    sink.confirm(sent)
    assert lake.said == ["flush", "wait", "verdict"]


def test_the_last_look_at_the_branches_reads_no_commits(runs: GitRuns, line: Path, tmp_path: Path) -> None:
    runs.run(line)
    assert runs.read == ["present", "present_branches"]
    lake = tmp_path / "lake2"
    both = queries_in(lake).present("default", NAME).branches, queries_in(lake).present_branches("default", NAME)
    assert both[0] == both[1] != {}
    assert queries_in(lake).present_branches("default", "nowhere") == {}


@pytest.mark.thorough
def test_a_history_that_was_raced_for_is_what_git_has_in_the_end(runs: GitRuns, line: Path, tmp_path: Path) -> None:
    memory = runs.memory
    memory.ends = once(memory, lambda: len(memory.events) == 1 + 2 * BEFORE, *by_hand())
    with pytest.raises(StaleHeadError) as caught:
        runs.run(line)
    memory.add(BranchReverted(MAIN, commit_urn(NAME, caught.value.expected)))
    done = runs.run(line)
    heads: Any = SimpleNamespace(heads={name: branch["commit"] for name, branch in done.branches.items()})
    assert_as_git_has_it(line, tmp_path / "all", memory, heads)
