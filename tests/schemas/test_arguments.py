"""What callers hand on by name: a point of the journal in each of its forms, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from metajournal.schemas.arguments import marks_of, point_of
from metajournal.schemas.errors import InputError
from metajournal.schemas.positions import Position

FIRST, LATER, OTHER = Position("t", 0, 5), Position("t", 0, 8), Position("t", 1, 7)


class Receipt(NamedTuple):
    """What stands at a position."""

    position: Position


@pytest.mark.parametrize("read", [point_of, marks_of])
@pytest.mark.parametrize(
    ("argument", "cut"),
    [
        (FIRST, {("t", 0): 6}),
        (Receipt(OTHER), {("t", 1): 8}),
        ([FIRST], {("t", 0): 6}),
        ([LATER, OTHER, FIRST], {("t", 0): 9, ("t", 1): 8}),
        ((Receipt(FIRST), OTHER), {("t", 0): 6, ("t", 1): 8}),
        ({FIRST, LATER}, {("t", 0): 9}),
        ({("t", 0): 5, ("t", 1): 7}, {("t", 0): 5, ("t", 1): 7}),
    ],
    ids=["position", "receipt", "list", "several", "mixed", "set", "cut"],
)
def test_a_cut_is_next_positions_whatever_it_is_said_by(
    read: Any, argument: Any, cut: dict[tuple[str, int], int]
) -> None:
    assert read("as_at", argument) == cut
    assert read("as_at", cut) == cut
    if isinstance(argument, list):
        assert read("as_at", iter(argument)) == cut


def test_a_time_is_a_point_and_nothing_that_can_be_inside() -> None:
    assert point_of("as_at", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == point_of("as_at", 1_000) == 1_000
    for time in (1_000, datetime(1970, 1, 1, tzinfo=UTC)):
        with pytest.raises(InputError, match="at_least must be a position"):
            marks_of("at_least", time)  # type: ignore[arg-type]


def test_nothing_is_asked_for_by_none_of_several_and_is_no_point() -> None:
    several: list[Any] = [[], {}, ()]
    for nothing in several:
        assert marks_of("at_least", nothing) == {}
        with pytest.raises(InputError, match="not a point in time"):
            point_of("as_at", nothing)


@pytest.mark.parametrize("wrong", ["t/0/5", b"t", [FIRST, 5], ["t/0/5"], {"t": 5}, {("t", 0): "5"}, None, True, 1.5])
@pytest.mark.parametrize("read", [point_of, marks_of])
def test_what_says_no_position_is_refused(read: Any, wrong: Any) -> None:
    with pytest.raises(InputError):
        read("as_at", wrong)
