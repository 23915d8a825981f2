"""Entries are parted into events that take them, whatever they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories import pieces as parted
from metajournal.domains.repositories.pieces import bytes_of, pieces, pieces_of_paths, size_faults
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import EventTooLargeError, InputError
from metajournal.schemas.limits import MAX_ENTRIES, MAX_EVENT_BYTES
from tests.builders import header_for
from tests.properties import examples
from tests.repositories.test_columns import entries

MAIN = branch_urn("r1", "main")


def encoded(some: list[e.Entry]) -> int:
    event = e.ObjectsWritten(MAIN, some)
    return len(codec.encode(event, header_for(event)))


@pytest.mark.thorough
@given(st.lists(entries, min_size=1, max_size=20), st.integers(1, 4_000))
@settings(max_examples=examples(100), deadline=None)
def test_pieces_hold_all_entries_in_order_and_never_more_than_there_is_room_for(some: list[e.Entry], room: int) -> None:
    assert bytes_of(some) >= encoded(some) - encoded([e.Entry("", 0, "", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parted, "ROOM_BYTES", room)
        found = list(pieces(some))
    assert [entry for piece in found for entry in piece] == [e.as_entry(entry) for entry in some]
    assert all(len(piece) == 1 or bytes_of(piece) <= room for piece in found)


def test_entries_of_any_size_fit_into_their_events() -> None:
    long = [
        {"path": f"{number}" + "😀" * 250, "size": 1, "checksum": "c" * 500, "address": "a"} for number in range(999)
    ]
    short = [{"path": f"s{number}", "size": 1, "checksum": "c", "address": "a"} for number in range(2_500)]
    found = list(pieces([*long, *short]))
    assert max(map(len, found)) == MAX_ENTRIES
    assert sum(map(len, found)) == len(long) + len(short)
    assert max(map(encoded, found)) <= MAX_EVENT_BYTES
    assert len(found) == 5


PATHS = st.lists(st.text("aä😀% ", min_size=1, max_size=10), min_size=1, max_size=4).map("/".join)


@pytest.mark.thorough
@given(st.lists(PATHS, min_size=1, max_size=20, unique=True), st.integers(1, 2_000), st.booleans())
@settings(max_examples=examples(100), deadline=None)
def test_pieces_hold_all_paths_in_order_and_never_more_than_there_is_room_for(
    paths: list[str], room: int, registered: bool
) -> None:
    def encoded(some: list[str]) -> int:
        event = e.ObjectsRegistered(repository_urn("r1"), some) if registered else e.ObjectsDeleted(MAIN, some)
        return len(codec.encode(event, header_for(event)))

    empty = encoded(["a"]) - (2 + len("object:r1/a") + 1 if registered else 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parted, "ROOM_BYTES", room)
        found = list(pieces_of_paths(paths, registered_in="r1" if registered else None))
    assert [path for piece in found for path in piece] == paths
    assert all(len(piece) == 1 or encoded(piece) - empty <= room for piece in found)


@pytest.mark.parametrize("bad", [5, None, "", "\ud800", "a//b", "x" * 2_000])
def test_what_is_no_path_is_left_to_the_event(bad: Any) -> None:
    [piece] = pieces_of_paths(["a", bad], registered_in="r1")
    assert e.ObjectsRegistered(repository_urn("r1"), piece).validate() != []


@pytest.mark.parametrize(("count", "fits"), [(1_000, False), (600, False), (450, True), (511, True)])
def test_an_entry_that_no_event_takes_has_a_fault_and_no_other_one(count: int, fits: bool) -> None:
    blocks = [[f"{number:04}" + "b" * 1_020, 1, "c" * 1_024] for number in range(count)]
    given = {"path": "a", "size": 1, "checksum": "c", "blocks": blocks}
    for entry in (given, e.as_entry(given)):
        assert (size_faults("entries[7]", entry) == []) == fits
    assert [fault.field for fault in size_faults("line 3", given)] == ([] if fits else ["line 3"])
    if not fits:
        with pytest.raises(EventTooLargeError):
            encoded([e.as_entry(given)])


def test_one_entry_is_taken_as_several_are() -> None:
    one = {"path": "a", "size": 1, "checksum": "c", "address": "s"}
    assert [list(pieces(given)) for given in (one, e.Entry("a", 1, "c", "s"))] == [list(pieces([one]))] * 2


@pytest.mark.parametrize("given", [5, None, "a.csv", b"a.csv"])
def test_what_is_no_entries_is_refused(given: Any) -> None:
    with pytest.raises(InputError, match=r"is no entries\."):
        list(pieces(given))


@pytest.mark.parametrize("bad", ["x", 5, {"path": "x"}, e.Entry(5, 1, "c", "a"), e.Entry("\ud800", 1, "c", "a")])  # type: ignore[arg-type]
def test_what_is_no_entry_is_left_to_the_event(bad: Any) -> None:
    [piece] = pieces([e.Entry("a", 1, "c", "a"), bad])
    assert e.ObjectsWritten(MAIN, piece).validate() != []
