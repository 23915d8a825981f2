"""Whatever is killed while commits are made, their rows are there once and say what plain dictionaries say."""

from __future__ import annotations

from contextlib import suppress
from functools import partial as partial_function
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.client import Journal
from metajournal.domains.repositories import derived, partial
from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.lake.derived import wait_for_derived
from metajournal.lake.tables import Lake
from metajournal.producers.topics import check_topics, ensure_topics
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.streaming.crash import DERIVING
from metajournal.streaming.derived.committing import fill
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.derived.making import Bounds
from metajournal.streaming.rebuild import InProcess, rebuild_lake
from metajournal.streaming.verify import verify_lake
from tests.derived.test_pieces import killed_at
from tests.derived.test_stream import derived as derived_of
from tests.processes import running_stream, stream
from tests.properties import examples
from tests.repositories.test_layers import KEY, assert_as_told, begun, history, rows
from tests.streaming.harness import Crash, Fold
from tests.streaming.test_stream_kills import with_stream
from tests.wait import eventually

TABLES = ("trees", "commit_trees")


def assert_once(fold: Fold) -> None:
    """No row stands twice in the tables, however many files they have."""
    for name, key in (("trees", ("layer", "path")), ("commit_trees", ("commit", "logical_timestamp"))):
        keys = [tuple(row[one] for one in key) for row in rows(fold, name)]
        assert len(keys) == len({*keys})


@pytest.mark.thorough
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 3),
    st.lists(st.tuples(st.sampled_from(DERIVING), st.integers(1, 6), st.integers(1, 60)), min_size=1, max_size=6),
    st.sampled_from([50, 2_000, 1 << 18]),
)
def test_a_pass_that_is_killed_at_any_step_goes_on_as_if_it_had_not_been(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kills: list[tuple[str, int, int]], work: int
) -> None:
    plain = history(seed, 25, 60)
    fold = begun(tmp_path_factory.mktemp("lake"), plain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partial, "PARTIAL_ROWS", 40)
        patch.setattr(derived, "MOST_WORK", work)
        for point, number, size in kills:
            lake = Lake(fold.lake.path)
            lake.include(["repositories"])
            upto = {"trees": {KEY: lake.journal.mark(KEY)}}
            with suppress(Crash):
                files = StoredFiles(lake.path, {})
                fill(lake, upto, files, bounds=Bounds(size), hook=killed_at(point, number))
        fold.lake.refresh()
        fill(fold.lake, {"trees": {KEY: fold.lake.journal.mark(KEY)}}, StoredFiles(fold.lake.path, {}))
    assert_as_told(fold, plain)
    assert_once(fold)
    assert all(fold.lake.tables[name].mark(KEY) == fold.lake.journal.mark(KEY) for name in TABLES)


# beside a real stream


def emit(settings: Settings, first: int) -> Position:
    """Four commits on two branches, of writes, deletions and a reset each; gives the position of the last one."""
    with Journal.connect(settings) as journal:
        for number in range(first, first + 4):
            branch = branch_urn("kills", ("main", "dev")[number % 2])
            journal.emit(
                e.ObjectsWritten(branch, [entry(f"{at % 3}/{at:03}", at) for at in range(number, number + 40)])
            )
            journal.emit(e.ObjectsDeleted(branch, [f"{number % 3}/{number:03}"]))
            journal.emit(e.ObjectsWritten(branch, [entry("dropped/1", number)]))
            journal.emit(e.BranchReset(branch, prefix="dropped/"))
            last = journal.emit(e.Committed(branch, f"commit {number}"))
        return last.position


def entry(path: str, number: int) -> e.Entry:
    return e.Entry(path, number, f"c{number}", f"s3://b/{path}")


def why_trees_wait(settings: Settings) -> str | None:
    """Why the tables do not go on, as the stream's status says."""
    said: str | None = next((one.get("why") for one in derived_of(settings) if one["name"] == "trees"), None)
    return said


@pytest.mark.services
@pytest.mark.long
def test_a_stream_that_is_killed_at_each_step_of_the_pass_loses_and_doubles_nothing(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    with Journal.connect(settings) as journal:
        journal.emit(e.RepositoryCreated(repository_urn("kills"), "main", "s3://b"))
        journal.emit(e.BranchCreated(branch_urn("kills", "dev")))
        journal.flush()
    first = 0
    for point in ("derive-before-commit", "derive-after-commit"):
        for passing in (1, 2):  # of the first table, and of the second one
            emit(settings, first)
            first += 4
            killed = stream(with_stream(settings, crash_at=f"{point}:{passing}"), tmp_path / f"{point}{passing}")
            assert killed.ended(90) == -9, (point, killed.tail())
    for point in ("derive-before-files", "derive-after-files"):  # of the process that makes the pieces
        emit(settings, first)
        first += 4
        with running_stream(with_stream(settings, crash_at=f"{point}:1"), tmp_path / f"{point}.log") as process:
            eventually(partial_function(why_trees_wait, settings), 90, f"the fault in the status ({process.log})")
            assert "its process ended 3 times in a row" in (why_trees_wait(settings) or "")
    epochs = check_topics(settings)
    with running_stream(settings, tmp_path / "last.log") as process:
        last = emit(settings, first)
        lake = Lake(settings.lake.path)
        wait_for_derived(lake, list(TABLES), {(last.topic, last.partition): last.value + 1}, timeout_s=120)
        lake.refresh()
        commits = lake.tables["commits"].query("commit", "true")
        told = lake.tables["commit_trees"].query("commit, objects", "true")
        assert sorted(row["commit"] for row in told) == sorted(row["commit"] for row in commits)
        assert len({row["commit"] for row in told}) == first + 4
        layers = lake.tables["trees"].query("layer, path", "true")
        assert len({(row["layer"], row["path"]) for row in layers}) == len(layers) > 0
        assert rebuild_lake(settings, epochs, InProcess(), offline=False).equal
        checks = {one.name: one for one in verify_lake(settings, epochs, Lake(settings.lake.path), InProcess())}
        assert {"table-trees", "table-commit_trees"} <= checks.keys()
        assert all(one.ok for one in checks.values()), checks
        assert process.stop() == 0, process.tail()
