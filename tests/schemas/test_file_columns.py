"""Files read as columns are those that the codec decodes, and what the columns let through is valid."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.files.columns.decoding import columns_of, plain_event
from metajournal.domains.files.events import DAY_MS, FileMetadata, FileRecord, FilesRecorded
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import MetajournalError
from metajournal.schemas.limits import MAX_BUCKETS, MAX_FILE_TEXT_BYTES
from tests.archive import HASH, START, a_file
from tests.builders import header_for
from tests.properties import examples

plain_texts = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'), max_size=200)
plain_names = st.from_regex(r"\A[a-z0-9_-]{1,70}\Z")
times = st.one_of(st.integers(-(2**62), 2**62), st.integers(START - DAY_MS, START + DAY_MS))


@st.composite
def plain_files(draw: st.DrawFn) -> FilesRecorded:
    """An event of files that are plain."""
    named = {
        "where": draw(plain_names),
        "what": draw(plain_names),
        "data_version": draw(st.sampled_from(["1", "b_2-"])),
    }
    files = []
    for file_id in draw(
        st.lists(st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,90}\Z"), min_size=1, max_size=5, unique=True)
    ):
        start = draw(times)
        length = draw(st.none() | st.integers(0, 398 * DAY_MS))
        path = draw(st.none() | plain_texts.map(lambda text: f"/{text}"))
        files.append(a_file(
            draw(plain_texts.filter(bool)), draw(st.none() | st.integers(0, 2**62 - 1)),
            draw(st.none() | st.integers(-(2**62), 2**62 - 1)), id=file_id, start=start,
            end=None if length is None else min(start + length, 2**62 - 1) if start < 2**62 - 1 else None,
            hash=draw(st.sampled_from([HASH, HASH.upper()])), path=path,
            work_id=draw(st.none() | plain_names.filter(lambda name: not name.startswith("null"))), **named,
        ))  # fmt: skip
    return FilesRecorded(files)


def value_of(event: FilesRecorded, **options: Any) -> bytes:
    return codec.encode(event, header_for(event, 1, **options))


def files_of(value: bytes) -> list[FileRecord] | None:
    """The files that the columns give of one value; None where it is not plain."""
    event = plain_event(value)
    if event is None:
        return None
    columns, wrong = columns_of([event])
    if len(wrong):
        return None
    records = []
    for url, start, end, file_id, content_hash, work_id, path, size, created in zip(
        *(column.to_pylist() for column in columns), strict=True
    ):
        metadata = FileMetadata(
            0, start, end, event.where, event.what, event.data_version, file_id, content_hash, work_id, path
        )
        assert event.start + file_id
        records.append(FileRecord(url, metadata, size, created))
    return records


def lowered(file: FileRecord) -> FileRecord:
    return file._replace(metadata=file.metadata._replace(hash=file.metadata.hash.lower()))


def assert_right(value: bytes) -> bool:
    """What the columns let through is what the codec decodes, valid, and named by its header; whether they do."""
    records = files_of(value)
    if records is None:
        return False
    header, event, _ = codec.decode(value)
    assert records == [lowered(file) for file in event.files]
    assert event.validate() == []
    assert header.entities == event.entities
    assert header._replace(entities=()) == plain_event(value).header  # type: ignore[union-attr]
    return True


@pytest.mark.thorough
@given(plain_files(), st.sampled_from([None, "alice", "Ω"]), st.none() | st.just(b"u" * 16))
def test_plain_files_are_read_as_columns_whatever_they_hold(
    event: FilesRecorded, actor: str | None, cause: bytes | None
) -> None:
    assert assert_right(value_of(event, actor=actor, cause=cause)) or not event_is_near(event)


def event_is_near(event: FilesRecorded) -> bool:
    """Whether all numbers are those of ordinary times: the columns leave numbers of 63 bits and more alone."""
    return all(-(2**61) < file.metadata.start < 2**61 for file in event.files)


@pytest.mark.thorough
@given(plain_files(), st.data())
@settings(max_examples=examples(300))
def test_of_changed_bytes_nothing_is_read_that_the_codec_would_not_give(
    event: FilesRecorded, data: st.DataObject
) -> None:
    value = bytearray(value_of(event))
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(value) - 1))
        match data.draw(st.sampled_from(["change", "drop", "add"])):
            case "change":
                value[index] = data.draw(st.integers(0, 255))
            case "drop":
                del value[index : index + data.draw(st.integers(1, 3))]
            case _:
                value[index:index] = data.draw(st.binary(min_size=1, max_size=3))
    assert_right(bytes(value))


@pytest.mark.thorough
def test_no_single_byte_of_an_event_can_be_changed_so_that_something_else_is_read() -> None:
    value = value_of(FilesRecorded([
        a_file(id="f1", end=START + 5, path="/a", work_id="w"), a_file(id="f22", size=None, created=None),
    ]))  # fmt: skip
    assert assert_right(value)
    for index in range(len(value)):
        near = {value[index] ^ 1, value[index] ^ 2, value[index] ^ 0x80, value[index] + 2 & 0xFF}
        for other in near | {0, 1, 2, 4, 0x40, 0x7F, 0x80, 0xFF}:
            assert_right(value[:index] + bytes([other]) + value[index + 1 :])


@pytest.mark.parametrize("path", ["/x", "C:\\x"])
def test_no_text_of_any_length_is_read_more_than_once(path: str) -> None:
    """Reading one anew from each of its bytes would take most of an hour."""
    event = FilesRecorded.from_wire((a_file("u" * 900_000, path=path),))
    before = time.process_time()
    assert plain_event(value_of(event)) is None  # the rules allow far shorter ones
    assert time.process_time() - before < 10


ODD = {
    "a text that JSON escapes": [a_file('s3://a"b')],
    "a text that is not ASCII": [a_file("s3://Ω")],
    "a path of Windows": [a_file(path="C:\\logs\\a")],
    "a path that is not absolute": [a_file(path="logs/a")],
    "an id with another byte": [a_file(id="a/b")],
    "an id that begins with another byte": [a_file(id=".a")],
    "two versions of data": [a_file(), a_file(id="f2", data_version="2")],
    "another server": [a_file(), a_file(id="f2", where="texas")],
    "a reserved work_id": [a_file(work_id="nullx")],
    "an end before the start": [a_file(end=START - 1)],
    "too many days": [a_file(end=START + MAX_BUCKETS * DAY_MS)],
    "a size below zero": [a_file(size=-1)],
    "a long url": [a_file("u" * (MAX_FILE_TEXT_BYTES + 1))],
    "a long id": [a_file(id="i" * 201)],
    "no file": [],
}


@pytest.mark.parametrize("files", ODD.values(), ids=ODD.keys())
def test_what_is_not_plain_is_left_to_the_codec(files: list[FileRecord]) -> None:
    event = FilesRecorded(files)
    try:
        header = header_for(event, 1)
    except MetajournalError:
        header = header_for(FilesRecorded([a_file()]), 1)
    assert files_of(codec.encode(event, header)) is None


def test_files_that_the_header_does_not_name_are_left_to_the_codec() -> None:
    event, other = FilesRecorded([a_file(), a_file(id="f2")]), FilesRecorded([a_file(), a_file(id="f3")])
    assert files_of(codec.encode(event, header_for(other, 1))) is None
    assert files_of(codec.encode(event, header_for(FilesRecorded(event.files[:1]), 1))) is None


def test_a_thousand_files_in_several_events_are_read_side_by_side() -> None:
    events = [FilesRecorded([a_file(id=f"{number}-{index}") for index in range(500)]) for number in range(2)]
    read = [plain_event(value_of(event)) for event in events]
    columns, wrong = columns_of([event for event in read if event])
    assert columns.id.to_pylist() == [file.metadata.id for event in events for file in event.files]
    assert wrong.tolist() == []
