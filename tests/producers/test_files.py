"""Files on their way to the journal: records made of what is at hand, ids, events of many files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metajournal import FileRecord, FilesRecorded, InputError, InvalidEventError, content_hash, file_record
from metajournal.domains.files import groups as file_groups
from metajournal.domains.files import recording as producing
from metajournal.domains.files.recording import file_events, prepared, record_files
from metajournal.schemas.encoding import codec
from metajournal.schemas.limits import MAX_EVENT_BYTES
from metajournal.terminal.parsing import typed_event
from tests.archive import HASH, START, a_file, document
from tests.builders import header_for


def test_a_record_reads_times_takes_the_hash_and_the_size_and_gets_an_id(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"content" * 1000)
    said = {
        "start": "2015-07-20T01:00:00Z",
        "end": "1437354005",
        "where": "nebraska",
        "what": "nginx",
        "data-version": "1",
    }
    record = file_record("s3://a", said, content=file, created="2015-07-20")
    assert FilesRecorded([record]).validate() == []
    assert (record.metadata.start, record.metadata.end, record.created) == (START, START + 5000, 1_437_350_400_000)
    assert record.metadata.hash == blake2b(b"content" * 1000, digest_size=16).hexdigest() == content_hash(str(file))
    assert record.size == 7000
    assert len(record.metadata.id) == 32
    assert int(record.metadata.id, 16) >= 0
    assert "id" not in said
    by_bytes = file_record("s3://a", said, content=b"content" * 1000, size=5)
    assert (by_bytes.metadata.hash, by_bytes.size) == (record.metadata.hash, 5)
    assert by_bytes.metadata.id != record.metadata.id


def test_what_is_said_is_kept() -> None:
    record = file_record("s3://archive/f1", document(), size=7, created=START)
    assert record == a_file()
    assert file_record("u", document(id=None)).metadata.id != "f1"


def test_every_fault_of_a_record_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidEventError) as caught:
        file_record("", {**document(start="noon", end=1.5, what="a.log"), "x": 1}, content=b"other", created="x")
    fields = [fault.field for fault in caught.value.faults]
    wanted = ["metadata.start", "metadata.end", "metadata.what", "metadata.hash", "metadata.x", "url", "created"]
    assert sorted(fields) == sorted(wanted)
    with pytest.raises(InputError) as unreadable:
        file_record("u", document(hash=None), content=tmp_path / "nowhere")
    assert unreadable.value.code == "unreadable-file"


def test_an_id_is_assigned_once_before_the_first_send() -> None:
    event = FilesRecorded([prepared({"url": "u", "metadata": document(id=None)})])
    header = header_for(event)
    assert codec.encode(event, header) == codec.encode(event, header)
    assert codec.decode(codec.encode(event, header)).event.files[0].metadata.id == event.files[0].metadata.id


def test_json_on_the_command_line_is_read_like_that_and_unknown_fields_are_refused_by_name() -> None:
    file = {"url": "u", "metadata": {**document(id=None), "start": "2015-07-20T01:00:00Z"}, "created": "1437354000"}
    event = typed_event(json.dumps({"type": "FilesRecorded", "files": [file]})).event
    assert event.validate() == []
    assert (event.files[0].metadata.start, event.files[0].created) == (START, START)
    event = typed_event(json.dumps({"type": "FilesRecorded", "files": [{**file, "colour": 1}, 7]})).event
    assert [fault.field for fault in event.validate()] == ["files[0].colour", "files[1]"]
    with pytest.raises(InvalidEventError) as caught:
        typed_event(json.dumps({"type": "FilesRecorded", "files": [], "color": 1}))
    assert [fault.field for fault in caught.value.faults] == ["color"]


named = st.builds(
    lambda where, what, one: a_file(where=where, what=what, id=one), *map(st.sampled_from, ("ab", "xy", "123"))
)


def grown(run: list[Any]) -> list[Any]:
    """Files, with nine more of the first one's aggregate before them."""
    if not run or not isinstance(run[0], FileRecord):
        return run
    first = run[0]
    return [first._replace(metadata=first.metadata._replace(id=f"{number}")) for number in range(9)] + run


@given(st.lists(named, max_size=30), st.integers(1, 5), st.integers(1, 4))
def test_each_file_is_sent_once_and_in_its_aggregates_order(files: list[FileRecord], most: int, held: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_groups, "_HELD_FILES", held)
        events = list(file_events(files, files_an_event=most))
    assert all(event.validate() == [] and len(event.files) <= most for event in events)
    sent = [file for event in events for file in event.files]
    for where in "ab":
        for what in "xy":
            of = [one for one in files if (one.metadata.where, one.metadata.what) == (where, what)]
            assert [one for one in sent if (one.metadata.where, one.metadata.what) == (where, what)] == of


@given(
    st.lists(st.lists(named | st.just({"url": "u", "metadata": document(id="m")}), max_size=6).map(grown), max_size=8),
    st.integers(1, 7), st.integers(5, 40), st.sampled_from([1_000, 2_000, 900_000]),
)  # fmt: skip
def test_files_that_are_gathered_by_column_give_the_events_that_they_give_one_by_one(
    runs: list[list[Any]], most: int, held: int, event_bytes: int
) -> None:
    files = [file for run in runs for file in run]
    found = []
    for by_column in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_groups, "_HELD_FILES", held)
            patch.setattr(file_groups, "_EVENT_BYTES", event_bytes)
            if not by_column:
                patch.setattr(file_groups, "_run_of", lambda _: None)
            found.append([event.files for event in file_events(files, files_an_event=most)])
    assert found[0] == found[1]


def test_what_came_before_the_source_of_files_fails_is_sent() -> None:
    def source() -> Iterator[FileRecord]:
        yield from (a_file(id=str(one)) for one in range(5))
        raise OSError("gone")

    events = file_events(source(), files_an_event=2)
    assert [len(next(events).files) for _ in range(2)] == [2, 2]
    with pytest.raises(OSError, match="gone"):
        next(events)


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_no_event_is_too_large_whatever_its_texts(letter: str) -> None:
    long = [a_file("s3://" + letter * 1900, path="/" + letter * 1900, id=f"{one}{letter * 60}") for one in range(1000)]
    events = list(file_events(long))
    assert sum(len(event.files) for event in events) == 1000
    sizes = [len(codec.encode(event, header_for(event))) for event in events]
    assert max(sizes) <= MAX_EVENT_BYTES
    assert max(sizes) > MAX_EVENT_BYTES // 3


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (a_file(hash="x", id="bad"), "files[2].metadata.hash"),
        ({"url": "u", "metadata": document(start="noon")}, "files[2].metadata.start"),
        ({"url": "u"}, "files[2].metadata"),
        (a_file(where=7), "files[2].metadata.where"),
        (7, "files[2]"),
    ],
)
def test_a_file_that_is_not_valid_is_named_by_its_place_among_all(bad: Any, field: str) -> None:
    with pytest.raises(InvalidEventError) as caught:
        list(file_events([a_file(id="1"), a_file(id="2", where="other"), bad]))
    assert field in [fault.field for fault in caught.value.faults]


def test_what_was_sent_before_a_wrong_file_is_told() -> None:
    sent = _Sent()
    with pytest.raises(InvalidEventError) as caught:
        record_files(sent, [*(a_file(id=str(one)) for one in range(5)), 7], files_an_event=2, actor="alice")  # type: ignore[list-item]
    assert sum(len(event.files) for event in sent.events) == 4
    assert caught.value.hint.startswith("4 files were sent before")
    assert caught.value.__notes__ == [f"  next: {caught.value.hint}"]


class _Sent:
    """An emitter that remembers, whose receipts are acknowledged when they are asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.most = 0
        self.events: list[FilesRecorded] = []

    @property
    def emit(self) -> Callable[..., Any]:
        return self._emit

    def _emit(self, event: FilesRecorded, **said: Any) -> Any:
        assert said == {"block_s": 30.0, "actor": "alice"}
        self.events.append(event)
        number, outer = len(self.events), self
        self.most = max(self.most, number - len(self.asked))

        class Receipt:
            @property
            def position(self) -> None:
                outer.asked.append(number)

        return Receipt()


def test_many_files_are_sent_with_some_in_flight_until_all_are_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing, "_IN_FLIGHT", 3)
    sent, seen = _Sent(), list[int]()
    nine = (a_file(id=str(one)) for one in range(9))
    receipts = record_files(sent, nine, files_an_event=2, progress=seen.append, actor="alice")
    assert (len(receipts), sent.asked, sent.most) == (5, [1, 2, 3, 4, 5], 3)
    assert seen == [2, 4, 6, 8, 9]
    assert sent.events[0].files[0].metadata.hash == HASH
