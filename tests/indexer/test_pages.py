"""Pages in every order, however many entities share a value: the same entities, in the order that is promised."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest

from metajournal.domains.catalog.urns import dataset
from metajournal.indexer.search.searching import Hit, Search, Sort
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from tests.indexer.corpus import State, state
from tests.indexer.loading import load

pytestmark = pytest.mark.services

TIMES: Final[dict[str, list[int | None]]] = {
    "apart": list(range(1, 24)),
    "falling": list(range(23, 0, -1)),
    "equal": [5] * 23,
    "none": [None] * 23,
    "some": [7, 7, 3, None, 9, 3, 3, None, 7, 1, 3, 3, 3, None, 9, 9, 3, 3, 2, 2, 3, None, 1],
    "runs": [number // 4 for number in range(23)],
}
"""Creation times of each namespace's entities, in the order in which they are indexed."""


def _states() -> Iterator[State]:
    for namespace, times in TIMES.items():
        for number, time in enumerate(times):
            name = ("word", "wordy", "a-word", "other", "some")[number % 5] + f"_{number * 7 % 23}"
            note = "some word here" if number % 5 == 3 else "word here"
            document = state(dataset(namespace, name), user={"note": note}, tags=[f"t{number % 3}"], offset=number)
            document["system"]["properties"].pop("creation_time", None)
            if time is not None:
                document["system"]["properties"]["creation_time"] = str(time)
            yield document


@pytest.fixture(scope="module")
def catalog(elasticsearch: str) -> Iterator[Search]:
    settings = Settings(elasticsearch=ElasticsearchSettings(url=elasticsearch, index=f"s{uuid.uuid4().hex[:10]}"))
    states = list(_states())
    for start in range(0, len(states), 10):  # several segments, each with some of the equals
        load(settings, states[start : start + 10])
    with Search(settings) as search:
        yield search


def _time(hit: Hit) -> int | None:
    text = hit.document["system"]["properties"].get("creation_time")
    return None if text is None else int(text)


def _by_time(hits: tuple[Hit, ...], direction: int) -> list[str]:
    def key(hit: Hit) -> tuple[bool, int, str]:
        time = _time(hit)
        return time is None, direction * (time or 0), hit.urn

    return [hit.urn for hit in sorted(hits, key=key)]


def _pages(catalog: Search, query: str, **options: Any) -> Iterator[Any]:
    page = catalog.search(query, **options)
    yield page
    while page.cursor is not None:
        page = catalog.search(query, cursor=page.cursor, **options)
        yield page


@pytest.mark.parametrize("namespace", TIMES)
@pytest.mark.parametrize("limit", [1, 4, 22])
@pytest.mark.parametrize(("sort", "direction"), [("creation_time", -1), ("creation_time:asc", 1)])
def test_pages_by_time_are_the_whole_order_cut_in_pieces(
    catalog: Search, namespace: str, limit: int, sort: Sort, direction: int
) -> None:
    every = catalog.search("*", namespace=namespace, limit=100).hits
    assert len(every) == 23
    pages = list(_pages(catalog, "*", namespace=namespace, limit=limit, sort=sort))
    assert [hit.urn for page in pages for hit in page.hits] == _by_time(every, direction)
    assert [len(page.hits) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert {page.total for page in pages} == {23}
    assert {page.note for page in pages} == {""}


@pytest.mark.parametrize("query", ["word", "word*", "some word", "note:word", "tags:t1 word", "*"])
@pytest.mark.parametrize("sort", ["name", "name:desc", "creation_time", "creation_time:asc"])
def test_a_hit_is_the_same_in_every_order(catalog: Search, query: str, sort: Sort) -> None:
    expected = catalog.search(query, limit=1000, facets=True)
    assert expected.total > 100
    results = catalog.search(query, limit=1000, sort=sort, facets=True)
    assert (results.total, results.facets) == (expected.total, expected.facets)
    assert {hit.urn: (hit.tier, hit.why) for hit in results.hits} == {
        hit.urn: (hit.tier, hit.why) for hit in expected.hits
    }
    pages = list(_pages(catalog, query, limit=50, sort=sort, facets=True))
    assert [hit for page in pages for hit in page.hits] == list(results.hits)
    assert all(page.facets == expected.facets for page in pages)


@pytest.mark.parametrize("namespace", TIMES)
@pytest.mark.parametrize("sort", ["relevance", "name", "creation_time"])
@pytest.mark.parametrize("limit", [0, 5])
def test_a_page_without_a_cursor_has_the_same_hits(catalog: Search, namespace: str, sort: Sort, limit: int) -> None:
    """Without paging no point in time is held."""
    options: dict[str, Any] = {"namespace": namespace, "sort": sort, "limit": limit}
    alone, first = catalog.search("word", paging=False, **options), catalog.search("word", **options)
    assert alone.hits == first.hits
    assert len(alone.hits) == limit
    assert (alone.total, alone.cursor) == (first.total, None)
