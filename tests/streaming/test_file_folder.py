"""Files that are folded in columns give the rows and records that they give one by one, whatever stands between."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal import FilesRecorded, TagsAdded, file_urn
from metajournal.domains.files.columns import folder
from metajournal.domains.files.events import DAY_MS
from metajournal.fold.repeats import hashes_of
from metajournal.fold.steps import RowFolder, Share
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.streaming.rebuild import InProcess, LakeRebuild
from tests.archive import START, a_file, recordings
from tests.builders import NOON, header_for, record_of
from tests.model import JournalRecord
from tests.properties import examples
from tests.streaming.harness import Crash, Fold, placed

TOPIC = "metajournal.journal.files"
PARTITIONS = 2
some = settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def new_files(draw: st.DrawFn) -> FilesRecorded:
    """Files that hardly ever come again, plain or not."""
    named = {"where": draw(st.sampled_from(["a", "b"])), "what": draw(st.sampled_from(["x", "y"]))}
    files = []
    for number in range(draw(st.integers(1, 5))):
        start = START + draw(st.sampled_from([0, 1, -3 * 10**12, 5 * DAY_MS]))
        files.append(a_file(
            draw(st.sampled_from(["s3://a", "s3://b/c?d"] * 4 + ["s3://Ω", 'a"b'])),
            draw(st.sampled_from([None, 0, 7])), draw(st.sampled_from([None, -1, 2**40])),
            id=f"f{draw(st.integers(0, 15))}-{number}", start=start,
            end=draw(st.sampled_from([None, start, start + 1, start + 3 * DAY_MS])),
            work_id=draw(st.sampled_from([None, "w1"])), path=draw(st.sampled_from([None, "/var/log", "/b"])), **named,
        ))  # fmt: skip
    return FilesRecorded(files)


tags = st.builds(lambda number: TagsAdded(file_urn("a", "x", f"f{number}-0"), ["t"]), st.integers(0, 15))


ODD: dict[int, dict[str, Any]] = dict(
    enumerate([{"repeat": True}, {"expected": 0}, {"event_time": 1 << 62}, {"tenant": "other"}, {"tenant": "No!"}])
)
"""What may be said of an event in its header, and hardly ever is."""


@st.composite
def journals(draw: st.DrawFn) -> list[JournalRecord]:
    """New files for the most part; between them others, and records that are not as they should be."""
    events = draw(
        st.lists(st.one_of(new_files(), new_files(), new_files(), recordings(), tags), min_size=1, max_size=14)
    )
    odd = draw(st.sampled_from([{}, ODD]))
    records = []
    for number, event in enumerate(events):
        said = {"actor": draw(st.sampled_from(["alice", "alice", None, "Ω", "\0seq", "\0urn"]))}
        said |= odd.get(draw(st.integers(0, 15)), {})
        identity = draw(st.integers(1, number + 1)) if "repeat" in said else number + 1
        header = header_for(event, identity, **said)
        damaged: dict[str, Any] = {"digest": b"\0" * 16} if odd and draw(st.integers(0, 15)) == 0 else {}
        time = NOON + draw(st.integers(-3, 3))
        records.append(record_of(event, number, header=header, append_time=time, **damaged))
    return placed(records, PARTITIONS)


def published(fold: Fold) -> dict[Any, list[Any]]:
    """Every change and state record, as it goes to Kafka; how many outcome records tell of it is another matter."""
    return {place: records for place, records in fold.topics.records.items() if ".outcomes." not in place[0]}


def assert_same(folds: list[Fold]) -> None:
    fast, slow = folds
    for table in ("entities", "file_records"):
        assert fast.rows(table) == slow.rows(table), table
    assert fast.journal() == slow.journal()
    assert published(fast) == published(slow)
    assert fast.verdicts() == slow.verdicts()
    assert fast.engine.marks == slow.engine.marks
    assert fast.engine.clocks == slow.engine.clocks


@pytest.mark.thorough
@given(journals(), st.data())
@some
def test_any_journal_in_any_slices_gives_in_columns_what_it_gives_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    ends = sorted({0, len(journal), *data.draw(st.lists(st.integers(0, len(journal)), max_size=2))})
    crashes = data.draw(st.sets(st.sampled_from(ends[1:]), max_size=1))
    first = (TOPIC, journal[0].partition, journal[0].position)
    shelved = data.draw(st.sampled_from([frozenset[Any](), frozenset({first})]))
    sizes = {
        "metajournal.streaming.tasks._SLICE_ROWS": data.draw(st.sampled_from([1, 3, 50_000])),
        "metajournal.fold.steps._BIT_BYTES": data.draw(st.sampled_from([1, 1500, 1 << 24])),
        "metajournal.domains.files.columns.documents.FEWEST": data.draw(st.sampled_from([1, 32])),
    }
    few_bits = data.draw(st.sampled_from([None, None, 0, 7]))
    folds = []
    for in_columns in (True, False):
        fold = Fold(tmp_path_factory.mktemp("lake"), PARTITIONS, shelved=shelved, topic=TOPIC)
        folds.append(fold)
        with pytest.MonkeyPatch.context() as patch:
            if few_bits is not None:
                patch.setattr("metajournal.fold.repeats.hashes_of", lambda ids: hashes_of(ids) & few_bits)
            for name, size in sizes.items():
                patch.setattr(name, size)
            if not in_columns:
                patch.setattr(folder, "folder_of", lambda *_: None)
            for _, end in pairwise(ends):
                if end in crashes:
                    lose_the_process_before_publishing(fold, journal[: max(1, end // 2)])
                fold.batch(journal, until=journal[:end], wide=True)
    assert_same(folds)
    assert_rebuilt(folds[0])


def assert_rebuilt(fold: Fold) -> None:
    """A rebuild, in columns, gives the tables that are there."""
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", PARTITIONS)}, frozenset(fold.shelved))
    tables = ["entities", "file_records"]
    target = fold.lake.begin_generation(tables)
    rebuilt = LakeRebuild(fold.settings, epochs, fold.lake, target, tables, InProcess(), lambda _: None).run()
    assert rebuilt.equal
    assert rebuilt.digests.keys() == {*tables}


def lose_the_process_before_publishing(fold: Fold, until: list[JournalRecord]) -> None:
    """The history tables hold a batch then, and the journal table does not."""

    def lost(_: str) -> None:
        raise Crash

    fold.topics.fail = lost
    with suppress(Crash):
        fold.batch(until, wide=True)
    fold.topics.fail = lambda _: None
    fold.start()


@pytest.fixture
def singly(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of the records that were folded one by one."""
    found: list[int] = []
    usual = RowFolder.read

    def noting(self: RowFolder, share: Share) -> Any:
        found.extend(share.records["offset"].to_pylist())
        return usual(self, share)

    monkeypatch.setattr(RowFolder, "read", noting)
    return found


def journal_of(*events: Any, **said: Any) -> list[JournalRecord]:
    return [record_of(one, n, header=header_for(one, n + 1, **said)) for n, one in enumerate(events)]


def folded(path: Path, *batches: list[JournalRecord]) -> Fold:
    fold = Fold(path, 1, topic=TOPIC)
    for batch in batches:
        fold.batch(batch, wide=True)
    return fold


def of(*ids: str, **changes: Any) -> FilesRecorded:
    return FilesRecorded([a_file(id=one, **changes) for one in ids])


def test_all_of_an_ordinary_journal_is_folded_in_columns(tmp_path: Path, singly: list[int]) -> None:
    journal = journal_of(*[of(*[f"{one}-{two}" for two in range(40)], path="/a") for one in range(9)])
    fold = folded(tmp_path, journal[:4], journal[4:])
    assert len(fold.rows("file_records")) == 360
    assert singly == []


def test_of_files_that_come_again_in_a_batch_all_events_are_folded_one_by_one(
    tmp_path: Path, singly: list[int]
) -> None:
    tag = TagsAdded(file_urn("nebraska", "nginx", "f5"), ["t"])
    folded(tmp_path, journal_of(of("f1", "f2"), of("f3"), of("f2", "f4"), of("f5"), tag))
    assert singly == [0, 2, 3, 4]


def test_files_that_stand_in_the_lake_or_in_an_earlier_slice_are_folded_one_by_one(
    tmp_path: Path, singly: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metajournal.streaming.tasks._SLICE_ROWS", 1)
    files = [of("f1", "f2"), of("f3"), of("f4"), of("f5"), of("f6")]
    journal = journal_of(*files, of("f2", url="s3://new"), of("f4", url="s3://new"), of("f7"))
    fold = folded(tmp_path, journal[:2], journal[2:])
    assert singly == [5, 6]  # a slice here has three records
    newest = {row.name: row.record["url"] for row in fold.rows()}
    assert {name for name, url in newest.items() if url == "s3://new"} == {"f2", "f4"}


@pytest.mark.thorough
def test_each_way_sees_the_rows_that_the_other_has_made_in_an_earlier_slice(
    tmp_path: Path, singly: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice here has three records: made in columns, then again one by one, then in the other order."""
    monkeypatch.setattr("metajournal.streaming.tasks._SLICE_ROWS", 1)
    journal = journal_of(
        of("f1", "f2"), of("f3"), of("f4"),
        of("f2", url="s3://new"), of("a\"b", "f6"), of("f7"),
        of("f6", url="s3://new"), of("f2", "f8"), of("f9"),
    )  # fmt: skip
    fast = folded(tmp_path / "fast", journal)
    assert singly == [3, 4, 6, 7]
    monkeypatch.setattr(folder, "folder_of", lambda *_: None)
    assert_same([fast, folded(tmp_path / "slow", journal)])


def test_an_event_that_was_folded_in_columns_is_known_when_it_is_sent_again_with_a_mark(
    tmp_path: Path, singly: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metajournal.streaming.tasks._SLICE_ROWS", 1)
    first = journal_of(of("f1"), of("f2"), of("f3"))
    again = record_of(of("f1"), 3, header=header_for(of("f1"), 1, repeat=True))
    late = record_of(of("f9"), 4, header=header_for(of("f9"), 1))
    other = record_of(of("f8"), 5, header=header_for(of("f8"), 9))
    fold = folded(tmp_path, [*first, again, late, other])
    assert [row["outcome"] for row in fold.journal()] == ["accepted"] * 3 + ["duplicate"] * 2 + ["accepted"]
    assert singly == [3, 4]
