"""The queries over files: every answer is the naive one, page by page, now and as at any moment of the log."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.files import cursors as file_cursors
from metajournal.domains.files import search as file_search
from metajournal.domains.files.cursors import identity_of
from metajournal.domains.files.events import DAY_MS, FileRecord, FilesRecorded
from metajournal.domains.files.queries import FileQueries, FilesPage
from metajournal.domains.files.questions import FilesQuestion
from metajournal.domains.files.rows import FileRecordRow
from metajournal.domains.files.tables import FILE_RECORDS, row_from_dict, rows_to_arrow
from metajournal.domains.files.urns import file_urn
from metajournal.lake.declared import SPECS
from metajournal.lake.storage import group_index
from metajournal.lake.tables import Lake
from metajournal.schemas.errors import (
    FilesQueryError,
    InputError,
    InvalidPositionError,
    NotFinalError,
    UnavailableError,
)
from metajournal.schemas.positions import Position
from metajournal.schemas.topics import TopicNames
from tests.archive import START, a_file, recordings, starts, whats, wheres
from tests.builders import NOON, header_for, record_of
from tests.model import JournalRecord, Model
from tests.properties import examples
from tests.streaming.harness import Crash, EndsAt, Fold, placed

TOPIC = "metajournal.journal.files"
PARTITIONS = 2
some = settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))


def journal_of(events: list[Any]) -> list[JournalRecord]:
    made = [record_of(one, number, header=header_for(one, number + 1)) for number, one in enumerate(events)]
    return placed(made, PARTITIONS)


def folded(path: Path, journal: list[JournalRecord], *batches: int, wide: bool = False) -> FileQueries:
    fold = Fold(path, PARTITIONS, topic=TOPIC)
    for end in sorted({*batches, len(journal)}):
        fold.batch(journal, until=journal[:end], wide=wide)
    return queries(path)


def queries(path: Path) -> FileQueries:
    return FileQueries(Lake(str(path)), TopicNames(), PARTITIONS)


class Naive:
    """What the events say, by the words of the domain's page."""

    def __init__(self, events: list[Any]) -> None:
        self.files: dict[str, FileRecord] = {}
        for event in events:
            if isinstance(event, FilesRecorded):
                self.files |= {str(urn): file for urn, file in zip(event.entities, event.files, strict=True)}

    def answer(self, **asked: Any) -> list[tuple[str, str]]:
        found = [(self.place(one), urn, one.url) for urn, one in self.files.items() if self.matches(one, **asked)]
        return [(urn, url) for _, urn, url in sorted(found)]

    @staticmethod
    def place(file: FileRecord) -> tuple[int, str, str, str]:
        return file.metadata.start, file.metadata.where, file.metadata.what, file.metadata.id

    @staticmethod
    def matches(file: FileRecord, **asked: Any) -> bool:
        metadata = file.metadata
        if any(asked.get(name) not in (None, getattr(metadata, name)) for name in ("where", "what", "work_id")):
            return False
        if "start" not in asked:
            return True
        last = metadata.start if metadata.end is None else metadata.end
        return bool(metadata.start <= asked["end"] and last >= asked["start"])

    def latest(self, what: str, where: str) -> str | None:
        found = [
            (one.metadata.start, -1 if one.created is None else one.created, one.metadata.id, urn)
            for urn, one in self.files.items()
            if (one.metadata.what, one.metadata.where) == (what, where)
        ]
        return max(found)[-1] if found else None


def pages(found: FileQueries, asked: FilesQuestion, limit: int, **how: Any) -> Iterator[FilesPage]:
    page = found.page("default", asked, limit=limit, **how)
    yield page
    while page.cursor is not None:
        assert len(page.files) == limit
        page = found.page("default", asked, limit=limit, cursor=page.cursor, **how)
        yield page


def told(found: FileQueries, asked: FilesQuestion, limit: int = 100, **how: Any) -> list[tuple[str, str | None]]:
    return [(row.urn, row.url) for page in pages(found, asked, limit, **how) for row in page.files]


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    asked = {"where": draw(st.one_of(st.none(), wheres)), "what": draw(st.one_of(st.none(), whats))}
    if draw(st.booleans()):
        return {**asked, "work_id": draw(st.sampled_from(["w1", "w2", "null1", "w3"]))}
    start = draw(starts) + draw(st.sampled_from([-5, 0, 0, 1, -3 * DAY_MS]))
    return {**asked, "start": start, "end": start + draw(st.sampled_from([0, 1, DAY_MS, 9 * DAY_MS]))}


@pytest.mark.thorough
@given(st.lists(recordings(), max_size=14), st.data())
@some
def test_any_records_in_any_batches_give_every_query_the_naive_answer_in_pages_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], data: st.DataObject
) -> None:
    journal = journal_of(events)
    batches = data.draw(st.lists(st.integers(0, len(journal)), max_size=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_search, "_SPARE", data.draw(st.sampled_from([1, 2, 16])))
        patch.setattr(file_search, "_MOST_AT_ONCE", data.draw(st.sampled_from([1, 3, 512])))
        patch.setitem(
            SPECS, "file_records", replace(SPECS["file_records"], group_rows=data.draw(st.sampled_from([1, 2, 2048])))
        )
        patch.setattr(group_index, "crc32", data.draw(st.sampled_from([zlib.crc32, len])))
        if data.draw(st.booleans()):
            patch.setitem(SPECS, "file_records", replace(SPECS["file_records"], indexed={}))
        found = folded(tmp_path_factory.mktemp("lake"), journal, *batches, wide=data.draw(st.booleans()))
        for asked in data.draw(st.lists(questions(), min_size=4, max_size=4)):
            limit = data.draw(st.integers(1, 5))
            assert told(found, FilesQuestion.of(**asked), limit) == Naive(events).answer(**asked), asked
        for where in "ab":
            for what in "xy":
                latest = found.latest("default", what, where).files
                assert [row.urn for row in latest] == [one for one in [Naive(events).latest(what, where)] if one]


@pytest.mark.thorough
@given(st.lists(recordings(), min_size=1, max_size=10), questions(), st.data())
@some
def test_as_at_any_position_or_time_is_what_the_log_said_then(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], question: dict[str, Any], data: st.DataObject
) -> None:
    journal = journal_of(events)
    found = folded(tmp_path_factory.mktemp("lake"), journal)
    asked = FilesQuestion.of(**question)
    number = data.draw(st.integers(0, len(journal) - 1))
    record = journal[number]
    wanted = Naive(events[: number + 1]).answer(**question)
    assert told(found, asked, 2, as_at=Position(TOPIC, record.partition, record.position)) == wanted
    assert told(found, asked, 2, as_at={(TOPIC, record.partition): record.position + 1}) == wanted
    assert told(found, asked, 2, as_at=record.append_time) == wanted
    assert told(found, asked, 2, as_at=record.append_time - 1) == Naive(events[:number]).answer(**question)
    each = {(TOPIC, one.partition): one.position + 1 for one in journal[: number + 1]}
    assert told(found, asked, 2, as_at=each) == wanted
    latest = found.latest("default", "x", "a", as_at=record.append_time).files
    assert [row.urn for row in latest] == [one for one in [Naive(events[: number + 1]).latest("x", "a")] if one]


def numbered(count: int, **changes: Any) -> FilesRecorded:
    return FilesRecorded([a_file(**{"id": f"{one:03}", "start": START + one, **changes}) for one in range(count)])


ALL = FilesQuestion.of(start=START - DAY_MS, end=START + 9 * DAY_MS)


def test_pages_speak_of_the_first_ones_moment_whatever_is_recorded_meanwhile(tmp_path: Path) -> None:
    """A file that moves behind the cursor does not come again, one that moves before it is not missed."""
    later = [
        FilesRecorded([a_file(id="001", start=START + DAY_MS), a_file(id="008", start=START - 5)]),
        FilesRecorded([a_file(id="new", start=START + 6)]),
    ]
    journal = journal_of([numbered(10), *later])
    fold = Fold(tmp_path, PARTITIONS, topic=TOPIC)
    fold.batch(journal, until=journal[:1])
    found = queries(tmp_path)
    first = found.page("default", ALL, limit=4)
    fold.batch(journal)
    rest = found.page("default", ALL, limit=100, cursor=first.cursor)
    names = [row.file_id for row in (*first.files, *rest.files)]
    assert names == [f"{one:03}" for one in range(10)]
    assert rest.held_to == first.held_to
    fresh = [row.file_id for row in found.page("default", ALL).files]
    assert fresh == ["008", "000", *(f"{one:03}" for one in range(2, 7)), "new", "007", "009", "001"]


def test_a_group_that_is_not_read_yet_holds_no_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough files are found in the first two of three groups, and some of those in the third begin before them."""
    monkeypatch.setitem(SPECS, "file_records", replace(SPECS["file_records"], group_rows=4))
    monkeypatch.setattr(file_search, "_SPARE", 1)
    starts = [0, 1, 2, 3, 4, 96, 97, 98], [5, 6, 7, 8]
    journal = journal_of([FilesRecorded([a_file(id=f"{at:02}", start=START + at) for at in some]) for some in starts])
    found = folded(tmp_path, journal, 1)
    names = [[row.file_id for row in page.files] for page in pages(found, ALL, 6)]
    assert names == [["00", "01", "02", "03", "04", "05"], ["06", "07", "08", "96", "97", "98"]]


def test_rows_of_a_batch_that_is_not_finished_are_not_seen(tmp_path: Path) -> None:
    journal = journal_of([numbered(3), numbered(3, work_id="later")])
    fold = Fold(tmp_path, PARTITIONS, topic=TOPIC)
    fold.batch(journal, until=journal[:1])

    fold.engine._crash = EndsAt("after-outcomes")
    with pytest.raises(Crash):
        fold.batch(journal)
    assert len(fold.rows("file_records")) == 6
    found = queries(tmp_path)
    assert told(found, FilesQuestion.of(work_id="later")) == []
    assert len(told(found, ALL)) == 3


def test_a_point_that_the_lake_has_not_reached_is_an_error_and_says_how_far_it_is(tmp_path: Path) -> None:
    journal = journal_of([numbered(2)])
    found = folded(tmp_path, journal)
    record = journal[0]
    with pytest.raises(NotFinalError) as caught:
        found.page("default", ALL, as_at=Position(TOPIC, record.partition, record.position + 1))
    assert caught.value.data["held_to"] == f"{TOPIC}/{record.partition}/{record.position + 1}"
    for wrong in (Position("other", 0, record.position), Position(TOPIC, PARTITIONS, 0)):
        with pytest.raises(InvalidPositionError):
            found.page("default", ALL, as_at=wrong)
    points: list[Any] = [{}, "now", 1.5, True]
    for nothing in points:
        with pytest.raises(InputError):
            found.page("default", ALL, as_at=nothing)


def test_an_answer_is_final_once_no_event_can_change_it(tmp_path: Path) -> None:
    events = [numbered(1), *[numbered(1, where=where) for where in ("a", "b", "c", "d")]]
    journal = journal_of(events)
    found = folded(tmp_path, journal)
    assert len({one.partition for one in journal}) == PARTITIONS
    assert not found.page("default", ALL).final
    assert found.page("default", ALL, as_at=NOON - 1).final
    assert not found.page("default", ALL, as_at=journal[-1].append_time).final
    assert found.page("default", ALL, as_at={(TOPIC, one.partition): one.position + 1 for one in journal}).final


def test_tenants_see_their_own_files_only(tmp_path: Path) -> None:
    event = numbered(2)
    journal = placed(
        [record_of(event, 0), record_of(event, 1, header=header_for(event, 2, tenant="other"))], PARTITIONS
    )
    found = folded(tmp_path, journal)
    for tenant in ("default", "other"):
        page = found.page(tenant, ALL)
        assert [(row.tenant, row.file_id) for row in page.files] == [(tenant, "000"), (tenant, "001")]
        assert found.latest(tenant, "nginx", "nebraska").files[0].tenant == tenant
    assert found.page("nobody", ALL).files == ()
    cursor = found.page("default", ALL, limit=1).cursor
    with pytest.raises(FilesQueryError):
        found.page("other", ALL, limit=1, cursor=cursor)


def test_a_row_of_an_answer_is_the_tables_row(tmp_path: Path) -> None:
    event = FilesRecorded([a_file(end=START + 3 * DAY_MS, work_id="w", path="/ü"), a_file(id="ß:1")])
    journal = journal_of([event, FilesRecorded([a_file(url="new", id="ß:1", created=None, size=None)])])
    found = folded(tmp_path, journal)
    model = Model.of(journal, TOPIC)
    rows: list[FileRecordRow] = model.tables["file_records"]
    newest = {(row.urn, row.bucket): row for row in rows}
    first = newest[rows[0].urn, START // DAY_MS], newest[file_urn("nebraska", "nginx", "ß:1"), START // DAY_MS]
    assert found.page("default", ALL).files == first
    in_the_middle = FilesQuestion.of(start=START + DAY_MS, end=START + DAY_MS)
    assert found.page("default", in_the_middle).files == (newest[rows[0].urn, START // DAY_MS + 1],)
    assert found.page("default", FilesQuestion.of(work_id="w")).files == (first[0],)


def test_rows_come_back_from_arrow_as_they_were_in_the_order_of_time() -> None:
    journal = journal_of([numbered(3), FilesRecorded([a_file(id="000", start=START - DAY_MS, path="/a")])])
    rows: list[FileRecordRow] = Model.of(journal, TOPIC).tables["file_records"]
    table = rows_to_arrow((row, "files", 1) for row in rows)
    assert table.schema == FILE_RECORDS
    by_time = sorted(rows, key=lambda row: (row.bucket, row.start_ms, row.seq))
    assert [row_from_dict(row) for row in table.to_pylist()] == by_time
    assert set(table["domain"].to_pylist()) == {"files"}
    assert set(table["journal_partition"].to_pylist()) == {1}
    assert rows_to_arrow([]).schema == FILE_RECORDS


BAD_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({}, "no-arguments"),
    ({"what": "x"}, "no-arguments"),
    ({"work_id": "w", "start": 1}, "work-id-with-times"),
    ({"work_id": "w", "start": 1, "end": 2}, "work-id-with-times"),
    ({"start": 1}, "one-time-only"),
    ({"end": 1}, "one-time-only"),
    ({"start": 2, "end": 1}, "start-after-end"),
    ({"start": "yesterday", "end": 1}, "unreadable-time"),
    ({"start": 1, "end": "x"}, "unreadable-time"),
    ({"start": 1.5, "end": 2}, "unreadable-time"),
    ({"start": 1, "end": 1 << 63}, "unreadable-time"),
    ({"start": 1, "end": 2, "where": 7}, "bad-name"),
    ({"start": 1, "end": 2, "what": ""}, "bad-name"),
    ({"work_id": ["w"]}, "bad-name"),
]


@pytest.mark.parametrize(("asked", "code"), BAD_REQUESTS)
def test_what_cannot_be_asked_has_a_code_and_a_sentence(asked: dict[str, Any], code: str) -> None:
    with pytest.raises(FilesQueryError) as caught:
        FilesQuestion.of(**asked)
    assert caught.value.code == code
    assert caught.value.message.endswith(".")


def test_times_of_a_request_may_be_text() -> None:
    asked = FilesQuestion.of(start="2015-07-20", end="1437436800")
    assert (asked.start, asked.end) == (1_437_350_400_000, 1_437_436_800_000)


@pytest.mark.thorough
@pytest.mark.parametrize("start", [-(1 << 63), 0])
def test_the_widest_times_are_answered(tmp_path: Path, start: int) -> None:
    events = [FilesRecorded([a_file(start=-(1 << 63)), a_file(id="f2", start=(1 << 63) - 1)]), numbered(2)]
    found = folded(tmp_path, journal_of(events))
    asked: dict[str, Any] = {"start": start, "end": (1 << 63) - 1}
    assert told(found, FilesQuestion.of(**asked), 1) == Naive(events).answer(**asked)


def test_a_cursor_that_is_none_is_refused(tmp_path: Path) -> None:
    found = folded(tmp_path, journal_of([numbered(3)]))
    cursor = found.page("default", ALL, limit=1).cursor
    assert cursor is not None
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    forged = base64.urlsafe_b64encode(raw[:8] + json.dumps([1, "", [0, "", "", ""], [], True]).encode()).decode()
    other = FilesQuestion.of(start=START - DAY_MS, end=START + 8 * DAY_MS)
    for wrong in ("", "x", cursor[:-2], cursor[:-1] + "!", "ü", forged, cursor + "AAAA"):
        with pytest.raises(FilesQueryError) as caught:
            found.page("default", ALL, limit=1, cursor=wrong)
        assert caught.value.code == "unreadable-cursor", wrong
    for asked, how in ((other, {}), (ALL, {"as_at": NOON + 5})):
        with pytest.raises(FilesQueryError) as caught:
            found.page("default", asked, limit=1, cursor=cursor, **how)
        assert caught.value.code == "unreadable-cursor"


def test_a_cursor_is_short_and_the_next_process_of_this_machine_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lake = tmp_path / "lake"
    whole = folded(lake, journal_of([numbered(3)])).page("default", ALL)
    first = queries(lake).page("default", ALL, limit=1)
    assert first.cursor is not None
    assert len(first.cursor) <= 60
    rest = queries(lake).page("default", ALL, limit=9, cursor=first.cursor)
    assert (*first.files, *rest.files) == whole.files
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    with pytest.raises(FilesQueryError, match="not known on this machine: it was created on another one") as refused:
        queries(lake).page("default", ALL, cursor=first.cursor)
    assert refused.value.code == "unreadable-cursor"


FIRST_BOUND = [[0, 1, None]]


@pytest.mark.parametrize(
    ("key", "bounds"),
    [
        ([-(10**30), "", "", ""], FIRST_BOUND),
        ([1 << 63, "", "", ""], FIRST_BOUND),
        ([0, "\ud800", "", ""], FIRST_BOUND),
        ([0, "", "", "\udfff"], FIRST_BOUND),
        ([0, "", ""], FIRST_BOUND),
        ([0, "", "", ""], {}),
        ([0, "", "", ""], []),
        ([0, "", "", ""], {"012": 1}),
        ([0, "", "", ""], [[0, 1]]),
        ([0, "", "", ""], [[0, -1, None]]),
        ([0, "", "", ""], [[0, 10**30, None]]),
        ([0, "", "", ""], [[0, 1, "5"]]),
        ([0, "", "", ""], [[0, 1, 10**30]]),
    ],
)
def test_a_forged_cursor_is_refused_whatever_it_says(tmp_path: Path, key: Any, bounds: Any) -> None:
    """Its digest is right: nothing in it is secret."""
    body = json.dumps([1, identity_of("default", ALL, None), key, bounds, True]).encode()
    forged = base64.urlsafe_b64encode(file_cursors._check(body) + body).decode().rstrip("=")
    with pytest.raises(FilesQueryError) as caught:
        queries(tmp_path).page("default", ALL, limit=1, cursor=forged)
    assert caught.value.code == "unreadable-cursor"


@pytest.mark.parametrize("limit", [0, -1, 10_001, "5", True, 1.0])
def test_a_limit_has_bounds(tmp_path: Path, limit: Any) -> None:
    with pytest.raises(FilesQueryError) as caught:
        queries(tmp_path).page("default", ALL, limit=limit)
    assert caught.value.code == "bad-limit"


def test_without_a_lake_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as caught:
        queries(tmp_path / "nowhere").page("default", ALL)
    assert caught.value.code == "no-lake"


def test_files_at_a_time_to_come_are_refused(tmp_path: Path) -> None:
    found = folded(tmp_path, journal_of([numbered(2)]))
    with pytest.raises(NotFinalError, match="in the future"):
        found.page("default", ALL, as_at=4_102_444_800_000)
    with pytest.raises(NotFinalError, match="in the future"):
        found.latest("default", "x", "a", as_at=4_102_444_800_000)
