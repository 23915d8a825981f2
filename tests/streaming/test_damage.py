"""A stream whose tables are damaged: nothing is folded past what it cannot judge, and a rebuild mends it beside it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from metajournal.commands.refolding import _mends
from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet, TagsAdded
from metajournal.lake.declared import derived_tables, history_tables
from metajournal.lake.tables import Lake
from metajournal.producers.topics import check_topics, ensure_topics
from metajournal.schemas.errors import DamagedTableError
from metajournal.schemas.settings import Settings
from metajournal.stack.supervisor import read_told
from metajournal.streaming.between import mending
from metajournal.streaming.rebuild import InProcess, LakeRebuild, rebuild_lake, take_offered
from metajournal.streaming.runner import Stream
from metajournal.streaming.status import StatusFile
from metajournal.streaming.verify import Check, unless_damaged, verify_lake
from tests.damage import WAYS, assert_named, damaged, data_files
from tests.model import JournalRecord, Model
from tests.processes import running_stream
from tests.streaming.harness import Fold
from tests.streaming.test_engine import PARTITIONS, PURCHASES, assert_equal, journal_of
from tests.streaming.test_rebuild_lake import epochs_of
from tests.streaming.test_stream_kills import generated, with_stream
from tests.topics import folded_to_the_end, write
from tests.wait import eventually

pytestmark = pytest.mark.thorough

EVENTS = [EntityRegistered(PURCHASES), PropertiesSet(PURCHASES, {"owner": "ali"}), TagsAdded(PURCHASES, ["pii"])]
BOTH = pytest.mark.parametrize("wide", [False, True], ids=["short", "wide"])


def begun(path: Path, name: str, way: str) -> tuple[Fold, list[JournalRecord]]:
    """A stream that has folded all but the last event when a table is damaged, and remembers nothing of it."""
    fold, journal = Fold(path, PARTITIONS), journal_of(*EVENTS)
    fold.batch(journal, until=journal[:-1])
    damaged(path, name, way)
    fold.start()
    return fold, journal


@BOTH
@pytest.mark.parametrize("way", WAYS)
def test_an_event_that_needs_a_damaged_file_is_not_judged_until_a_rebuild_was_taken_over(
    tmp_path: Path, way: str, wide: bool
) -> None:
    fold, journal = begun(tmp_path, "entities", way)
    before = fold.topics.records.copy(), fold.lake.journal.delta.version()
    with pytest.raises(DamagedTableError) as stopped:
        fold.batch(journal, wide=wide)
    assert_named(stopped.value, "entities", way)
    assert (fold.topics.records, fold.lake.journal.delta.version()) == before

    def offered() -> None:
        assert take_offered(fold.settings, epochs_of(fold), Lake(str(tmp_path))) == 1

    done = rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=False, wait=offered)
    assert done.equal
    assert set(done.damaged) == {"entities"}
    fold.start()
    fold.batch(journal, wide=wide)
    assert_equal(fold, Model.of(journal))


def test_the_stream_that_runs_takes_a_rebuild_over_while_its_own_tables_are_damaged(tmp_path: Path) -> None:
    fold, journal = begun(tmp_path, "entities", "half")

    def between_two_batches() -> None:
        fold.engine.take_over()

    done = rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=False, wait=between_two_batches)
    assert done.generation == 1
    fold.batch(journal)
    assert_equal(fold, Model.of(journal))


def test_a_rebuild_that_needs_a_damaged_journal_table_says_what_mends_that(tmp_path: Path) -> None:
    fold, _ = begun(tmp_path, "journal", "half")
    with pytest.raises(DamagedTableError) as refused:
        rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True)
    assert refused.value.table == "journal"
    assert "--from kafka" in refused.value.hint


def test_a_rebuild_whose_unfinished_tables_are_damaged_begins_them_anew(tmp_path: Path) -> None:
    fold, journal = begun(tmp_path, "entities", "half")
    names = [*history_tables(), *derived_tables()]
    view = fold.lake.begin_generation(names)
    LakeRebuild(fold.settings, epochs_of(fold), fold.lake, view, names, InProcess()).round(fold.engine.marks, 1)
    for file in data_files(view.tables["entities"]):
        WAYS["half"].damage(file)
    assert rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=True).generation == 1
    fold.start()
    fold.batch(journal)
    assert_equal(fold, Model.of(journal))


def test_damaged_tables_are_not_taken_over(tmp_path: Path) -> None:
    fold, journal = Fold(tmp_path, PARTITIONS), journal_of(*EVENTS)
    fold.batch(journal, until=journal[:-1])
    names = [table.name for table in fold.lake.histories]
    view = fold.lake.begin_generation(names)
    LakeRebuild(fold.settings, epochs_of(fold), fold.lake, view, names, InProcess()).run()
    fold.batch(journal)  # the rebuilt tables need this one too, and its entity's row for it
    fold.lake.offer_generation(1)
    for file in data_files(view.tables["entities"]):
        WAYS["half"].damage(file)
    with pytest.raises(DamagedTableError):
        fold.engine.take_over()
    assert fold.engine.take_over() is None
    assert fold.lake.generation == 0
    assert_equal(fold, Model.of(journal))


@pytest.mark.parametrize("way", ["gone", "half"])
def test_a_stream_that_cannot_even_open_a_table_takes_the_rebuilt_ones_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    fold, journal = Fold(tmp_path, PARTITIONS), journal_of(*EVENTS)
    for end in (1, 2):
        fold.batch(journal, until=journal[:end])
    WAYS[way].damage(sorted((tmp_path / "entities" / "_delta_log").glob("*.json"))[-2])
    with pytest.raises(DamagedTableError) as stopped:
        fold.start()
    monkeypatch.setattr(mending, "check_topics", lambda _: epochs_of(fold))
    status = StatusFile(str(tmp_path), "stream")

    def waiting() -> None:
        mending.wait_for_mend(stopped.value, fold.settings, status, threading.Event(), 0)

    rebuild_lake(fold.settings, epochs_of(fold), InProcess(), offline=False, wait=waiting)
    said = read_told(tmp_path / "stream.json")
    assert (said["state"], said["mend"]) == ("waiting", stopped.value.hint)
    assert stopped.value.file in said["message"]
    fold.start()
    fold.batch(journal)
    assert_equal(fold, Model.of(journal))


def test_a_stream_that_waits_for_a_damaged_file_goes_on_when_it_came_back_and_ends_when_asked(tmp_path: Path) -> None:
    fold, journal = Fold(tmp_path, PARTITIONS), journal_of(*EVENTS)
    fold.batch(journal, until=journal[:-1])
    contents = {file: file.read_bytes() for file in data_files(fold.lake.tables["entities"])}
    damaged(tmp_path, "entities", "gone")
    fold.start()
    with pytest.raises(DamagedTableError) as stopped:
        fold.batch(journal)
    asked = threading.Event()
    asked.set()
    status = StatusFile(None, "stream")
    mending.wait_for_mend(stopped.value, fold.settings, status, asked, 0)
    for file, content in contents.items():
        file.write_bytes(content)
    mending.wait_for_mend(stopped.value, fold.settings, status, threading.Event(), 0)
    fold.batch(journal)
    assert_equal(fold, Model.of(journal))


class Damaged:
    """An engine that meets a damaged file when it compacts."""

    def tidy(self, for_s: float) -> bool:
        raise DamagedTableError("entities", "/lake/entities", "part-1.parquet", "gone", hint="Do this.")


def test_a_compaction_that_meets_a_damaged_file_waits_and_says_what_to_do_and_the_fold_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine: Any = Damaged()
    Stream(Settings(), [])._tidy(engine)
    assert all(part in caplog.text for part in ("Compaction waits", "part-1.parquet", "Do this."))


def verified(fold: Fold, monkeypatch: pytest.MonkeyPatch) -> dict[str, Check]:
    """What `verify` finds, where the topic ends anywhere behind the lake's marks."""
    monkeypatch.setattr("metajournal.streaming.verify.watermarks", lambda _, keys: dict.fromkeys(keys, (0, 1 << 39)))
    found = verify_lake(fold.settings, epochs_of(fold), Lake(str(fold.path)), InProcess())
    return {one.name: one for one in found}


@pytest.mark.parametrize("way", WAYS)
def test_verify_names_the_damaged_table_and_goes_on_with_all_other_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    fold, _ = begun(tmp_path, "entities", way)
    found = verified(fold, monkeypatch)
    assert set(found) == {
        "journal-in-kafka", "journal-once", "units", "outcomes",
        *(f"table-{name}" for name in (*history_tables(), *derived_tables())),
    }  # fmt: skip
    assert [name for name, one in found.items() if not one.ok] == ["table-entities"]
    wrong = found["table-entities"]
    assert WAYS[way].problem in wrong.text
    assert wrong.failures[0].endswith(".parquet")
    assert ["metajournal rebuild lake" in mend for mend in _mends(list(found.values()))] == [True]


def test_verify_names_every_damaged_table_beside_a_damaged_journal_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold, _ = begun(tmp_path, "journal", "half")
    damaged(tmp_path, "entities", "gone")
    found = verified(fold, monkeypatch)
    assert "'entities' is damaged" in found["table-entities"].text
    assert all("'journal' is damaged" in found[name].text for name in ("journal-once", "units", "outcomes"))
    assert "not compared" in found["table-runs"].text
    assert not any(one.ok for name, one in found.items() if name != "journal-in-kafka")


def test_verify_tells_of_a_damaged_log_of_the_journal_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fold, _ = begun(tmp_path, "entities", "half")
    WAYS["half"].damage(sorted((tmp_path / "journal" / "_delta_log").glob("*.json"))[-1])
    found = verified(fold, monkeypatch)
    assert "from a copy of the lake" in found["journal-once"].mend
    assert not found["outcomes"].ok


def test_what_a_check_finds_damaged_is_a_finding() -> None:
    def check() -> Check:
        raise DamagedTableError("entities", "/lake/entities", "part-1.parquet", "gone", hint="Do this.")

    found = unless_damaged("index", check)
    assert (found.name, found.ok, found.failures, found.mend) == (
        "index", False, ("/lake/entities/part-1.parquet",), "Do this."
    )  # fmt: skip


def told(settings: Settings) -> dict[str, Any]:
    return dict(read_told(Path(settings.stack.home or "") / "stream.json"))


def waits_for_mend(settings: Settings, name: str, files: list[str]) -> bool:
    """Whether the stream says that it waits, for which file, and what to do."""
    said = told(settings)
    message = said.get("message", "")
    named = message.startswith("table-damaged: ") and repr(name) in message and any(one in message for one in files)
    return said.get("state") == "waiting" and named and "metajournal rebuild lake" in said["mend"]


def file_names(settings: Settings, name: str) -> list[str]:
    return [path.name for path in data_files(Lake(settings.lake.path).tables[name])]


def verify(settings: Settings) -> dict[str, Check]:
    found = verify_lake(settings, check_topics(settings), Lake(settings.lake.path), InProcess())
    return {one.name: one for one in found}


WIDE = {"short": 1_000_000, "wide": 1}


@pytest.mark.services
@pytest.mark.long
@pytest.mark.parametrize(("way", "damage"), [("short", "gone"), ("wide", "half")])
def test_a_stream_that_meets_a_damaged_file_waits_says_so_and_goes_on_with_a_rebuild(
    settings: Settings, tmp_path: Path, way: str, damage: str
) -> None:
    asked = with_stream(settings, wide_events=WIDE[way], cache_rows=1)
    ensure_topics(settings)
    records = generated(160)
    write(settings, records[:80])
    with running_stream(asked, tmp_path / "stream.log") as process:
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({process.log})")
        files = file_names(settings, "entities")
        damaged(Path(settings.lake.path), "entities", damage)
        write(settings, records[80:])
        eventually(lambda: waits_for_mend(settings, "entities", files), 60, f"a stream that waits ({process.log})")
        assert process.process.poll() is None, process.tail()
        assert "is damaged" in verify(settings)["table-entities"].text
        done = rebuild_lake(settings, check_topics(settings), InProcess(), offline=False)
        assert "entities" in done.damaged
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({process.log})")
        eventually(lambda: told(settings)["state"] == "running", 30, "a stream that says that it goes on")
        assert process.stop() == 0, process.tail()
    assert all(one.ok for one in verify(settings).values()), verify(settings)


@pytest.mark.services
@pytest.mark.long
def test_a_stream_whose_journal_table_is_damaged_goes_on_with_a_rebuild_from_kafka(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    records = generated(120)
    write(settings, records[:80])
    with running_stream(settings, tmp_path / "stream.log") as process:
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({process.log})")
    files = file_names(settings, "journal")
    damaged(Path(settings.lake.path), "journal", "half")
    write(settings, records[80:])
    with running_stream(settings, tmp_path / "again.log") as process:
        eventually(lambda: waits_for_mend(settings, "journal", files), 90, f"a stream that waits ({process.log})")
        assert "--from kafka" in told(settings)["mend"]
        done = rebuild_lake(settings, check_topics(settings), InProcess(), offline=False, from_kafka=True)
        assert set(done.damaged) == {"journal"}
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({process.log})")
        assert process.stop() == 0, process.tail()
    assert all(one.ok for one in verify(settings).values()), verify(settings)
