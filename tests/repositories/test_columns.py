"""Objects read as columns are those that the codec decodes, and what the columns let through is valid."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.columns.decoding import objects_of, plain_event, type_of
from metajournal.domains.repositories.columns.records import fitting
from metajournal.domains.repositories.documents import MAX_OBJECT_BYTES
from metajournal.domains.repositories.urns import branch_urn
from metajournal.fold.avro_columns import longs
from metajournal.schemas.encoding import codec, wire
from metajournal.schemas.encoding.cursor import Numbers
from tests.builders import header_for
from tests.properties import examples

MAIN = branch_urn("r1", "main")
numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=80)
metadata = st.dictionaries(texts, st.text(st.characters(codec="utf-8"), max_size=80), max_size=4)
blocks = st.lists(st.builds(e.Block, texts, st.integers(0, 2**63 - 1), texts), min_size=1, max_size=3)
paths = texts.filter(lambda text: "\0" not in text)
entries = st.one_of(
    st.builds(e.Entry, paths, st.integers(0, 2**63 - 1), texts, texts, st.just(()), st.none() | texts, metadata,
              st.none() | numbers),
    st.builds(e.Entry, paths, st.integers(0, 9), texts, st.none(), blocks.map(tuple), st.none(), metadata, st.none()),
)  # fmt: skip
written = st.lists(entries, min_size=1, max_size=6, unique_by=lambda entry: entry.path).map(
    lambda some: e.ObjectsWritten(MAIN, some)
)
deleted = st.lists(paths, min_size=1, max_size=6, unique=True).map(lambda some: e.ObjectsDeleted(MAIN, some))


def value_of(event: Any, **said: Any) -> bytes:
    return codec.encode(event, header_for(event, 1, **said))


def as_read(entry: e.Entry) -> list[Any]:
    """An entry as its columns have it."""
    path, size, checksum, address, some, content_type, said, mtime = entry
    parts = orjson.dumps([[*block] for block in some]).decode() if some else None
    return [path, size, checksum, address, parts, content_type,
            orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode(), mtime]  # fmt: skip


def assert_right(value: bytes) -> bool:
    """What the columns let through is what the codec decodes, valid, and named by its header; whether they do."""
    event_type = type_of(value)
    read = None if event_type is None else plain_event(value)
    if event_type is None or read is None:
        return False
    kept, objects = objects_of(event_type, [read])
    if objects is None:
        return False
    header, event, _ = codec.decode(value)
    assert kept == [0]
    assert event.validate() == []
    found = [list(row) for row in zip(*(column.to_pylist() for column in objects), strict=True)]
    if isinstance(event, e.ObjectsDeleted):
        assert found == [[path, *[None] * 7] for path in event.paths]
    else:
        assert found == [as_read(entry) for entry in event.entries]
    assert (header, event.branch, event.TYPE) == (read.header, read.branch, event_type)
    assert header.entities == event.entities
    return True


@pytest.mark.thorough
@given(st.one_of(written, deleted), st.sampled_from([None, "alice", "Ω"]))
@settings(max_examples=examples(300), deadline=None)
def test_valid_objects_are_read_as_columns_whatever_they_hold(event: Any, actor: str | None) -> None:
    assert assert_right(value_of(event, actor=actor))


@pytest.mark.thorough
@given(st.one_of(written, written, deleted), st.data())
@settings(max_examples=examples(600), deadline=None)
def test_of_changed_bytes_nothing_is_read_that_the_codec_would_not_give(event: Any, data: st.DataObject) -> None:
    value = bytearray(value_of(event))
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, len(value) - 1))
        match data.draw(st.sampled_from(["change", "change", "drop", "add"])):
            case "change":
                value[index] = data.draw(st.sampled_from([0, 1, 2, 3, 4, 0x80, 0xFF]) | st.integers(0, 255))
            case "drop":
                del value[index : index + data.draw(st.integers(1, 3))]
            case _:
                value[index:index] = data.draw(st.binary(min_size=1, max_size=3))
    assert_right(bytes(value))


@pytest.mark.parametrize("told", [(2, 2), (1, 3), (4, 0)])
def test_no_entry_of_an_event_is_taken_for_one_of_the_next(told: tuple[int, int]) -> None:
    """Together the events have as many entries as they say, and each by itself has not."""
    names = ("abc", "d")
    whole = [value_of(e.ObjectsDeleted(MAIN, list(some))) for some in names]
    values = []
    for value, some, count in zip(whole, names, told, strict=True):
        first = b"\2" + some[0].encode()
        values.append(value.replace(wire.write_long(len(some)) + first, wire.write_long(count) + first))
    read = [plain_event(value) for value in values]
    events = [event for event in read if event is not None]
    assert len(events) == sum(count > 0 for count in told)
    assert objects_of(e.ObjectsDeleted.TYPE, events) == ([], None)
    fine = plain_event(whole[0])
    assert fine is not None
    kept, objects = objects_of(e.ObjectsDeleted.TYPE, [events[0], fine, *events[1:]])
    assert objects is not None
    assert (kept, objects.path.to_pylist()) == ([1], ["a", "b", "c"])


ONE = e.ObjectsWritten(MAIN, [e.Entry("p", 5, "c", "a", (), None, {"k": "v"}, None)])
ENTRY = b"\2p\x0a\2c\2\2a\0\0\2\2k\2v\0\0"


@pytest.mark.parametrize(
    "body",
    [
        b"\2" + ENTRY[:5] + b"\4\2a" + ENTRY[8:] + b"\0",  # a branch that the union does not have
        b"\2" + ENTRY[:5] + b"\1\2a" + ENTRY[8:] + b"\0",
        b"\2" + ENTRY.replace(b"\x0a", b"\x8a\0") + b"\0",  # a number longer than it need be
        b"\1\x28" + ENTRY + b"\0",  # the size of the block stands before it
        b"\2" + ENTRY + b"\0\0",  # something behind it
        b"\4" + ENTRY + b"\0",  # one entry fewer
        b"\2" + ENTRY + b"\2" + ENTRY.replace(b"p", b"q") + b"\0",  # two blocks
        b"\2" + ENTRY.replace(b"\2\2k\2v\0", b"\4\2k\2v\2k\2w\0") + b"\0",  # a key twice
        b"\2" + ENTRY[:-1] + b"\2" + b"\xff" * 9 + b"\3" + b"\0",  # more than 64 bits
    ],
)
def test_another_spelling_is_left_to_the_codec(body: bytes) -> None:
    value = value_of(ONE)
    assert value.endswith(b"\2" + ENTRY + b"\0")
    assert assert_right(value)
    assert not assert_right(value[: -len(ENTRY) - 2] + body)


@pytest.mark.thorough
@given(st.lists(st.one_of(written, st.just(e.ObjectsWritten(MAIN, [ONE.entries[0]._replace(size=-1)]))), max_size=9))
@settings(max_examples=examples(100), deadline=None)
def test_whatever_is_wrong_with_one_event_does_not_concern_the_others(some: list[e.ObjectsWritten]) -> None:
    values = [value_of(event) for event in some]
    cut = [value[:-2] + b"\x7f\0" if number % 3 == 2 else value for number, value in enumerate(values)]
    read = [event for event in map(plain_event, cut) if event is not None]
    assert len(read) == len(some)
    kept, objects = objects_of(e.ObjectsWritten.TYPE, read)
    fine = [number for number, value in enumerate(cut) if assert_right(value)]
    assert kept == fine
    wanted = [entry.path for number in fine for entry in codec.decode(cut[number]).event.entries]
    assert ([] if objects is None else objects.path.to_pylist()) == wanted


@given(st.lists(numbers))
def test_numbers_are_written_as_the_codec_writes_them(some: list[int]) -> None:
    assert longs(as_numbers(some)).to_pylist() == [wire.write_long(number) for number in some]


def as_numbers(some: list[int]) -> Numbers:
    return np.array(some, np.int64)


def test_the_objects_of_a_record_are_those_that_fit_together() -> None:
    assert fitting(as_numbers([MAX_OBJECT_BYTES])) == 1
    assert fitting(as_numbers([MAX_OBJECT_BYTES, 1, 1])) == 1
    assert fitting(as_numbers([MAX_OBJECT_BYTES + 1, 1])) == 0
