"""The golden file: queries with their first hits, each with the rule that it follows, and the second opinion on them.

`golden/corpus.json` is a snapshot of distributions as the demo publishes them, and names that try the rules;
`golden/queries.json` says what each query finds. The same queries go to the naive matcher of `reference`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from metajournal.indexer.search.ranking import Tier
from metajournal.indexer.search.searching import Search
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from metajournal.schemas.urn import urn
from tests.indexer import reference
from tests.indexer.corpus import State, state
from tests.indexer.loading import load

_FOLDER = Path(__file__).with_name("golden")


def _state(number: int, entry: dict[str, Any]) -> State:
    options = {
        key: entry[key] for key in ("user", "tags", "system", "system_tags", "deleted", "tenant") if key in entry
    }
    return {**state(urn(*entry["parts"]), offset=number + 1, **options), "record": entry.get("record")}


CORPUS = [
    _state(number, entry) for number, entry in enumerate(json.loads((_FOLDER / "corpus.json").read_text("utf-8")))
]
VISIBLE = [state for state in CORPUS if not state["deleted"] and state["tenant"] == "default"]
STATISTICS = reference.statistics_of(CORPUS)
BY_URN = {state["urn"]: state for state in VISIBLE}
QUERIES: list[dict[str, Any]] = json.loads((_FOLDER / "queries.json").read_text("utf-8"))


def _called(urn_text: str) -> str:
    """A hit as the golden file calls it: its name, and its kind before that where a dataset has the same name."""
    state = BY_URN[urn_text]
    return f"stream:{state['name']}" if state["kind"] == "stream" else str(state["name"])


@pytest.fixture(scope="module")
def catalog(elasticsearch: str) -> Iterator[Search]:
    settings = Settings(elasticsearch=ElasticsearchSettings(url=elasticsearch, index=f"file{uuid.uuid4().hex[:8]}"))
    load(settings, CORPUS)
    with Search(settings) as search:
        yield search


@pytest.mark.services
@pytest.mark.parametrize("golden", QUERIES, ids=lambda one: ascii(f"{one['query']} {one['why']}")[:80])
def test_a_golden_query_has_these_first_hits(catalog: Search, golden: dict[str, Any]) -> None:
    options = {key: golden[key] for key in ("scope", "kinds", "namespace", "sort") if key in golden}
    found = catalog.search(golden["query"], limit=100, paging=False, **options)
    names = [_called(hit.urn) for hit in found.hits]
    assert names[: len(golden["first"])] == golden["first"], golden["why"]
    assert found.total == golden.get("total", found.total), golden["why"]
    matching = [hit for hit in found.hits if hit.tier not in (None, Tier.SOME_TERMS) or "NOT" not in golden["query"]]
    assert all(hit.why for hit in matching) or all(hit.tier is None for hit in found.hits)


@pytest.mark.thorough
@pytest.mark.parametrize("golden", QUERIES, ids=lambda one: ascii(f"{one['query']} {one['why']}")[:80])
def test_the_second_opinion_agrees_with_the_golden_file(golden: dict[str, Any]) -> None:
    if "sort" in golden:
        return
    scopes = [golden["scope"]] if "scope" in golden else ["USER", "SYSTEM"]
    kept = [state for state in VISIBLE if state["namespace"] == golden.get("namespace", state["namespace"])]
    kept = [state for state in kept if state["kind"] in golden.get("kinds", [state["kind"]])]
    names = [_called(urn) for urn in reference.answer(golden["query"], kept, scopes, among=CORPUS)]
    assert names[: len(golden["first"])] == golden["first"], golden["why"]
    assert len(names) == golden.get("total", len(names)), golden["why"]


def test_the_golden_file_has_sixty_queries_and_every_kind_of_name() -> None:
    assert len(QUERIES) >= 60
    names = "".join(state["name"] for state in VISIBLE)
    assert set("_-./ßéﬁ湖ع").issubset(names + "é")


# --- any query: Elasticsearch and the naive matcher find the same, in the same order

_words = st.sampled_from(
    sorted({word for state in VISIBLE for text in reference.texts(state) for word in text.text.split()})
)
_keys = st.sampled_from(
    sorted({key for state in VISIBLE for key in [*state["user"]["properties"], "tags", "schema", "path"]})
)
_cut = st.builds(lambda word, end: word[:end], _words, st.integers(1, 6))
_value = st.one_of(_words, _cut, _cut.map("{}*".format), st.builds('"{} {}"'.format, _words, _words))
_term = st.one_of(
    _value,
    st.builds("{}:{}".format, _keys, _value),
    st.builds("{} = {}".format, _keys, _value),
    st.builds("{}*:{}".format, _cut, _value),
    st.builds("properties:{}".format, _keys),
    st.builds("tags:{}".format, _value),
    st.builds("schema:{}:{}".format, _cut, st.sampled_from(["module", "pack*", "long", "*", "string"])),
    st.text(alphabet='aZé:=*"-_. 1\ud800\u202eع', max_size=8),
)
_operand = st.one_of(_term, _term.map("+{}".format), _term.map("-{}".format), _term.map("NOT {}".format))
_flat = st.lists(st.one_of(_operand, st.sampled_from(["AND", "OR"])), max_size=4).map(" ".join)
_query = st.one_of(
    st.lists(_term, max_size=3).map(" ".join),
    _flat,
    st.builds("{}({}) {}".format, st.sampled_from("+- "), _flat, _flat),
)


@pytest.mark.services
@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_query, st.sampled_from([None, "USER", "SYSTEM"]))
@example(": Region = (Apache-2.0", None)
def test_any_query_finds_what_the_second_opinion_finds_in_its_order(
    catalog: Search, query: str, scope: str | None
) -> None:
    results = catalog.search(query, scope=scope, limit=100, paging=False)
    places = reference.ranked(query, VISIBLE, ["USER", "SYSTEM"] if scope is None else [scope], STATISTICS)
    found = [str(hit.urn) for hit in results.hits]
    assert reference.is_order(found, places), (found, places)
    assert [hit.tier or 0 for hit in results.hits] == [places[urn][0] for urn in found]
