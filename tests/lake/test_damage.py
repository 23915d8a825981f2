"""Damaged files of a lake: every question that needs one names table and file, and a stale view is no damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from metajournal import AccessesRecorded, RunStarted, RunStopped
from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet
from metajournal.domains.catalog.urns import dataset
from metajournal.domains.files.events import FilesRecorded
from metajournal.domains.files.queries import FileQueries
from metajournal.domains.files.questions import FilesQuestion
from metajournal.domains.lineage.queries import LineageQueries
from metajournal.domains.lineage.questions import LineageQuestion, RunQuestion
from metajournal.indexer.fill.lake_states import LakeStates
from metajournal.lake.digest import table_digest
from metajournal.lake.events import judged_events
from metajournal.lake.reading import LakeReader
from metajournal.lake.storage import groups
from metajournal.lake.storage.damage import is_mended
from metajournal.lake.tables import Lake, Table
from metajournal.lake.views.log import TableLog
from metajournal.lake.views.table import MarkedView
from metajournal.lake.views.views import Views
from metajournal.schemas.errors import DamagedTableError, StaleReadError
from metajournal.schemas.settings import LakeSettings, Settings
from metajournal.schemas.topics import TopicNames
from tests.archive import START, a_file
from tests.builders import NOON
from tests.damage import WAYS, assert_named, damaged, data_files
from tests.lake import test_file_queries
from tests.lake.test_lineage_queries import CLEAN, PARTITIONS, RAW, WASH, records_of, run_of
from tests.streaming.harness import Fold

pytestmark = pytest.mark.thorough

NAMES = TopicNames()
PURCHASES = dataset("default", "purchases")
EVENTS = [
    EntityRegistered(PURCHASES),
    PropertiesSet(PURCHASES, {"owner": "ali"}),
    RunStarted(run_of(WASH, 1), 100),
    AccessesRecorded(run_of(WASH, 1), [(RAW, "read", 110, "reader"), (CLEAN, "write", 120, "writer")]),
    RunStopped(run_of(WASH, 1), 200, "COMPLETED"),
]
MARKS = {("metajournal.journal.catalog", number): 1 << 60 for number in range(PARTITIONS)}
FILES = FilesQuestion.of(start=START, end=START + 1)


def entities(lake: Lake) -> LakeReader:
    return LakeReader(lake, NAMES, PARTITIONS)


def lineage(lake: Lake) -> LineageQueries:
    return LineageQueries(lake, NAMES, PARTITIONS)


def states(lake: Lake) -> LakeStates:
    return LakeStates(Settings(lake=LakeSettings(path=lake.path)))


def judged(lake: Lake) -> Any:
    return judged_events(Views(lake).take(), "00000000-0000-0000-0000-000000000001")


QUESTIONS: Final[dict[str, tuple[str, Callable[[Lake], Any]]]] = {
    "show": ("entities", lambda lake: entities(lake).current("default", PURCHASES)),
    "show as at": ("entities", lambda lake: entities(lake).as_at("default", PURCHASES, NOON + 60_000)),
    "history": ("entities", lambda lake: entities(lake).history("default", PURCHASES)),
    "sql": ("entities", lambda lake: lake.tables["entities"].query("*", "true")),
    "digest": ("entities", lambda lake: table_digest(lake.tables["entities"].delta, MARKS)),
    "states": ("entities", lambda lake: list(states(lake).pages())),
    "files": ("file_records", lambda lake: FileQueries(lake, NAMES, PARTITIONS).page("default", FILES)),
    "relations": ("relations", lambda lake: lineage(lake).of("default", LineageQuestion.of(CLEAN, 0, 1_000))),
    "runs": ("runs", lambda lake: lineage(lake).of("default", LineageQuestion.of(CLEAN, 0, 1_000))),
    "accesses": ("accesses", lambda lake: lineage(lake).accesses("default", RunQuestion.of(run_of(WASH, 1)))),
    "why": ("journal", judged),
}


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with some of everything."""
    path: Path = tmp_path_factory.mktemp("folded")
    Fold(path, PARTITIONS).batch(records_of(EVENTS))
    test_file_queries.folded(path, test_file_queries.journal_of([FilesRecorded([a_file()])]))
    return path


@pytest.fixture
def copy(folded: Path, tmp_path: Path) -> Path:
    path = tmp_path / "lake"
    shutil.copytree(folded, path)
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_that_needs_a_damaged_file_names_table_and_file_and_what_to_do(
    copy: Path, monkeypatch: pytest.MonkeyPatch, question: str, way: str
) -> None:
    name, ask = QUESTIONS[question]
    ask(Lake(str(copy)))
    monkeypatch.setattr(groups, "_footers", groups._Footers())  # what it read before would be enough for an answer
    damaged(copy, name, way)
    with pytest.raises(DamagedTableError) as refused:
        ask(Lake(str(copy)))
    assert_named(refused.value, name, way)
    assert (Path(refused.value.uri) / refused.value.file).parent.is_dir()


def test_what_mends_the_journal_table_is_another_rebuild_than_what_mends_a_history_table(copy: Path) -> None:
    said = {}
    for name in ("journal", "entities"):
        damaged(copy, name, "half")
        with pytest.raises(DamagedTableError) as refused:
            Lake(str(copy)).tables[name].query("*", "true")
        said[name] = refused.value.hint
    assert "--from kafka" in said["journal"]
    assert "--from kafka" not in said["entities"]


def test_questions_that_do_not_need_the_damaged_table_are_answered(copy: Path) -> None:
    damaged(copy, "runs", "half")
    assert entities(Lake(str(copy))).current("default", PURCHASES).row is not None


def test_an_error_that_is_not_the_files_fault_is_raised_as_it_is(copy: Path) -> None:
    with pytest.raises(Exception, match="no_such_column") as refused:
        Lake(str(copy)).tables["entities"].query("no_such_column", "true")
    assert not isinstance(refused.value, DamagedTableError)


def test_a_table_whose_file_came_back_is_mended(copy: Path) -> None:
    (file,) = data_files(Lake(str(copy)).tables["runs"])
    content = file.read_bytes()
    damaged(copy, "runs", "half")
    with pytest.raises(DamagedTableError) as refused:
        Lake(str(copy)).tables["runs"].query("*", "true")
    assert not is_mended(refused.value, {})
    file.write_bytes(content)
    assert is_mended(refused.value, {})


def newest_of(table: Path, suffix: str) -> Path:
    return sorted((table / "_delta_log").glob(f"*{suffix}"))[-1]


@pytest.mark.parametrize("way", ["empty", "half", "overwritten"])
def test_a_damaged_commit_is_named(copy: Path, way: str) -> None:
    commit = newest_of(copy / "entities", ".json")
    WAYS[way].damage(commit)
    with pytest.raises(DamagedTableError) as refused:
        entities(Lake(str(copy))).current("default", PURCHASES)
    assert (refused.value.table, refused.value.file) == ("entities", f"_delta_log/{commit.name}")
    assert "metajournal rebuild lake" in refused.value.hint
    assert not is_mended(refused.value, {})


def with_checkpoint(path: Path) -> Table:
    table = Lake(str(path)).tables["entities"]
    table.delta.create_checkpoint()
    return table


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_checkpoint_of_the_log_is_named(copy: Path, way: str) -> None:
    with_checkpoint(copy)
    checkpoint = newest_of(copy / "entities", ".checkpoint.parquet")
    WAYS[way].damage(checkpoint)
    with pytest.raises(DamagedTableError) as refused:
        entities(Lake(str(copy))).current("default", PURCHASES)
    assert refused.value.file == f"_delta_log/{checkpoint.name}"
    assert refused.value.problem in (WAYS[way].problem, "cut short")


def test_a_commit_that_is_gone_from_the_middle_of_the_log_is_named(copy: Path) -> None:
    table = Lake(str(copy)).tables["entities"]
    for hours in (2, 3, 4):
        table.delta.alter.set_table_properties({"delta.deletedFileRetentionDuration": f"interval {hours} hours"})
    gone = sorted((copy / "entities" / "_delta_log").glob("*.json"))[-2]
    gone.unlink()
    with pytest.raises(DamagedTableError) as refused:
        entities(Lake(str(copy))).current("default", PURCHASES)
    assert (refused.value.file, refused.value.problem) == (f"_delta_log/{gone.name}", "gone")


def test_a_damaged_log_of_the_journal_table_is_mended_by_a_copy_alone(copy: Path) -> None:
    WAYS["half"].damage(newest_of(copy / "journal", ".json"))
    with pytest.raises(DamagedTableError) as refused:
        entities(Lake(str(copy))).current("default", PURCHASES)
    assert "from a copy of the lake" in refused.value.hint
    assert "rebuild" not in refused.value.hint


def test_a_table_that_is_gone_beside_its_journal_is_named(copy: Path) -> None:
    shutil.rmtree(copy / "entities")
    for ask in (lambda lake: entities(lake).current("default", PURCHASES), Lake.create):
        with pytest.raises(DamagedTableError, match=r"'entities'.* is gone") as refused:
            ask(Lake(str(copy)))
        assert "metajournal rebuild lake" in refused.value.hint
    assert not (copy / "entities").exists()


def overtake(monkeypatch: pytest.MonkeyPatch, path: Path, times: int) -> list[str]:
    """Have a table's files compacted away behind the first looks at it, so that a reader's view is stale at once.

    Returns:
        The tables that this will have happened to.
    """
    look, overtaken = TableLog.look, list[str]()

    def then_rewritten(log: TableLog) -> MarkedView:
        view = look(log)
        if len(overtaken) < times and log.name in ("entities", "file_records", "relations"):
            overtaken.append(log.name)
            rewritten(str(path), log.name)
        return view

    monkeypatch.setattr(TableLog, "look", then_rewritten)
    return overtaken


def rewritten(path: str, name: str) -> None:
    """Put another file with the same rows in the place of a table's, and delete the old one, as a vacuum does."""
    table = Lake(path).tables[name]
    before = data_files(table)
    table.delta.optimize.z_order(["tenant"])
    after = data_files(table)
    assert not set(before) & set(after)
    for file in before:
        file.unlink()


@pytest.mark.parametrize("question", ["show", "history", "files", "relations"])
def test_a_reader_whose_files_were_vacuumed_looks_again_and_answers(
    copy: Path, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ask = QUESTIONS[question]
    answer = ask(Lake(str(copy)))
    with monkeypatch.context() as once:
        overtaken = overtake(once, copy, 1)
        assert ask(Lake(str(copy))) == answer
        assert len(overtaken) == 1
    overtake(monkeypatch, copy, 2)
    with pytest.raises(StaleReadError):
        ask(Lake(str(copy)))


def test_a_table_that_is_not_compacted_for_damage_is_named(copy: Path) -> None:
    fold = Fold(copy, PARTITIONS)
    records = records_of([*EVENTS, *(PropertiesSet(PURCHASES, {"owner": str(number)}) for number in range(60))])
    for end in range(len(EVENTS) + 1, len(records) + 1):
        fold.batch(records, until=records[:end])
    damaged(copy, "entities", "half")
    with pytest.raises(DamagedTableError) as refused:
        fold.engine.tidy(for_s=60.0)
    assert refused.value.table == "entities"
