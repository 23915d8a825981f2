"""A long page of hits, read in steps: the same hits as in one, up to a bound."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.indexer.search import in_steps
from metajournal.indexer.search.in_steps import AT_ONCE, MOST_BYTES, bounded
from metajournal.indexer.search.results import Count, Hit, Results
from metajournal.schemas.urn import Urn
from tests.properties import examples


class Held:
    """What searches among some entities, whose places are their cursors.

    Attributes:
        asked: (limit, facets) of each question.
    """

    def __init__(self, sizes: list[int]) -> None:
        self._hits = [hit(number, size) for number, size in enumerate(sizes)]
        self.asked: list[tuple[int, bool]] = []

    def __call__(self, query: str, *, limit: int, cursor: str | None, **asked: Any) -> Results:
        begin = int(cursor or 0)
        end = begin + limit
        self.asked.append((limit, asked["facets"]))
        return Results(
            total=len(self._hits), hits=tuple(self._hits[begin:end]), position_vector={},
            facets={"kind": (Count("dataset", len(self._hits)),)} if asked["facets"] else {},
            cursor=str(end) if limit > 0 and end < len(self._hits) else None, note="",
        )  # fmt: skip


def hit(number: int, size: int) -> Hit:
    document = {"user": {"properties": {"large": "x" * size}, "tags": []}}
    return Hit(Urn.parse(f"dataset:d/{number}"), "dataset", "d", str(number), None, 0.0, (), document)


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(st.sampled_from([1, 1_000, 400_000]), max_size=3 * AT_ONCE), st.integers(0, 4 * AT_ONCE), st.booleans(),
    st.integers(0, 2 * AT_ONCE),
)  # fmt: skip
def test_a_page_in_steps_is_the_page_or_ends_with_the_step_that_fills_it(
    sizes: list[int], limit: int, facets: bool, begin: int
) -> None:
    search = Held(sizes)
    cursor = str(begin) if begin else None
    whole = search("", limit=limit, cursor=cursor, facets=facets)
    search.asked.clear()
    found = bounded(search, "", limit=limit, cursor=cursor, facets=facets)
    assert (found.total, found.facets) == (whole.total, whole.facets), "of the first step"
    assert found.hits == whole.hits[: len(found.hits)]
    assert all(most <= AT_ONCE for most, _ in search.asked)
    if len(found.hits) < len(whole.hits):
        assert sum(sizes[begin : begin + len(found.hits)]) >= MOST_BYTES - len(found.hits) * 100
        assert found.cursor == str(begin + len(found.hits))
    else:
        assert found.cursor == whole.cursor
    held = sum(sizes[begin : begin + max(0, len(found.hits) - AT_ONCE)])
    assert held <= MOST_BYTES, "what was held before the last step"


def test_notes_of_the_steps_are_told_once(monkeypatch: Any) -> None:
    told = iter(["One.", "Two.", "One.", ""])
    search = Held([1] * 4)
    monkeypatch.setattr(in_steps, "AT_ONCE", 1)

    def noted(query: str, **asked: Any) -> Results:
        page = search(query, **asked)
        return Results(page.total, page.hits, page.position_vector, page.facets, page.cursor, next(told))

    assert bounded(noted, "", limit=4).note == "One. Two."
