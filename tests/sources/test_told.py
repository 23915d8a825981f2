"""What a source notes of finished runs: however many there are, the same again is not new."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.schemas.limits import MAX_ENTITY_BYTES
from metajournal.sources.told import TEXT_CHARS, TOLD, TOLD_GROUPS, Told
from tests.properties import examples

MANY = [f"{number:024x}" for number in range(20_000)]
"""As many pieces as ten million events make."""


@pytest.fixture(scope="module")
def noted() -> dict[str, str]:
    return Told().noted(MANY)


def test_the_same_again_is_not_new_however_many_there_are(noted: dict[str, str]) -> None:
    told = Told.read(noted)
    assert told.new(MANY) == set()
    assert told.noted(MANY) == noted
    assert sum(map(len, noted.values())) < 2 * TEXT_CHARS < MAX_ENTITY_BYTES // 2


def test_what_is_added_is_new_and_so_is_what_is_near_it(noted: dict[str, str]) -> None:
    told = Told.read(noted)
    assert told.new([*MANY, "a"]) == {"a"}
    for place in (0, 5, 9_999):
        new = told.new([*MANY[:place], "a", *MANY[place:]])
        assert "a" in new
        assert len(new) <= 2 * 256 + 1
    new = told.new([*MANY[:5_000], *MANY[5_010:]])
    assert len(new) <= 2 * 256
    grown = Told.read(told.noted([*MANY, "a"]))
    assert grown.new([*MANY, "a"]) == grown.new(MANY) == set()


def test_few_are_a_list_as_before() -> None:
    earlier = {TOLD: json.dumps(["x", "y"])}
    told = Told.read(earlier)
    assert told.new(["x", "z", "z"]) == {"z"}
    assert told.noted(["x", "z"]) == {TOLD: json.dumps(["y", "x", "z"])}


def test_a_list_that_was_cut_by_an_earlier_version_is_completed_once() -> None:
    told = Told.read({TOLD: json.dumps(MANY[-3_000:])})
    assert told.new(MANY) == {*MANY[:-3_000]}
    assert Told.read(told.noted(MANY)).new(MANY) == set()


@pytest.mark.thorough
def test_one_run_at_a_time_is_forgotten_from_the_oldest_on() -> None:
    """As dbt tells of its last run alone: its ids are longer."""
    told = Told()
    ids = [str(UUID(int=number)) for number in range(2_600)]
    for invocation in ids:
        told = Told.read(told.noted([invocation]))
    assert told.new(ids[-2_400:]) == set()
    assert ids[0] in told.new(ids)


@pytest.mark.parametrize("text", ["", "no json", "{}", "[1, null]"])
def test_what_somebody_else_has_written_there_is_nothing(text: str) -> None:
    assert Told.read({TOLD: text, TOLD_GROUPS: text}) == Told()


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.sampled_from(MANY) | st.text(max_size=3), max_size=20), st.integers(0, 9_000))
def test_whatever_was_noted_is_not_new(odd: list[str], count: int) -> None:
    ids = [*odd, *MANY[:count]]
    assert Told.read(Told().noted(ids)).new(ids) == set()
