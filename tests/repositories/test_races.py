"""Writers that race for the same branches: never do both win, and follower, stream and plain model say the same."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from metajournal import Journal
from metajournal.consumers import follower as follower_module
from metajournal.consumers.follower import receipt_outcome
from metajournal.consumers.foretelling import Foretold
from metajournal.domains.repositories.answers import CommitInfo
from metajournal.domains.repositories.client import Repository
from metajournal.domains.repositories.errors import (
    RefusedError,
    StaleHeadError,
)
from metajournal.domains.repositories.verdicts import commit_info
from metajournal.fold.folded import Verdict
from metajournal.fold.steps import Share
from metajournal.lake.declared import made_row
from metajournal.producers.verdicts import Outcome, Rejected
from metajournal.schemas.encoding.codec import decode
from metajournal.schemas.hashing import digest
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.streaming.rebuild import InProcess
from metajournal.streaming.verify import verify_lake
from tests.consumers.stream import BrokerStream
from tests.faults.scale import LONG, seeded
from tests.repositories.replay import Replay
from tests.repositories.staying import WAIT_S, committed, entry, make_trees

DUELS, BLOCKS, LIMIT_S = (5_000, 600, 900) if LONG else (500, 25, 15)
BRANCHES = ("main", "dev", "duel")
HOT = ("x", "y")


class Writer:
    """One of several: as many duels for the head of a branch as it is told, and blocks of transactions beside.

    Attributes:
        made: the commits that it was told of.
        counts: how often it won, and why it lost.
    """

    def __init__(self, settings: Settings, seed: int, stop: threading.Event) -> None:
        self.made: list[CommitInfo] = []
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._settings, self._stop = settings, stop
        self._choose = random.Random(seed)
        self._name = f"w{seed}"
        self._belief = ""
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with Journal.connect(self._settings) as journal:
                self._write(journal.repositories["lake"])
        except BaseException as error:
            self.failure = error

    def _write(self, repo: Repository) -> None:
        steps = [self._duel] * DUELS + [self._block] * BLOCKS + [self._meeting] * (BLOCKS // 5)
        self._choose.shuffle(steps)
        for step in steps:
            if self._stop.is_set():
                return
            step(repo)

    def _won(self, what: str, ask: Callable[[], CommitInfo | None]) -> CommitInfo | None:
        try:
            made = ask()
        except RefusedError as error:
            self.counts[f"{what}: {error.code}"] += 1
            if isinstance(error, StaleHeadError) and what == "duel":
                self._belief = error.found
            return None
        self.counts[what] += 1
        if made is not None:
            self.made.append(made)
        return made

    def _duel(self, repo: Repository) -> None:
        """Commit onto the head that it believes in; who loses learns the new one."""
        duel = repo.branch("duel")
        if self._choose.random() < 0.2:
            duel.write([entry(f"{self._name}/{self._choose.randrange(9)}")])
        made = self._won(
            "duel", lambda: duel.commit("", expected_head=self._belief, allow_empty=True, timeout_s=WAIT_S)
        )
        if made is not None:
            self._belief = made.id

    def _block(self, repo: Repository) -> None:
        """A transaction on one of two branches, of paths of its own and sometimes of those that others want too."""
        transaction = repo.transaction(self._choose.choice(["main", "dev"]), timeout_s=WAIT_S)

        def run() -> CommitInfo | None:
            with transaction as tx:
                tx.write([entry(f"{self._name}/{self._choose.randrange(50)}", self._choose.choice("pq"))])
                if self._choose.random() < 0.15:
                    tx.write([entry(self._choose.choice(HOT), self._choose.choice("pqr"))])
                if self._choose.random() < 0.2:
                    tx.delete([f"{self._name}/{self._choose.randrange(50)}"])
            return tx.merged

        self._won("block", run)

    def _meeting(self, repo: Repository) -> None:
        """One branch into the other, as they are."""
        source, destination = self._choose.sample(["main", "dev"], 2)
        strategy = self._choose.choice(["none", "source-wins"])
        self._won("merge", lambda: repo.branch(source).merge_into(destination, strategy=strategy, timeout_s=WAIT_S))


def have_done_everything(writers: Sequence[Writer]) -> bool:
    """Whether the race was one: a hundred duels, each writer beaten and in a transaction, and a merge."""
    merges = sum(number for one in writers for what, number in one.counts.items() if what.startswith("merge"))
    duels = sum(one.counts["duel"] for one in writers)
    each = all(one.counts[what] for one in writers for what in ("duel", "duel: stale-head", "block"))
    return duels >= 100 and each and merges > 0


def test_of_two_writers_that_race_never_both_win(
    journal: Journal, repo: Repository, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Duels for a head, transactions and merges; pins renewed all the time, and tables made beside."""
    monkeypatch.setattr(follower_module, "PIN_S", 0.5)
    seed = seeded("race").randrange(1 << 32)
    stop = threading.Event()
    writers = [Writer(journal.settings, seed + number, stop) for number in range(2)]
    told = recorded(monkeypatch)
    setup = committed(repo.branch("main"), "a")
    repo.branch("dev").create(setup)
    first = repo.branch("duel").create().position
    topic, began = first.topic, first.value
    ends = time.monotonic() + LIMIT_S
    for one in writers:
        one.thread.start()
    while any(one.thread.is_alive() for one in writers):
        stream.fold()
        make_trees(journal, stream)
        late_s = time.monotonic() - ends
        if late_s > 10 * LIMIT_S or (late_s > 0 and have_done_everything(writers)):
            stop.set()
    for one in writers:
        one.thread.join()
        assert one.failure is None, one.failure
        sys.stdout.write(f"{dict(sorted(one.counts.items()))}\n")
    stream.fold()
    said = stream.outcomes()
    events = {at: one for at, one in said.items() if at.topic == topic and at.value >= began}
    assert {at: receipt_outcome(at, told[at.value]) for at in events} == events
    made = {one.logical_timestamp: one for writer in writers for one in writer.made}
    rows = {row["logical_timestamp"]: commit_info(made_row("commits")(row)) for row in all_rows(stream, "commits")}
    assert made == {at: rows[at] for at in made}
    won = [one for one in rows.values() if one.branch in BRANCHES]
    assert {one.id for one in won} == {setup, *(one.id for one in made.values())}, "nobody won who was not told"
    check_races(stream, said, won)
    assert have_done_everything(writers)
    checks = {one.name: one for one in verify_lake(journal.settings, stream.epochs, stream.lake, InProcess())}
    assert all(one.ok for one in checks.values()), checks


def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[int, Verdict]:
    """What followers say of each position, every time that they begin again: it must be the same each time."""
    told: dict[int, Verdict] = {}
    judge = Foretold._judge

    def noted(foretold: Foretold, share: Share) -> None:
        judge(foretold, share)
        for at, verdict in foretold.verdicts.items():
            assert told.setdefault(at, verdict) == verdict

    monkeypatch.setattr(Foretold, "_judge", noted)
    return told


def all_rows(stream: BrokerStream, table: str, where: str = "true") -> list[dict[str, Any]]:
    stream.lake.refresh()
    return stream.lake.tables[table].query("*", f"{where} order by logical_timestamp")


def check_races(stream: BrokerStream, said: dict[Position, Outcome], made: list[CommitInfo]) -> None:
    """Each commit of a branch follows the one before it, none was lost, and no merge met a conflict unseen."""
    replay = Replay()
    for row in all_rows(stream, "journal", "topic like '%.repositories'"):
        event = decode(row["event_payload"]).event
        word = replay.add(event, digest(row["event_payload"]))
        outcome = said[Position(row["topic"], row["journal_partition"], row["logical_timestamp"])]
        assert word == (outcome.reason if isinstance(outcome, Rejected) else outcome.word)
    for branch in BRANCHES:
        line = [one for one in made if one.branch == branch]
        assert [one.parents[0] for one in line[1:]] == [one.id for one in line[:-1]], "who wins is the next one"
    unseen = [one.id for one in made if one.strategy == "none" and replay.conflicts[one.id]]
    assert unseen == []
