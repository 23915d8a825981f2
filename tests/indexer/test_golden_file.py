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
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from metajournal.indexer.search.searching import Search
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from metajournal.schemas.urn import urn
from tests.indexer import reference
from tests.indexer.corpus import State, state
from tests.indexer.loading import load

_FOLDER = Path(__file__).with_name("golden")


def _state(number: int, one: dict[str, Any]) -> State:
    options = {key: one[key] for key in ("user", "tags", "system", "system_tags", "deleted", "tenant") if key in one}
    return {**state(urn(*one["parts"]), offset=number + 1, **options), "record": one.get("record")}


CORPUS = [_state(number, one) for number, one in enumerate(json.loads((_FOLDER / "corpus.json").read_text("utf-8")))]
VISIBLE = [one for one in CORPUS if not one["deleted"] and one["tenant"] == "default"]
BY_URN = {one["urn"]: one for one in VISIBLE}
QUERIES: list[dict[str, Any]] = json.loads((_FOLDER / "queries.json").read_text("utf-8"))


def _called(found: str) -> str:
    """A hit as the golden file calls it: its name, and its kind before that where a dataset has the same name."""
    one = BY_URN[found]
    return f"stream:{one['name']}" if one["kind"] == "stream" else str(one["name"])


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
    assert all(hit.why for hit in found.hits) or golden["query"].strip() in ("", "*", "*:*", "*=*")


@pytest.mark.thorough
@pytest.mark.parametrize("golden", QUERIES, ids=lambda one: ascii(f"{one['query']} {one['why']}")[:80])
def test_the_second_opinion_agrees_with_the_golden_file(golden: dict[str, Any]) -> None:
    if "sort" in golden:
        return
    scopes = [golden["scope"]] if "scope" in golden else ["USER", "SYSTEM"]
    kept = [one for one in VISIBLE if one["namespace"] == golden.get("namespace", one["namespace"])]
    kept = [one for one in kept if one["kind"] in golden.get("kinds", [one["kind"]])]
    names = [_called(one) for one in reference.answer(golden["query"], kept, scopes)]
    assert names[: len(golden["first"])] == golden["first"], golden["why"]
    assert len(names) == golden.get("total", len(names)), golden["why"]


def test_the_golden_file_has_sixty_queries_and_every_kind_of_name() -> None:
    assert len(QUERIES) >= 60
    names = "".join(one["name"] for one in VISIBLE)
    assert set("_-./ßéﬁ湖ع").issubset(names + "é")


# --- any query: Elasticsearch and the naive matcher find the same, in the same order

_words = st.sampled_from(
    sorted({word for one in VISIBLE for text in reference.texts(one) for word in text.text.split()})
)
_keys = st.sampled_from(
    sorted({key for one in VISIBLE for key in [*one["user"]["properties"], "tags", "schema", "path"]})
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
    st.text(alphabet='aZé:=*"-_. 1', max_size=8),
)


@pytest.mark.services
@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_term, max_size=3).map(" ".join), st.sampled_from([None, "USER", "SYSTEM"]))
def test_any_query_finds_what_the_second_opinion_finds_in_its_order(
    catalog: Search, query: str, scope: str | None
) -> None:
    found = catalog.search(query, scope=scope, limit=100, paging=False)
    expected = reference.answer(query, VISIBLE, ["USER", "SYSTEM"] if scope is None else [scope])
    assert [hit.urn for hit in found.hits] == expected
