"""Entries are parted into events that take them, whatever they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories import pieces as parted
from metajournal.domains.repositories.pieces import bytes_of, pieces
from metajournal.domains.repositories.urns import branch_urn
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import InputError
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
