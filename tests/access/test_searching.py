"""Of what somebody may not read nothing shows in a search: hits, totals, facets, pages, completions, meant words."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.access.rights import Rights
from metajournal.indexer.errors import InvalidCursorError, InvalidQueryError
from metajournal.indexer.search.results import Count
from metajournal.indexer.search.searching import Search
from metajournal.indexer.search.suggest import Suggestion
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from metajournal.schemas.urn import Urn
from metajournal.schemas.within import Within, is_within
from tests.access.test_rights import ROLES, UNIVERSE
from tests.indexer.corpus import state
from tests.indexer.loading import load
from tests.properties import examples

pytestmark = pytest.mark.services
ODD = [f"dataset:odd%2Fns/{number}" for number in range(3)]
ENTITIES = [urn for urn in UNIVERSE if not urn.startswith("access-")] + ODD
PATTERNS = [
    "*", "*:a/*", "*:odd%2Fns/*", "dataset:*", "dataset:a/*", "dataset:odd%2Fns/*", "dataset:a/ab", "thing:*",
    "thing:a/*", "thing:a", "repo:a", "branch:a/*", "program:a/a/*", "table:*", "file:*",
]  # fmt: skip
GRANTS = st.lists(st.tuples(st.sampled_from(("admin", "analyst", "emitter", "reader")), st.sampled_from(PATTERNS)))


@pytest.fixture(scope="module")
def search(elasticsearch: str) -> Iterator[Search]:
    """An index in which each entity has a tag and a key of its kind, and a word that all have."""
    own = Settings(elasticsearch=ElasticsearchSettings(url=elasticsearch, index=f"w{uuid.uuid4().hex[:10]}"))
    states = []
    for number, urn in enumerate(ENTITIES):
        kind = urn.partition(":")[0]
        value = "common invoices" if kind == "repo" else "common"
        states.append(state(urn, tags=[f"of-{kind}"], user={f"key-{kind}": value}, offset=number))
    load(own, states)
    with Search(own) as search:
        yield search


def paged(search: Search, **how: Any) -> list[str]:
    """The URNs of all pages."""
    found = search.search("common", limit=7, **how)
    urns: list[str] = [hit.urn for hit in found.hits]
    while found.cursor is not None:
        found = search.search("common", limit=7, cursor=found.cursor, **how)
        urns += [hit.urn for hit in found.hits]
    return urns


@given(GRANTS)
@settings(max_examples=examples(40), deadline=None)
def test_a_search_is_one_of_what_may_be_read_alone(search: Search, grants: list[tuple[str, str]]) -> None:
    rights = Rights(grants, ROLES)
    within = rights.within("Read")
    readable = sorted(urn for urn in ENTITIES if rights.may("Read", Urn.parse(urn)))
    assert readable == sorted(urn for urn in ENTITIES if is_within(Urn.parse(urn), within))
    found = search.search("common", within=within, facets=True, limit=0)
    assert found.total == len(readable)
    kinds = Counter(urn.partition(":")[0] for urn in readable)
    assert {*found.facets["kind"]} == {Count(kind, number) for kind, number in kinds.items()}
    assert {one.value: one.hits for one in found.facets["tag"]} == {f"of-{kind}": n for kind, n in kinds.items()}
    assert sorted(paged(search, within=within)) == readable
    names = Counter(Urn.parse(urn).name for urn in readable)
    assert search.suggest_names(within=within, limit=100) == [Suggestion(*one) for one in sorted(names.items())]
    keys = [Suggestion(f"key-{kind}", number) for kind, number in sorted(kinds.items())]
    assert search.suggest_keys("key", within=within, limit=100) == keys


def test_a_word_that_only_unreadable_entities_have_is_not_meant(search: Search) -> None:
    assert "invoices" in search.search("invoicse").note
    datasets = Rights([("analyst", "dataset:*")], {}).within("Read")
    for query in ("invoicse", "tags:of-repo", "properties:key-repo", "key-repo:common", "of-rep*", "key-r*:common"):
        found = search.search(query, within=datasets)
        assert found.total == 0, query
        assert not {"invoices", "repo"}.intersection(found.note.replace(query, "").replace(".", " ").split()), query


def test_a_cursor_of_other_rights_is_refused(search: Search) -> None:
    wide, narrow = (Rights([("analyst", pattern)], {}).within("Read") for pattern in ("*", "dataset:*"))
    cursor = search.search("common", limit=1, within=wide).cursor
    assert cursor is not None
    assert search.search("common", limit=1, within=wide, cursor=cursor).hits
    for other in (narrow, None, ()):
        with pytest.raises(InvalidCursorError, match="another search"):
            search.search("common", limit=1, within=other, cursor=cursor)


def test_without_any_right_nothing_is_found(search: Search) -> None:
    assert search.search("", within=()).total == 0
    assert search.suggest_names(within=()) == []


@pytest.mark.parametrize("wrong", ["dataset:*", [("dataset", "*")], Within(None), 5])
def test_what_are_no_conditions_is_refused(search: Search, wrong: Any) -> None:
    with pytest.raises(InvalidQueryError):
        search.search("", within=wrong)


def test_completions_go_on_behind_one(search: Search) -> None:
    for suggest in (search.suggest_names, search.suggest_keys):
        everything = suggest("", limit=1000)
        assert len(everything) > 5
        bits: list[Suggestion] = []
        while found := suggest("", limit=2, after=bits[-1].text if bits else None):
            bits += found
        assert bits == everything
        assert suggest("", after="\U0010ffff") == []
