"""The driver's part: whatever happens between two looks, the tables hold what one pass over the journal gives."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.lake.declared import derived_tables, history_tables
from metajournal.lake.tables import Lake
from metajournal.schemas.positions import offset_of
from metajournal.streaming.crash import DERIVING, SWAPPING
from metajournal.streaming.derived.aside import refill
from metajournal.streaming.derived.functions import DERIVED
from metajournal.streaming.derived.making import Bounds
from metajournal.streaming.derived.server import Answered, Beside, Ended, Here
from metajournal.streaming.derived.tending import IDLE_S, DerivedTables
from metajournal.streaming.rebuild import InProcess, LakeRebuild, Rebuilt, rebuild_lake
from metajournal.streaming.verify import Check, verify_lake
from tests.derived import toys
from tests.derived.test_pieces import KEYS, PARTITIONS, filled, killed_at
from tests.model import JournalRecord
from tests.properties import examples
from tests.strategies import journals
from tests.streaming.harness import Crash, Fold
from tests.streaming.test_engine import PURCHASES, journal_of
from tests.streaming.test_rebuild_lake import epochs_of
from tests.wait import eventually

COMMAND = (
    sys.executable, "-c",
    "from tests.derived.toys import declare; declare(); from metajournal.streaming.derived.process import main; main()",
)  # fmt: skip
"""A process that knows the toy, too."""


class Held(Here):
    """A piece outlasts batches: its answer comes when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.free = False

    def take(self) -> Answered | Ended | None:
        free, self.free = self.free, False
        return super().take() if free else None


def none(point: str) -> None:
    pass


class Installation:
    """A writer of one lake over several lives, with what may happen to it."""

    def __init__(self, path: Path, journal: Sequence[JournalRecord]) -> None:
        self.journal = journal
        self.folded = 0
        self.fold = Fold(path, PARTITIONS)
        self.at: Callable[[str], None] = none
        self.bounds = Bounds(3)
        self.version = 1
        self.start()

    @property
    def lake(self) -> Lake:
        return self.fold.lake

    def start(self) -> None:
        self.fold.start()
        self.server = Held()
        clock = count(step=2)
        self.derived = DerivedTables(
            self.lake, KEYS, self.server, lambda point: self.at(point), bounds=self.bounds, clock=lambda: next(clock)
        )

    def batch(self) -> None:
        self.folded = min(len(self.journal), self.folded + 4)
        self.fold.batch(self.journal, until=self.journal[: self.folded])

    def tend(self) -> None:
        self.fold.engine.take_over(self.derived.fill_first)
        self.derived.tend()

    def let_go(self) -> None:
        self.server.free = True
        self.tend()

    def crash(self, point: str) -> None:
        """Go on until a point; then a new process, which knows nothing."""
        self.at = self.fold.engine._crash.pass_point = killed_at(point, 1)  # type: ignore[method-assign]
        try:
            for _ in range(4):
                self.let_go()
        except Crash:
            pass
        self.at = none
        self.start()

    def upkeep(self) -> None:
        """Compact, and vacuum without mercy: only what is in hand is spared."""
        for name in derived_tables():
            self.lake.target(name).compact()
        self.lake._retention_h, self.lake._waiting = 0, [*derived_tables()]
        for _ in derived_tables():
            self.lake._piece(none)
        assert {*self.lake._waiting} == self.lake.in_hand
        self.lake._waiting, self.lake._retention_h = [], 1

    def rebuild(self) -> None:
        names = [*history_tables(), *derived_tables()]
        view = self.lake.begin_generation(names)
        rebuilt = LakeRebuild(self.fold.settings, epochs_of(self.fold), self.lake, view, names, InProcess()).run()
        assert rebuilt.equal
        self.lake.offer_generation(view.generation)

    def finish(self) -> None:
        self.at = none
        while self.folded < len(self.journal):
            self.batch()
        for _ in range(200):
            self.let_go()
            told = {one["name"]: one for one in self.derived.status()}
            if all(one["complete"] for one in told.values()) and not self.lake.is_offered() and self.settled():
                return
        raise AssertionError(told)

    def settled(self) -> bool:
        return all(self.lake.target(name) is self.lake.tables[name] for name in derived_tables())

    def check(self) -> None:
        for name in derived_tables():
            assert all(self.lake.target(name).mark(key) <= self.lake.journal.mark(key) for key in KEYS)


STEPS = st.sampled_from(["batch", "batch", "tend", "let_go", "let_go", "upkeep", "rebuild", "version", "crash"])


@pytest.mark.thorough
@given(journals(partitions=PARTITIONS), st.data())
@settings(max_examples=examples(14), deadline=None, suppress_health_check=list(HealthCheck))
def test_batches_kills_upkeep_swaps_and_new_versions_in_any_order_change_no_row(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        toys.declared(patch)
        one = Installation(tmp_path_factory.mktemp("lake"), journal)
        for step in data.draw(st.lists(STEPS, max_size=12)):
            if step == "crash":
                one.crash(data.draw(st.sampled_from([*DERIVING, *SWAPPING])))
            elif step == "version":
                one.version += 1
                toys.declared(patch, one.version)
                one.start()
            elif step != "rebuild" or not one.lake.is_offered():
                getattr(one, step)()
            one.check()
        one.finish()
        assert toys.held(one.lake) == toys.told(one.lake, version=one.version)
        toys.files_held(one.lake)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    toys.declared(monkeypatch)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return monkeypatch


JOURNAL = journal_of(EntityRegistered(PURCHASES), *(TagsAdded(PURCHASES, [f"t{n}"]) for n in range(14)))


@pytest.fixture
def one(tmp_path: Path, toy: pytest.MonkeyPatch) -> Installation:
    return Installation(tmp_path, JOURNAL)


@pytest.mark.thorough
def test_a_generation_that_is_swapped_in_amid_a_piece_throws_it_away(one: Installation) -> None:
    one.batch()
    one.let_go()
    one.batch()
    one.let_go()  # commits, asks for the next one
    one.rebuild()
    one.batch()
    in_hand = one.derived._asked
    assert in_hand is not None
    one.tend()
    assert one.lake.generation == 1
    assert one.derived._asked is in_hand
    files = {path for name in toys.TABLES for path in (one.fold.path / name).glob("*.parquet")}
    one.let_go()
    assert files - {path for name in toys.TABLES for path in (one.fold.path / name).glob("*.parquet")}
    one.finish()
    assert one.lake.tables["toy_counts"].uri.endswith("gen-1/toy_counts")
    assert toys.held(one.lake) == toys.told(one.lake)


@pytest.mark.thorough
def test_while_a_generation_is_offered_only_it_is_filled_and_it_waits_for_the_live_marks(one: Installation) -> None:
    one.batch()
    one.let_go()
    one.rebuild()
    view = one.lake.offered_generation()
    assert view is not None
    one.lake.withdraw_generation(1)
    one.let_go()  # the live tables go on before the offer is seen
    one.batch()
    filled(one.lake)
    one.lake.offer_generation(1)
    live = {name: one.lake.tables[name].delta.version() for name in toys.TABLES}
    one.tend()
    assert one.lake.generation == 0
    one.batch()
    one.let_go()
    assert {name: one.lake.tables[name].delta.version() for name in toys.TABLES} == live
    one.finish()
    assert one.lake.generation == 1
    assert toys.held(one.lake) == toys.told(one.lake)


@pytest.mark.thorough
def test_a_new_version_fills_its_table_beside_the_old_one_which_is_read_until_then(
    one: Installation, toy: pytest.MonkeyPatch
) -> None:
    while one.folded < len(JOURNAL):
        one.batch()
    one.finish()
    before = toys.held(one.lake)
    toys.declared(toy, 2)
    one.start()
    one.let_go()
    one.let_go()
    assert toys.held(Lake(one.lake.path)) == before
    assert (one.fold.path / "toy_counts.v2").is_dir()
    one.finish()
    assert toys.held(Lake(one.lake.path)) == toys.told(one.lake, version=2)
    one.lake._waiting = ["toy_sizes"]
    one.lake._retention_h = 0
    one.lake._piece(none)
    assert not (one.fold.path / "toy_counts").exists()


def aside(one: Installation) -> Rebuilt:
    """What `verify` finds."""
    names = [*history_tables(), *derived_tables()]
    with one.lake.aside(names) as view:
        return LakeRebuild(
            one.fold.settings, epochs_of(one.fold), Lake(one.lake.path), view, names, InProcess(), only_compare=True
        ).run()


@pytest.mark.thorough
def test_a_file_that_is_missing_or_changed_is_found_and_a_rebuild_writes_it_anew(one: Installation) -> None:
    while one.folded < len(JOURNAL):
        one.batch()
    one.finish()
    first, second, *_ = [one.fold.path / "catalog" / row[0] / row[-1] for row in toys.held(one.lake)["toy_counts"]]
    assert aside(one).equal
    first.unlink()
    second.write_bytes(b"something else")
    found = aside(one)
    assert sorted(found.files) == sorted(str(path.relative_to(one.fold.path)) for path in (first, second))
    assert not found.equal
    assert (first.exists(), second.read_bytes()) == (False, b"something else")
    rebuild_lake(one.fold.settings, epochs_of(one.fold), InProcess(), offline=True)
    toys.files_held(one.lake)
    assert aside(one).equal


@pytest.mark.thorough
def test_verify_says_how_far_a_derived_table_is_behind(one: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lags, so what it holds is in order; but who reads it should know."""
    monkeypatch.setattr("metajournal.streaming.verify.watermarks", lambda _, keys: dict.fromkeys(keys, (0, 1 << 39)))

    def found() -> Check:
        checks = verify_lake(one.fold.settings, epochs_of(one.fold), Lake(one.lake.path), InProcess())
        return next(check for check in checks if check.name == "table-toy_counts")

    while one.folded < len(JOURNAL):
        one.batch()
    lacking = sum(offset_of(one.lake.journal.mark(key)) for key in KEYS)
    assert lacking >= len(JOURNAL)
    assert (found().ok, f"derived, {lacking} positions behind: `metajournal status`" in found().text) == (True, True)
    one.finish()
    assert (found().ok, "behind" in found().text) == (True, False)


@pytest.mark.thorough
def test_a_rebuild_derives_nothing_beyond_what_it_has_folded(one: Installation) -> None:
    """The live tables may be farther than the tables of its generation, which rows are derived from."""
    while one.folded < len(JOURNAL):
        one.batch()
    one.finish()
    names = [*history_tables(), *derived_tables()]
    view = one.lake.begin_generation(names)
    rebuild = LakeRebuild(one.fold.settings, epochs_of(one.fold), one.lake, view, names, InProcess())
    rebuild.round(rebuild.live_marks(), 2)
    refill(one.lake, view, rebuild.marks())
    marks = rebuild.marks()
    assert any(marks[key] < one.lake.tables["toy_counts"].mark(key) for key in KEYS)
    assert {key: max(1 << 40, view.tables["toy_counts"].mark(key)) for key in KEYS} == marks
    assert rebuild.run().equal
    one.lake.swap_to(view.generation)
    assert toys.held(one.lake) == toys.told(one.lake)


@pytest.mark.thorough
def test_a_damaged_derived_table_stops_nothing_else_and_a_rebuild_mends_it(one: Installation) -> None:
    one.batch()
    one.let_go()
    one.let_go()
    for commit in (one.fold.path / "toy_counts" / "_delta_log").glob("*.json"):
        commit.write_text("{")
    one.start()
    one.batch()
    one.let_go()
    one.let_go()
    assert "rebuild lake" in one.derived.faults["toy"].why
    assert not {told["name"]: told for told in one.derived.status()}["toy"]["complete"]
    one.lake.drop_generation(1)
    names = [*history_tables(), *derived_tables()]
    view = one.lake.begin_generation(names)
    LakeRebuild(one.fold.settings, epochs_of(one.fold), one.lake, view, names, InProcess()).run()
    one.lake.offer_generation(1)
    one.batch()
    one.finish()
    assert one.lake.generation == 1
    assert not one.derived.faults
    assert toys.held(one.lake) == toys.told(one.lake)


@pytest.mark.thorough
def test_a_table_that_is_damaged_at_the_start_is_told_once_and_so_is_its_mending(one: Installation) -> None:
    """Nothing else is due, so a look that finds it is the only news there is."""
    while one.folded < len(JOURNAL):
        one.batch()
    one.finish()
    logs = {commit: commit.read_text() for commit in (one.fold.path / "toy_counts" / "_delta_log").glob("*.json")}
    for commit in logs:
        commit.write_text("{")
    one.start()
    assert one.derived.tend()
    assert "is damaged" in {told["name"]: told for told in one.derived.status()}["toy"]["why"]
    assert not one.derived.tend()
    for commit, text in logs.items():
        commit.write_text(text)
    one.derived._generation -= 1  # as when a rebuild was taken over
    assert one.derived.tend()
    assert not [told for told in one.derived.status() if "why" in told]


def fast() -> float:
    """Real time ten times as fast: rests and waits pass soon, and no number of looks makes the process idle."""
    return time.monotonic() * 10


def beside(one: Installation) -> Beside:
    server = Beside(COMMAND)
    one.derived = DerivedTables(one.lake, KEYS, server, bounds=Bounds(4), clock=fast)
    return server


def tended(one: Installation, until: Callable[[], bool]) -> None:
    def done() -> bool:
        one.derived.tend()
        return until()

    eventually(done, 60, "derived tables")


def complete(one: Installation) -> bool:
    return all(told["complete"] for told in one.derived.status())


@pytest.mark.thorough
def test_a_process_that_is_killed_amid_a_piece_is_started_again_and_ends_with_its_driver(
    one: Installation, toy: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hang = tmp_path / "hang"
    hang.touch()
    toy.setenv(toys.HANG, str(hang))
    one.batch()
    server = beside(one)
    one.derived.tend()
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    one.batch()  # the fold goes on
    tended(one, lambda: server.pid not in (None, pid))
    again = server.pid
    hang.unlink()
    tended(one, lambda: complete(one))
    assert server.pid == again
    assert toys.held(one.lake) == toys.told(one.lake)
    process = server._process
    assert process is not None
    assert process.stdin is not None
    assert os.getpriority(os.PRIO_PROCESS, process.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    hang.touch()
    one.batch()
    one.derived._again_at.clear()
    one.derived.tend()
    process.stdin.close()  # as when the driver is killed, here amid a piece
    assert process.wait(30) == 0


@pytest.mark.thorough
def test_a_process_is_idle_from_its_last_answer_not_from_the_last_question(one: Installation) -> None:
    """A piece that takes long is followed by the next one in the same process."""

    class Watched(Held):
        closed = False

        def close(self) -> None:
            self.closed = True
            super().close()

    now, server = [0.0], Watched()
    one.derived = DerivedTables(one.lake, KEYS, server, bounds=Bounds(1_000), clock=lambda: now[0])
    one.batch()
    assert one.derived.tend()
    while not complete(one):
        now[0] += 2 * IDLE_S
        server.free = True
        one.derived.tend()
    now[0] += IDLE_S / 2
    assert not one.derived.tend()
    assert not server.closed
    now[0] += IDLE_S
    assert not one.derived.tend()
    assert server.closed


@pytest.mark.thorough
def test_a_fault_stops_its_own_tables_says_where_and_is_tried_again_at_the_next_start(
    one: Installation, toy: pytest.MonkeyPatch
) -> None:
    while one.folded < len(JOURNAL):
        one.batch()
    partition = next(key for key in KEYS if one.lake.journal.mark(key))
    broken = one.lake.journal.mark(partition) - 2
    toy.setenv(toys.FAULT, str(broken))
    server = beside(one)
    tended(one, lambda: bool(one.derived.faults))
    told = {said["name"]: said for said in one.derived.status()}
    toy_says = told["toy"]
    assert toy_says["why"] == "LookupError: the toy is broken"
    assert toy_says["place"] == f"{partition[0]}/{partition[1]}"
    assert toy_says["start"] <= broken < toy_says["end"]
    assert "next start" in toy_says["mend"]
    assert not toy_says["complete"]
    tended(one, lambda: all(said["complete"] for said in one.derived.status() if said["name"] != "toy"))
    assert not one.derived.tend()
    one.derived.close()
    toy.delenv(toys.FAULT)
    server = beside(one)
    tended(one, lambda: complete(one))
    one.derived.close()
    assert server.pid is None
    assert toys.held(one.lake) == toys.told(one.lake)


@pytest.mark.thorough
def test_a_function_whose_process_dies_again_and_again_is_given_up(one: Installation) -> None:
    one.batch()
    server = Beside((sys.executable, "-c", "raise SystemExit(7)"))
    one.derived = DerivedTables(one.lake, KEYS, server, clock=fast)
    tended(one, lambda: "toy" in one.derived.faults)
    assert one.derived.faults["toy"].why == "its process ended 3 times in a row, last with exit code 7"
    assert {*one.derived.faults} <= {*DERIVED}
