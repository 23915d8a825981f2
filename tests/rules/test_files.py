"""What a record of files means: rows by day bucket, tombstones, replacement, and files as entities."""

from __future__ import annotations

from typing import Any

import pytest

from metajournal import FilesRecorded, TagsAdded, file_urn
from metajournal.domains.catalog.events import EntityDeleted, EntityRegistered, MetadataCleared, PropertiesSet
from metajournal.domains.files.documents import change_record
from metajournal.domains.files.events import DAY_MS
from metajournal.domains.files.rows import FileRecordRow, source_record
from metajournal.rules import UNCHANGED, Accepted, EntityRow
from metajournal.schemas.positions import position
from tests.archive import FIRST_DAY, HASH, START, a_file, document
from tests.builders import NOON, header_for
from tests.rules.harness import Catalog, kept

F1 = file_urn("nebraska", "nginx", "f1")
DAY = FIRST_DAY


def recorded(archive: Catalog, *files: Any, **header: Any) -> tuple[tuple[EntityRow, ...], tuple[FileRecordRow, ...]]:
    """Rows of both tables of an event that must be accepted."""
    outcome = archive.judge(FilesRecorded(files), **header)
    assert isinstance(outcome, Accepted), outcome
    assert [row.seq for row in outcome.rows] == list(range(len(outcome.rows)))
    assert [row.seq for row in outcome.facts] == list(range(len(outcome.facts)))
    return outcome.rows, outcome.facts


def test_a_record_gives_the_entity_and_a_row_in_the_sources_format() -> None:
    (entity,), (row,) = recorded(Catalog(), a_file(end=START + 5, work_id="job-1", path="/a", hash=HASH.upper()))
    wanted = document(end=START + 5, work_id="job-1", path="/a")
    assert source_record(row) == {
        "version": 0,
        "url": "s3://archive/f1",
        "time_index_key": f"{DAY}:nginx",
        "work_id_index_key": "job-1:nginx",
        "range_key": "nebraska:f1",
        "metadata": wanted,
    }
    record = {"version": 0, "url": "s3://archive/f1", "metadata": wanted, "size": 7, "created": START}
    assert (entity.urn, entity.kind, entity.namespace, entity.name) == (F1, "file", "nebraska", "f1")
    assert (entity.aggregate, entity.deleted, entity.record) == ("files:nebraska/nginx", False, record)
    identity = "00000000-0000-0000-0000-000000000001"
    origin = (position(1, 1), 0, NOON + 1000, NOON + 1, identity, "alice", False)
    assert entity[6:13] == row[4:11] == origin
    assert (row.tenant, row.urn, row.aggregate, row.bucket) == ("default", F1, "files:nebraska/nginx", DAY)
    assert (row.file_where, row.file_what, row.file_id) == ("nebraska", "nginx", "f1")
    assert (row.first_bucket, row.start_ms, row.end_ms, row.created_ms) == (DAY, START, START + 5, START)
    assert (row.size_bytes, row.work_id, row.supersedes, row.deleted) == (7, "job-1", False, False)


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (0, None, [0]),
        (-1, None, [-1]),
        (-1, 0, [-1, 0]),
        (DAY_MS - 1, DAY_MS - 1, [0]),
        (DAY_MS - 1, DAY_MS, [0, 1]),
        (0, 2 * DAY_MS, [0, 1, 2]),
        (0, 2 * DAY_MS - 1, [0, 1]),
        (5, 400 * DAY_MS - 1, list(range(400))),
        (-(1 << 63), None, [-(1 << 63) // DAY_MS]),
    ],
)
def test_a_file_has_a_row_in_each_bucket_that_it_touches_both_ends_included(
    start: int, end: int | None, wanted: list[int]
) -> None:
    _, rows = recorded(Catalog(), a_file(start=start, end=end))
    assert [row.bucket for row in rows] == wanted
    assert {row.first_bucket for row in rows} == {wanted[0]}
    assert [row.time_index_key for row in rows] == [f"{bucket}:nginx" for bucket in wanted]


def test_more_than_400_buckets_are_refused_with_the_limit() -> None:
    event = FilesRecorded([a_file(start=5, end=400 * DAY_MS)])
    reason, detail = Catalog().rejected(event)
    assert reason == "invalid"
    assert [one["field"] for one in detail] == ["files[0].metadata.end"]
    assert "401" in detail[0]["message"]
    assert "400" in detail[0]["message"]


def test_a_file_without_work_id_gets_the_reserved_prefix_and_its_own_id() -> None:
    _, (row,) = recorded(Catalog(), a_file())
    assert (row.work_id, row.work_id_index_key) == (None, "nullf1:nginx")


def test_a_later_record_replaces_all_and_ends_the_buckets_that_are_left() -> None:
    archive = Catalog()
    recorded(archive, a_file(end=START + 2 * DAY_MS, work_id="old", path="/a"))
    later = a_file("s3://elsewhere", None, None, start=START + DAY_MS, end=START + 3 * DAY_MS, data_version="2")
    (entity,), rows = recorded(archive, later)
    assert [(row.bucket - DAY, row.deleted) for row in rows] == [(0, True), (1, False), (2, False), (3, False)]
    assert {row.version for row in rows} == {0}
    assert all(row.supersedes for row in rows)
    gone = rows[0]
    assert (gone.url, gone.metadata, gone.end_ms, gone.created_ms, gone.size_bytes) == (None,) * 5
    assert (gone.start_ms, gone.first_bucket, gone.work_id, gone.urn) == (START, DAY, "old", F1)
    assert (gone.time_index_key, gone.work_id_index_key, gone.range_key) == (f"{DAY}:nginx", "old:nginx", "nebraska:f1")
    wanted = document(start=START + DAY_MS, end=START + 3 * DAY_MS, data_version="2")
    assert {row.url for row in rows[1:]} == {"s3://elsewhere"}
    assert all(row.metadata == wanted for row in rows[1:])
    assert entity.record == {"version": 0, "url": "s3://elsewhere", "metadata": wanted, "size": None, "created": None}
    _, rows = recorded(archive, a_file(start=START + 9 * DAY_MS))
    assert [(row.bucket - DAY, row.deleted) for row in rows] == [(1, True), (2, True), (3, True), (9, False)]


@pytest.mark.parametrize("change", [{"url": "x"}, {"size": None}, {"created": 1}, {"hash": "0" * 32}, {"path": "/b"}])
def test_any_difference_is_a_new_record(change: dict[str, Any]) -> None:
    archive = Catalog()
    recorded(archive, a_file())
    _, (row,) = recorded(archive, a_file(**change))
    assert row.supersedes


def test_the_same_record_again_changes_nothing() -> None:
    archive = Catalog()
    recorded(archive, a_file(), a_file(id="f2"))
    assert archive.judge(FilesRecorded([a_file(), a_file(id="f2")])) is UNCHANGED
    (entity,), (row,) = recorded(archive, a_file(), a_file(url="new", id="f2"), actor="bob")
    assert (entity.name, row.file_id, entity.seq, row.seq) == ("f2", "f2", 0, 0)


def test_files_of_one_event_have_their_rows_in_its_order_tombstones_first() -> None:
    archive = Catalog()
    recorded(archive, a_file(), a_file(id="f2"))
    moved = START + DAY_MS
    _, rows = recorded(archive, a_file(id="f3"), a_file(start=moved), a_file(id="f2", start=moved, end=moved + DAY_MS))
    assert [(row.file_id, row.bucket - DAY, row.deleted, row.supersedes) for row in rows] == [
        ("f3", 0, False, False),
        ("f1", 0, True, True),
        ("f1", 1, False, True),
        ("f2", 0, True, True),
        ("f2", 1, False, True),
        ("f2", 2, False, True),
    ]


def test_records_have_no_precondition() -> None:
    reason, detail = Catalog().rejected(FilesRecorded([a_file()]), expected=0)
    said = {"field": "header.expected", "message": "files are recorded without a condition"}
    assert (reason, detail) == ("invalid", [said])


def test_a_header_that_names_other_files_is_refused() -> None:
    event = FilesRecorded([a_file(), a_file(id="f2")])
    for entities in ((F1,), (F1, F1), tuple(reversed(event.entities))):
        assert Catalog().rejected(event, header=header_for(event, 1, entities=entities))[0] == "wrong-aggregate"


def test_a_faulty_file_refuses_the_whole_event() -> None:
    reason, detail = Catalog().rejected(FilesRecorded([a_file(), a_file(id="f2", hash="x")]))
    assert (reason, [one["field"] for one in detail]) == ("invalid", ["files[1].metadata.hash"])


def test_a_file_is_annotated_once_it_is_recorded_and_keeps_its_record_and_its_annotations() -> None:
    archive = Catalog()
    assert archive.rejected(TagsAdded(F1, ["pii"]))[0] == "unknown-entity"
    (first,), _ = recorded(archive, a_file())
    tagged = archive.row(TagsAdded(F1, ["pii"]), actor="bob")
    assert (tagged.user_tags, tagged.record) == (("pii",), first.record)
    assert archive.judge(FilesRecorded([a_file()])) is UNCHANGED
    (again,), (row,) = recorded(archive, a_file(url="new"), actor="carol")
    assert (again.user_tags, row.supersedes) == (("pii",), True)
    assert archive.row(MetadataCleared(F1, "BOTH")).record == again.record


def test_nobody_but_records_begins_a_file_and_nothing_ends_one() -> None:
    archive = Catalog()
    recorded(archive, a_file())
    assert archive.rejected(EntityRegistered(F1))[0] == "invalid"
    assert archive.rejected(EntityDeleted(F1))[0] == "invalid"


def test_a_file_says_who_recorded_it_first_and_last_and_when() -> None:
    archive = Catalog()
    (first,), _ = recorded(archive, a_file(), actor="alice")
    made = str(archive.at.system_time)
    assert kept(first.system_properties) == {
        "created_by": "alice", "creation_time": made, "last_update_time": made, "last_updated_by": "alice"
    }  # fmt: skip
    assert list(first.system_properties) == sorted(first.system_properties)
    (second,), _ = recorded(archive, a_file(url="b"), actor=None)
    later = str(archive.at.system_time)
    assert kept(second.system_properties) == {"created_by": "alice", "creation_time": made, "last_update_time": later}
    (third,), _ = recorded(archive, a_file(url="c"), actor="bob")
    assert third.system_properties["last_updated_by"] == "bob"
    (nobody,), _ = recorded(archive, a_file(id="f2"), actor=None)
    assert "created_by" not in nobody.system_properties


@pytest.mark.parametrize("again", [False, True])
def test_an_actor_too_long_for_an_entity_is_refused(again: bool) -> None:
    archive = Catalog()
    if again:
        recorded(archive, a_file(), actor="alice")
    reason, detail = archive.rejected(FilesRecorded([a_file(url="new")]), actor="x" * (530_000 if again else 270_000))
    assert reason == "too-large"
    assert detail.pop("size_bytes") > 512 * 1024
    assert detail == {"entity": F1, "limit_bytes": 512 * 1024}
    assert type(detail["entity"]) is str


def test_of_several_files_the_one_that_grows_too_large_refuses_all() -> None:
    archive = Catalog()
    recorded(archive, a_file(), a_file(id="f2"), actor="alice")
    archive.row(PropertiesSet(F1, {f"k{number}": "x" * 32_000 for number in range(15)}))
    files = [a_file(url="new", id="f3"), a_file(url="new", id="f2"), a_file(url="new")]
    assert archive.rejected(FilesRecorded(files), actor="y" * 60_000)[1]["entity"] == F1
    assert len(recorded(archive, *files[:2], actor="y" * 60_000)[0]) == 2


def test_tenants_share_no_file() -> None:
    archive = Catalog()
    recorded(archive, a_file())
    _, (row,) = recorded(archive, a_file(), tenant="other")
    assert (row.tenant, row.supersedes) == ("other", False)


def test_change_records_say_what_a_record_was_and_is() -> None:
    archive = Catalog()
    (first,), _ = recorded(archive, a_file())
    tagged = archive.row(TagsAdded(F1, ["pii"]))
    (second,), _ = recorded(archive, a_file(url="new"), actor="bob")
    assert change_record(None, first) == {
        "file": F1, "previous": None, "updated": first.record, "updateTime": first.system_time, "updater": "alice"
    }  # fmt: skip
    assert change_record(first, tagged) is None
    assert change_record(tagged, second) == {
        "file": F1, "previous": first.record, "updated": second.record, "updateTime": second.system_time,
        "updater": "bob",
    }  # fmt: skip
