"""Searching a real Elasticsearch: order, filters, facets, pages, waiting, completion, and what goes wrong."""

from __future__ import annotations

import base64
import json
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from elasticsearch import ConnectionTimeout, Elasticsearch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bench.hostile import HOSTILE
from metajournal.domains.catalog.urns import dataset
from metajournal.indexer import keys, waiting
from metajournal.indexer.connection import make_client
from metajournal.indexer.errors import (
    IndexMissingError,
    InvalidCursorError,
    InvalidQueryError,
    MappingMismatchError,
)
from metajournal.indexer.mapping import concrete_name, ensure_index, index_body
from metajournal.indexer.search.described import Described
from metajournal.indexer.search.edits import edits_of
from metajournal.indexer.search.explain import matched, near
from metajournal.indexer.search.foreign import JournalPartitions
from metajournal.indexer.search.grammar import Everything, Query, Term, Value, parse
from metajournal.indexer.search.ranking import Tier, plain_word
from metajournal.indexer.search.results import Count
from metajournal.indexer.search.searching import Search, Sort
from metajournal.indexer.search.suggest import Suggestion
from metajournal.indexer.search.typos import MOST_MISSPELT
from metajournal.indexer.shown import Shown, read_shown
from metajournal.indexer.terms import fold, whole
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import (
    InputError,
    InvalidPositionError,
    NotYetVisibleError,
    OperatorError,
    SearchUnavailableError,
)
from metajournal.schemas.positions import Position, position
from metajournal.schemas.registry import joining
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from metajournal.schemas.within import Within
from tests.indexer.corpus import CORPUS, FINDABLE, NAME_OF, State, state
from tests.indexer.failing import failing
from tests.indexer.loading import load
from tests.indexer.test_documents import worst_cases

pytestmark = pytest.mark.services
SCHEMAS = ("schema:" * 1_100 + "x y", "schema: " * 1_000 + "x")


def own_index(elasticsearch: str) -> Settings:
    return Settings(elasticsearch=ElasticsearchSettings(url=elasticsearch, index=f"s{uuid.uuid4().hex[:10]}"))


@contextmanager
def searching(elasticsearch: str, states: Iterable[State]) -> Iterator[Search]:
    """Search an index of its own that holds these states."""
    settings = own_index(elasticsearch)
    load(settings, states)
    with Search(settings) as search:
        yield search


@pytest.fixture(scope="module")
def humped(elasticsearch: str) -> Iterator[Search]:
    with searching(elasticsearch, HUMPED.values()) as search:
        yield search


@pytest.fixture(scope="module")
def catalog(elasticsearch: str) -> Iterator[Search]:
    with searching(elasticsearch, CORPUS.values()) as search:
        yield search


def _names(catalog: Search, query: str, **options: object) -> list[str]:
    return [NAME_OF[hit.urn] for hit in catalog.search(query, **options).hits]  # type: ignore[arg-type]


# --- order


def test_the_tiers_of_the_order_are_strict(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    plain = {"note": "red blue"}
    load(
        settings,
        [
            state(dataset("z", "red"), offset=1),
            state(dataset("y", "redBlueGreen and much more in a long name"), offset=2),
            state(dataset("x", "dark-redwood"), user={"note": "red"}, offset=3),
            state(dataset("w", "other"), user=plain, tags=["red", "blue"], offset=4),
            state(dataset("b", "some2"), user={"note": "red red red red"}, offset=5),
            state(dataset("a", "some1"), user={"note": "blue"}, offset=6),
        ],
    )
    with Search(settings) as search:
        hits = search.search("red blue").hits
        assert [(hit.name, hit.tier) for hit in hits[:3]] == [
            ("red", Tier.EXACT_NAME),
            ("redBlueGreen and much more in a long name", Tier.NAME_WORDS),
            ("other", Tier.EVERY_TERM),
        ]
        assert {(hit.name, hit.tier) for hit in hits[3:]} == {
            ("dark-redwood", Tier.SOME_TERMS),
            ("some1", Tier.SOME_TERMS),
            ("some2", Tier.SOME_TERMS),
        }
        assert [int(hit.score) for hit in hits] == [hit.tier for hit in hits]
        [also_begun, *_] = search.search("dar* redw*").hits
        assert (also_begun.name, also_begun.tier) == ("dark-redwood", Tier.NAME_WORDS)
        exact_and_begun = [(hit.name, hit.tier) for hit in search.search("dar* red*").hits[:2]]
        assert exact_and_begun == [("red", Tier.EXACT_NAME), ("dark-redwood", Tier.NAME_WORDS)]
        assert [hit.tier for hit in search.search("redwod").hits] == [Tier.TYPING_ERROR]
        excluded = search.search("red -blue").hits
        assert [(hit.name, hit.tier) for hit in excluded] == [
            ("red", Tier.EXACT_NAME),
            ("some2", Tier.EVERY_TERM),
            ("dark-redwood", Tier.EVERY_TERM),
        ]


def test_inside_a_tier_rare_words_short_texts_and_names_come_first(elasticsearch: str) -> None:
    def described(name: str, text: str, **more: Any) -> State:
        return state(dataset("d", name), system={"description": text}, offset=1, **more)

    states = [
        described("a-long", "river " + "and many other words " * 20),
        described("b-short", "the river"),
        described("c-tagged", "of water", tags=["river"]),
        described("d-river-water", "of rain"),
        described("e-common", "the stone", tags=["sea"]),
        *(described(f"f-{number}", "a stone in the sea", tags=["sea"]) for number in range(9)),
    ]
    with searching(elasticsearch, states) as search:
        assert hits(search, "river") == ["d-river-water", "c-tagged", "b-short", "a-long"]
        assert [hit.tier for hit in search.search("river").hits] == [Tier.NAME_WORDS] + [Tier.EVERY_TERM] * 3
        assert hits(search, "river stone")[:3] == ["d-river-water", "c-tagged", "b-short"]  # stone is common


def test_pages_of_any_size_give_the_order_of_one_page(elasticsearch: str) -> None:
    states = [
        state(
            dataset("d", f"n{number}"), user={"v": "word " * (1 + number % 7) + "other " * (number % 11)}, offset=number
        )
        for number in range(60)
    ]
    with searching(elasticsearch, states) as search:
        best_first = search.search("word other", limit=100).hits
        assert len({hit.score for hit in best_first}) > 20
        assert list(best_first) == sorted(best_first, key=lambda hit: (-hit.score, str(hit.urn)))
        for size in (1, 7, 59):
            page = search.search("word other", limit=size)
            found = list(page.hits)
            while page.cursor is not None:
                page = search.search("word other", limit=size, cursor=page.cursor)
                found += page.hits
            assert [(hit.urn, hit.score) for hit in found] == [(hit.urn, hit.score) for hit in best_first]


# --- typing errors


def test_a_word_that_nothing_has_finds_its_neighbours_and_says_so(catalog: Search) -> None:
    results = catalog.search("ordres")
    assert {hit.tier for hit in results.hits} == {Tier.TYPING_ERROR}
    assert [str(hit.why[0]) for hit in results.hits] == [
        "name: [orders] for ordres",
        "name: customer[Orders] for ordres",
        "name: [orders]_loader for ordres",
        "note: pii [orders] inside for ordres",
    ]
    assert results.note == "Nothing has `ordres`; did you mean `orders`?"
    assert catalog.search("ordres pii").note == catalog.search("orders").note == ""


def test_words_that_nothing_resembles_within_their_edits_are_told_the_nearest_known_one(catalog: Search) -> None:
    assert catalog.search("qqq").note == catalog.search("tags:alx").note == catalog.search("ali AND gdpr").note == ""
    assert catalog.search("alx").note == "Nothing has `alx`; did you mean `ali`?"
    assert catalog.search("crn").note == "Nothing has `crn`; did you mean `crm`?"
    results = catalog.search("wheether")
    assert (results.total, results.note) == (2, "Nothing has `wheether`; did you mean `weather`?")


def test_what_counts_as_found_is_what_the_tenant_filters_and_scopes_leave(elasticsearch: str) -> None:
    states = [
        state(dataset("one", "lemon"), user={"v": "orange"}, offset=1),
        state(dataset("two", "melon"), system={"v": "orangs"}, offset=2),
        state(dataset("one", "other"), user={"v": "oranje"}, tenant="other", offset=3),
        state(dataset("one", "gone"), user={"v": "orangy"}, deleted=True, offset=4),
    ]
    with searching(elasticsearch, states) as search:
        assert hits(search, "orange") == ["lemon"]
        assert [hit.name for hit in search.search("orange", namespace="two").hits] == ["melon"]
        assert [hit.name for hit in search.search("orange", scope="SYSTEM").hits] == ["melon"]
        assert [hit.name for hit in search.search("oranje", tenant="other").hits] == ["other"]
        assert set(hits(search, "oranje")) == {"lemon", "melon"} - {"melon"}
        assert set(hits(search, "orangy")) == {"lemon", "melon"}
        assert search.search("orange", namespace="two", kinds="stream").total == 0


def test_the_pages_of_a_search_with_a_typing_error_agree_whatever_is_written_meanwhile(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    names = [f"thing{number:02d}" for number in range(25)]
    load(settings, [state(dataset("d", name), user={"v": "harvest"}, offset=1) for name in names])
    with Search(settings) as search:
        page = search.search("harvset", limit=10)
        found = [hit.name for hit in page.hits]
        load(settings, [state(dataset("d", "new"), user={"v": "harvset"}, offset=2)])
        while page.cursor is not None:
            page = search.search("harvset", limit=10, cursor=page.cursor)
            found += [hit.name for hit in page.hits]
            assert all("for harvset" in str(hit.why[0]) for hit in page.hits)
        assert found == names
        cursor = search.search("harvest", limit=10).cursor
        assert cursor is not None
        content = json.loads(base64.urlsafe_b64decode(str(search.cursors.whole(cursor))))
        for wrong in ([1], [-1], [True], ["x"], {"a": 1}, 5, [0, 0.0]):
            text = base64.urlsafe_b64encode(json.dumps([*content, wrong]).encode()).decode()
            with pytest.raises(InvalidCursorError):
                search.search("harvest", limit=10, cursor=text)


def requests_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bodies of the searches that Elasticsearch is asked from now on; they go their way."""
    bodies = list[str]()
    plain = Elasticsearch.search

    def noted(client: Elasticsearch, **request: Any) -> Any:
        bodies.append(json.dumps(request))
        return plain(client, **request)

    monkeypatch.setattr(Elasticsearch, "search", noted)
    return bodies


def test_most_searches_are_one_request_and_unknown_words_are_not_asked_for_again(
    catalog: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = requests_of(monkeypatch)
    for query in ("orders", "pii orders", "orders AND NOT gdpr", "*", "owner:alcie", "ordr*", "tags:x1234567"):
        bodies.clear()
        catalog.search(query)
        assert len(bodies) == 1, query
    bodies.clear()
    assert catalog.search("zzzz ordres yyyy").total > 0
    assert ["fuzzy" in body for body in bodies] == [False, True]
    assert "zzzz" in bodies[0]
    assert "zzzz" not in bodies[1]


def test_one_exact_name_among_several_terms_counts_as_exact(catalog: Search) -> None:
    assert _names(catalog, "gdpr weather loader ORDERS")[0] == "orders"


def test_sorting_by_name_and_by_creation_time(catalog: Search) -> None:
    by_name = [fold(str(FINDABLE[name]["name"])) for name in _names(catalog, "*", sort="name")]
    assert by_name == sorted(by_name)
    by_time = [FINDABLE[name]["logical_timestamp"] for name in _names(catalog, "*", sort="creation_time")]
    assert by_time == sorted(by_time, reverse=True)
    assert _names(catalog, "*", sort="name:desc")[0] == max(
        FINDABLE, key=lambda name: fold(str(FINDABLE[name]["name"]))
    )
    assert _names(catalog, "*", sort="creation_time:asc") == _names(catalog, "*", sort="creation_time:desc")[::-1]


# --- filters, facets, reasons


def test_filters_by_namespace_and_kind(catalog: Search) -> None:
    assert set(_names(catalog, "*", namespace="sales")) == {"customerOrders", "pairs", "broken"}
    assert set(_names(catalog, "*", kinds=["app", "program"])) == {"ingest", "loader"}
    assert _names(catalog, "orders", kinds="program") == ["loader"]
    assert _names(catalog, "*", namespace="no-such") == []


def test_a_tenant_sees_its_own_entities_only(catalog: Search) -> None:
    assert catalog.search("*", tenant="other").total == 1
    assert catalog.search("foreign").total == 0
    assert catalog.search("*", tenant="nobody").total == 0
    other = catalog.search("*", tenant="other", facets=True).facets
    assert other == {
        "kind": (Count("dataset", 1),),
        "namespace": (Count("default", 1),),
        "tag": (("foreign", 1), ("pii", 1)),
    }
    assert [entry.text for entry in catalog.suggest_keys("", tenant="other")] == ["creation_time"]
    assert catalog.suggest_names("", tenant="nobody") == []


def test_facets_count_all_hits_exactly(catalog: Search) -> None:
    facets = catalog.search("*", facets=True, limit=1).facets
    kinds = {
        kind: sum(findable["kind"] == kind for findable in FINDABLE.values()) for kind in ("dataset", "app", "stream")
    }
    assert {count.value: count.hits for count in facets["kind"] if count.value in kinds} == kinds
    assert Count("pii", 3) in facets["tag"]
    assert Count("weather", 2) in facets["tag"]
    assert Count("pii", 2) in catalog.search("*", scope="USER", facets=True).facets["tag"]
    assert Count("sales", 3) in facets["namespace"]


def test_a_hit_says_why_with_the_text_as_it_was_written(catalog: Search) -> None:
    (hit,) = catalog.search("strasse:bahnhof* zurich").hits
    assert [(why.field, why.key, why.marked()) for why in hit.why] == [
        ("property", "Straße", "[Bahnhofstraße] 1"),
        ("name", "", "Café [Zürich]"),
    ]
    (archive,) = catalog.search("needle").hits
    assert "[needle]" in archive.highlights[0]
    assert len(archive.highlights[0]) < 300


def test_separators_find_nothing_and_say_so(catalog: Search) -> None:
    results = catalog.search("--- ...")
    assert results.total == 0
    assert "no letter or digit" in results.note
    assert catalog.search("zzz").note == ""


# --- the model


_part = st.sampled_from(
    ["orders", "ali", "Ali Baba", "noaa", "goes16", "tag12-tag33", "pii", "café", "owner", "tags", "schema", "own", "e"]
)
_noise = st.text(alphabet='ab:=*"\\/?-_. é\ud800\u202eبي', max_size=12)
_queries = st.lists(
    st.one_of(
        _part,
        _noise,
        st.builds("{}*".format, _part),
        st.builds('"{}"'.format, _part),
        st.builds("{}:{}".format, _part, _part),
        st.builds("{}*:{}*".format, _part, _part),
        st.builds('{}:"{}"*'.format, _part, _part),
        st.builds("{}{}".format, st.sampled_from("+-"), _part),
        st.sampled_from(["AND", "OR", "NOT", "(", ")", "(orders", "pii)", "ordres", "nooa"]),
    ),
    max_size=5,
).map(" ".join)


def _tiers(query: Query) -> dict[str, Tier | None]:
    """The tier of each hit by the plain words of the specification."""
    described = {urn: Described(findable) for urn, findable in _BY_URN.items()}
    misspelt = {
        term: plain_word(term)
        for term in query.terms
        if edits_of(plain_word(term)) and not any(matched(term, each) for each in described.values())
    }
    misspelt = dict(list(misspelt.items())[:MOST_MISSPELT])
    tiers: dict[str, Tier | None] = {}
    for urn, each in described.items():
        exact = {term: isinstance(term, Everything) or bool(matched(term, each)) for term in query.atoms}
        close = {term: any(near(each, word, edits_of(word))) for term, word in misspelt.items()}
        if query.holds((exact | close).__getitem__):
            tiers[urn] = None if not query.ranked else Tier.TYPING_ERROR
            if query.ranked and query.holds(exact.__getitem__):
                tiers[urn] = _tier(query, exact, _BY_URN[urn])
    return tiers


def _tier(query: Query, exact: dict[Term, bool], findable: State) -> Tier:
    asked = [term.value for term in query.terms if isinstance(term, Value)]
    name = whole(findable["name"]) or ""
    if any(whole(value.text) == name for value in asked):
        return Tier.EXACT_NAME
    named = Described({**findable, "kind": "", "namespace": None, "user": _BARE, "system": _BARE})
    if len(asked) == len(query.terms) and all(matched(Value(value), named) for value in asked):
        return Tier.NAME_WORDS
    return Tier.EVERY_TERM if all(exact[term] for term in query.terms) else Tier.SOME_TERMS


_BY_URN = {str(findable["urn"]): findable for findable in FINDABLE.values()}
_BARE: dict[str, object] = {"properties": {}, "tags": []}


@hypothesis_settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_queries)
def test_elasticsearch_finds_and_orders_what_the_model_does(catalog: Search, query: str) -> None:
    results = catalog.search(query, limit=100, paging=False)
    assert {str(hit.urn): hit.tier for hit in results.hits} == _tiers(parse(query))
    assert list(results.hits) == sorted(results.hits, key=lambda hit: (-hit.score, str(hit.urn)))
    assert all(int(hit.score) == (hit.tier or 0) for hit in results.hits)


@hypothesis_settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=200) | st.text(alphabet='{}[]":*?/\\~^()+-!&|<>= \x00\ud800é', max_size=60))
def test_any_text_is_answered_and_only_ever_a_value(catalog: Search, text: str) -> None:
    results = catalog.search(text, paging=False)
    assert results.total <= len(FINDABLE)


@pytest.mark.parametrize("text", [*HOSTILE, *SCHEMAS], ids=lambda text: ascii(text)[:30])
def test_long_queries_are_answered(catalog: Search, text: str) -> None:
    try:
        assert catalog.search(text).total >= 0
    except InvalidQueryError as error:
        assert "at most" in error.message or "within each other" in error.message  # noqa: PT017


def test_the_deepest_groups_are_answered(catalog: Search) -> None:
    for form in ("x OR NOT ({})", "(x y) AND +({}) -z", "x OR (y AND NOT ({}) AND z)", "owner*:a-b OR NOT ({} a-b*)"):
        for depth in range(1, 6):
            text = "orders"
            for _ in range(depth):
                text = form.format(text)
            try:
                assert catalog.search(text).total >= 0
            except InvalidQueryError as error:
                assert "5 groups" in error.message  # noqa: PT017
    assert catalog.search("(" * 5 + "orders" + ")" * 5).total == catalog.search("orders").total


def test_of_many_words_with_a_star_those_that_nothing_has_are_not_looked_up(
    catalog: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = requests_of(monkeypatch)
    query = " ".join(f"k{number}a-b*" for number in range(60))
    page = catalog.search(f"{query} orders-l* pii", limit=1)
    assert len(bodies) == 2
    assert "k59a b" not in bodies[1]
    assert "orders l" in bodies[1]
    found = list(page.hits)
    while page.cursor is not None:
        page = catalog.search(f"{query} orders-l* pii", limit=1, cursor=page.cursor)
        found += page.hits
    alone = catalog.search("orders-l* pii").hits
    assert {hit.urn for hit in found} == {hit.urn for hit in alone}
    assert len(found) == len(alone)
    assert {hit.tier for hit in found} == {Tier.SOME_TERMS}
    assert "orders_loader" in {hit.name for hit in found}


def test_of_many_words_under_keys_that_begin_so_those_without_such_a_key_are_not_looked_up(
    catalog: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = requests_of(monkeypatch)
    query = " ".join(f"k{number}*:a-b*" for number in range(60))
    assert catalog.search(query).total == 0
    assert len(bodies) == 2
    assert "k59" not in bodies[1]
    bodies.clear()
    results = catalog.search(f"{query} own*:alice")
    assert "k59*" not in bodies[-1]
    assert [hit.urn for hit in results.hits] == [hit.urn for hit in catalog.search("own*:alice").hits]
    assert results.hits
    assert {hit.tier for hit in results.hits} == {Tier.SOME_TERMS}


def test_a_text_whose_beginning_is_no_word_is_found_by_it_nevertheless(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    schema = json.dumps({"type": "record", "name": "r", "fields": [
        {"name": "telNumbers", "type": {"type": "array", "items": {
            "type": "record", "name": "t", "fields": [{"name": "city", "type": "int"}]}}},
    ]})  # fmt: skip
    load(settings, [
        state(dataset("odd", "value"), user={"k": "\u2121ex 5"}, offset=1),
        state(dataset("odd", "inside"), system={"k": "te\u2121"}, offset=2),
        state(dataset("odd", "tag"), tags=["\u2121"], offset=3),
        state(dataset("odd", "\u2121ephone"), offset=4),
        state(dataset("odd", "words"), user={"k": "some telex"}, offset=5),
        state(dataset("odd", "path"), system={"schema": schema}, offset=6),
        state(dataset("odd", "other"), user={"k": "x \u2121"}, offset=7),
    ])  # fmt: skip
    with Search(settings) as search:
        assert sorted(hits(search, "tel*")) == sorted(["value", "tag", "\u2121ephone", "words", "path"])
        assert search.search("tel*").hits[0].tier is Tier.NAME_WORDS
        assert sorted(hits(search, "te*")) == sorted(["value", "inside", "tag", "\u2121ephone", "words", "path"])
        assert sorted(hits(search, "telex*")) == ["value", "words"]
        assert sorted(hits(search, "telnumbers*")) == ["path"]
        assert [hit.name for hit in search.search("tel*", scope="SYSTEM").hits] == ["\u2121ephone", "path"]


def test_a_query_of_ten_thousand_characters_is_refused_with_the_limit(catalog: Search) -> None:
    with pytest.raises(InvalidQueryError, match="8,192"):
        catalog.search("x" * 10_000)


@pytest.mark.parametrize("text", ["a-" * 2000 + "a*", " ".join("a-" * 500 + f"a{n}*" for n in range(4))])
def test_too_many_words_before_a_star_are_refused_with_the_next_step(catalog: Search, text: str) -> None:
    with pytest.raises(InvalidQueryError, match="1,000") as refused:
        catalog.search(text)
    assert "star" in (refused.value.hint or "")


def test_the_most_words_before_a_star_are_answered(catalog: Search) -> None:
    for text in ("a-" * 999 + "a*", " ".join(f"{key}:" + "a-" * 249 + "a*" for key in ("k", "l", "tags", "schema"))):
        assert catalog.search(text).total == 0


def test_what_would_take_seconds_is_refused_with_the_limit(catalog: Search) -> None:
    for text in ("é-" * 4000, "ﷺ" * 455, "aB" * 4000, " ".join(f"w{n}" + "-a" * 200 for n in range(5))):
        with pytest.raises(InvalidQueryError, match="at most 1,000") as refused:
            catalog.search(text)
        assert "words" in (refused.value.hint or "")
    with pytest.raises(InvalidQueryError, match="144,000 characters"):
        catalog.search("ﷺ" * 8000)


def test_typing_errors_are_looked_for_in_the_first_three_unknown_words(catalog: Search) -> None:
    unknown = "zzzzzza zzzzzzb zzzzzzc"
    assert {hit.name for hit in catalog.search("zzzzzza pii zzzzzzb ordres", sort="name").hits} > {"orders"}
    assert catalog.search(f"{unknown} ordres").total == 0
    assert catalog.search(f"ordres {unknown}").total == catalog.search("orders").total > 0


def hits(search: Search, query: str) -> list[str]:
    return [hit.name for hit in search.search(query, limit=100).hits]


def test_a_text_is_found_as_a_whole_and_by_its_beginning_however_long_it_is(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    texts = {
        "ascii": "c" * 1024,
        "signs": '"' + "#*\\.[(a" * 146,
        "zhe": "ж" * 1024,
        "japanese": "東" * 1024,
        "short": "cc",
    }
    load(
        settings,
        [state(dataset("long", name), user={"v": text}, tags=[text], offset=1) for name, text in texts.items()],
    )
    with Search(settings) as search:
        for name, text in texts.items():
            quoted = text if '"' in text else f'"{text}"'
            for query in (text, quoted, f"v:{text}", f"tags:{text}", f"v:{quoted}"):
                assert hits(search, query) == [name], (name, query[:20])
            for begun in (text[:-1], text):
                expected = {key for key, known in texts.items() if known.startswith(begun)}
                for query in (f"{begun}*", f"v:{begun}*", f"tags:{begun}*"):
                    assert set(hits(search, query)) == expected, (name, query[:20])
        assert hits(search, "d" * 1024 + "*") == hits(search, "properties:" + "v" * 2000 + "*") == []
        assert hits(search, "v*:" + "c" * 1024) == ["ascii"]
        with pytest.raises(InvalidQueryError, match="Before a star a key has at most 900 bytes, not 1,200"):
            search.search("東" * 400 + "*:c")


def test_words_under_keys_that_begin_so_are_found_among_thousands_of_values(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    noise = {f"k{number:04d}": f"{number} 1{number}" for number in range(1500)}
    load(settings, [
        state(dataset("keys", "noise"), user=noise, system={"note": "orders"}, offset=1),
        state(dataset("keys", "target"), user={"note": "orders 199"}, offset=2),
        state(dataset("keys", "apart"), user={"note": "orders", "number": "199"}, system={"note": "199"}, offset=3),
        state(dataset("keys", "system"), system={"nota": "the orders-199x"}, offset=4),
        state(dataset("keys", "signs"), user={"n.o*[t]e": "orders 199"}, offset=5),
    ])  # fmt: skip
    with Search(settings) as search:
        for query in ("*:orders-1*", "*:orders-199*"):
            assert hits(search, query) == ["signs", "system", "target"]
        assert hits(search, "no*:orders-1*") == ["system", "target"]
        assert hits(search, "n.*:orders-199") == ["signs"]
        assert hits(search, "note*:orders-199") == ["target"]
        assert hits(search, "k*:7-17") == ["noise"]
        assert hits(search, "k*:7-18") == []
        assert [hit.name for hit in search.search("no*:orders-1*", scope="SYSTEM").hits] == ["system"]
        assert hits(search, "*:1-1-1i* " * 16) == []


def test_too_many_keys_that_begin_so_are_refused_and_never_left_out(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    load(settings, [
        state(dataset("keys", f"part{part}"), user={f"k{part}{number:04d}": "the same words" for number in range(1001)})
        for part in range(2)
    ])  # fmt: skip
    with Search(settings) as search:
        assert search.search("k0*:same-words").total == 1
        with pytest.raises(InvalidQueryError, match="More than 2,000 keys begin with 'k'"):
            search.search("k*:same-words")
        assert search.search("k*:same").total == 2


def test_keys_too_long_to_stand_before_words_are_found_by_their_beginning(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    keys = {"long": "k" * 101, "spaces": "k " * 30, "short": "kk"}
    load(settings, [state(dataset("hk", name), user={key: "foo bar"}, offset=1) for name, key in keys.items()])
    with Search(settings) as search:
        for query in ("k*:bar", "k*:foo", "k*:ba*", "k*:foo-bar", "k*:foo-b*", 'k*:"foo bar"'):
            assert sorted(hits(search, query)) == ["long", "short", "spaces"], query
        assert sorted(hits(search, "kk*:bar")) == ["long", "short"]
        assert hits(search, "k*:oo") == hits(search, "kl*:bar") == []


def test_a_run_too_long_for_a_word_is_no_word_and_its_parts_are_none(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    run = "x" * 64 + "orders"
    load(settings, [state(dataset("runs", "one"), user={"h": f"sum {run} end"}, offset=1)])
    with Search(settings) as search:
        for query in (
            run,
            f"h:{run}",
            f"{run[:63]}*",
            f"{run[:64]}*",
            f"{run[:66]}*",
            f"h*:{run[:66]}*",
            f"sum-{run}-e*",
        ):
            assert hits(search, query) == ["one"], query
            assert search.search(query).hits[0].why
        for query in ("orders", "ord*", "x" * 64, "h:orders", f"{run}x*", "tags:orders"):
            assert hits(search, query) == [], query


def test_what_a_query_was_read_as_is_told_where_nothing_was_found(catalog: Search) -> None:
    assert "`tags:nosuch`" in catalog.search("tag:nosuch").note
    shown = catalog.search("dataset:default/orders").note
    assert "metajournal show dataset:default/orders" in shown
    assert "in double quotes" in catalog.search("https://nobody.example/one").note
    assert catalog.search("orders tag:nosuch").note == catalog.search("tags:nosuch").note == ""
    assert catalog.search("orders --- \U0001f680").note == (
        "Ignored, since it contains no letter or digit: --- \U0001f680."
    )
    assert catalog.search("orders ---").total == catalog.search("orders").total


@pytest.mark.parametrize(
    "options", [{"namespace": "x" * 100_000}, {"kinds": ["x" * 40_000]}, {"kinds": [f"k{n}" for n in range(70_000)]}]
)
def test_what_elasticsearch_does_not_take_is_a_query_error(catalog: Search, options: dict[str, object]) -> None:
    with pytest.raises(InvalidQueryError, match="Elasticsearch does not accept this search: "):
        catalog.search("a", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidQueryError, match="Elasticsearch does not accept this search: "):
        catalog.suggest_names("x" * 100_000)


@pytest.mark.parametrize(
    "options",
    [
        {"limit": -1}, {"limit": 1001}, {"limit": "x"}, {"limit": True}, {"limit": 1.5}, {"sort": "size"}, {"sort": 5},
        {"scope": "user"}, {"scope": 5}, {"namespace": 5}, {"kinds": 5}, {"kinds": [5]}, {"kinds": b"x"}, {"tenant": 5},
        {"namespace": ""}, {"kinds": ""}, {"kinds": ["dataset", ""]}, {"kinds": []}, {"kinds": set()}, {"tenant": ""},
        {"facets": "yes"}, {"timeout_s": "x"}, {"timeout_s": -1}, {"timeout_s": float("nan")},
    ],
)  # fmt: skip
def test_wrong_options_are_named(catalog: Search, options: dict[str, object]) -> None:
    with pytest.raises(InvalidQueryError, match=next(iter(options))):
        catalog.search("*", **options)  # type: ignore[arg-type]


def test_a_query_or_prefix_that_is_no_text_is_named(catalog: Search) -> None:
    for wrong in (5, None, b"x", ["x"]):
        with pytest.raises(InvalidQueryError, match="query must be text"):
            catalog.search(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidQueryError, match="prefix must be text"):
            catalog.suggest_names(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidQueryError, match="limit"):
        catalog.suggest_keys("x", limit="5")  # type: ignore[arg-type]


def test_words_under_a_key_of_characters_that_elasticsearch_counts_twice_are_found(
    elasticsearch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document from before they were counted so is found by the words by which it was found."""
    settings, key, word = own_index(elasticsearch), "\U0001f680" * 100, "w" * 64
    load(settings, [state(dataset("default", "new"), user={key: f"{word} other"}, offset=1)])
    monkeypatch.setattr(keys, "_utf16_units", len)
    keys.key_of.cache_clear()
    load(settings, [state(dataset("default", "old"), user={key: f"{word} other"}, offset=2)])
    monkeypatch.undo()
    keys.key_of.cache_clear()
    with Search(settings) as search:
        for asked in (f"{key}:{word}", f'{key}:"{word} other"', f"{key}:{word[:50]}*", f"{key[:90]}*:{word}"):
            assert "new" in [hit.name for hit in search.search(asked).hits], asked[100:]
        for asked in (f"{key}:other", f"{key}:oth*", f"{key[:90]}*:other"):
            assert {hit.name for hit in search.search(asked).hits} == {"new", "old"}


def test_what_may_be_read_may_begin_with_a_long_urn(elasticsearch: str) -> None:
    """Elasticsearch takes no prefix of 1,000 bytes; a right's pattern may have 1,024."""
    settings = own_index(elasticsearch)
    long, other = dataset("default", "x" * 1_000), dataset("default", "x" * 900)
    load(settings, [state(long, offset=1), state(other, offset=2)])
    with Search(settings) as search:
        for size in (920, 1_005, len(long)):
            seen = search.search("*", within=[Within(None, starts=(long[:size],))])
            assert [hit.urn for hit in seen.hits] == [long]


# --- changes


def test_old_values_removed_tags_and_deleted_entities_no_longer_hit(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    entity = dataset("default", "things")
    load(settings, [state(entity, user={"owner": "ann"}, tags=["old"], offset=1)])
    with Search(settings) as search:
        assert search.search("owner:ann tags:old").total == 1
        load(settings, [state(entity, user={"owner": "bob"}, offset=2)])
        assert search.search("owner:ann").total == 0
        assert search.search("tags:old").total == 0
        assert search.search("owner:bob").total == 1
        load(settings, [state(entity, deleted=True, offset=3)])
        assert search.search("*").total == 0
        load(settings, [state(entity, user={"owner": "bob"}, offset=2)])  # late
        assert search.search("*").total == 0
        load(settings, [state(entity, offset=4)])
        assert search.search("*").total == 1


@hypothesis_settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(12)), st.lists(st.integers(0, 11), max_size=6))
def test_late_repeated_and_shuffled_states_give_the_same_index(
    elasticsearch: str, order: list[int], again: list[int]
) -> None:
    states = [
        state(dataset("default", f"d{number % 3}"), user={"n": f"v{number}"}, offset=number, deleted=number == 10)
        for number in range(12)
    ]
    settings = own_index(elasticsearch)
    for number in [*order, *again]:
        load(settings, [states[number]])
    with Search(settings) as search:
        values = {hit.name: hit.document["user"]["properties"]["n"] for hit in search.search("*").hits}
    client = make_client(settings)
    client.indices.delete(index=f"{settings.elasticsearch.index}-000001")
    client.close()
    assert values == {"d0": "v9", "d2": "v11"}


def test_the_largest_entities_are_indexed_whole(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    cases = [
        {**worst, "urn": str(dataset("default", f"w{number}")), "name": f"w{number}"}
        for number, worst in enumerate(worst_cases().values())
    ]
    writer = load(settings, cases)
    assert (writer.counts.indexed, writer.counts.reduced) == (len(cases), 0)
    with Search(settings) as search:
        assert search.search('"a b a b" AND').hits[0].name == "w0"
        assert search.search(f"{'ключ' * 14}:a").total == 1
        assert search.search("k39999:v").total == 1
        assert search.search("schema:f11999:int").total == 1
        assert search.search("tags:tag-39999").total == 1


def test_a_document_that_is_refused_is_indexed_in_its_reduced_form_and_counted(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    bad = state(dataset("default", "bad"), tags=["x" * 40_000], offset=1)
    good = state(dataset("default", "good"), tags=["x"], offset=2)
    writer = load(settings, [bad, good])
    assert (writer.counts.indexed, writer.counts.reduced) == (2, 1)
    with Search(settings) as search:
        (hit,) = search.search("bad").hits
        assert "immense term" in (hit.unindexed or "")
        assert search.search("good").hits[0].unindexed is None


# --- pages


def test_pages_skip_and_double_nothing_while_writes_go_on(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    names = [f"d{number:03d}" for number in range(53)]
    load(settings, [state(dataset("default", name), offset=1) for name in names])
    seen: list[str] = []
    with Search(settings) as search:
        page = search.search("*", limit=10)
        while True:
            assert page.total == 53
            seen += [hit.name for hit in page.hits]
            if page.cursor is None:
                break
            number = len(seen)
            fresh = [state(dataset("default", f"d{number:03d}x"), offset=number)]
            load(settings, [*fresh, state(dataset("default", seen[0]), deleted=True, offset=100 + number)])
            page = search.search("*", limit=10, cursor=page.cursor)
    assert seen == names


def content_of(catalog: Search, cursor: str) -> list[Any]:
    """What the cursor of this name holds."""
    whole = catalog.cursors.whole(cursor)
    assert isinstance(whole, str)
    content: list[Any] = json.loads(base64.urlsafe_b64decode(whole))
    return content


def test_a_cursor_can_be_copied_by_hand_and_goes_on_in_another_process(catalog: Search) -> None:
    first = catalog.search("*", limit=2)
    assert first.cursor is not None
    assert len(first.cursor) <= 60
    with Search(catalog._settings) as other:
        second = other.search("*", limit=100, cursor=first.cursor)
    assert second.note == ""
    assert [hit.urn for hit in (*first.hits, *second.hits)] == sorted(NAME_OF)


def test_a_cursor_belongs_to_its_search(catalog: Search) -> None:
    cursor = catalog.search("*", limit=2).cursor
    assert cursor is not None
    with pytest.raises(InvalidCursorError, match="another search"):
        catalog.search("orders", limit=2, cursor=cursor)
    with pytest.raises(InvalidCursorError, match="another search"):
        catalog.search("*", limit=2, cursor=cursor, tenant="other")
    with pytest.raises(InvalidQueryError, match="limit"):
        catalog.search("*", limit=0, cursor=cursor)
    view, index, after, vector, digest = content_of(catalog, cursor)
    made_up: list[object] = [
        [view, index, [1, 2], vector, digest],
        [view, index, [{"a": 1}, "x"], vector, digest],
        [view, index, [1.0, "x", "y"], vector, digest],
        [["x"], index, after, vector, digest],
        [view, index, after, {"t": 5}, digest],
        [view, index, after, {"nojournal": {"0": 5}}, digest],
        [view, "*", after, vector, digest],
        [view, 5, after, vector, digest],
        *(
            [view, other, after, vector, digest]
            for other in (index.rpartition("-")[0], f"{index}-000001", "other-000001")
        ),
        ["nonsense", index, after, vector, digest],
        ["x" * 100_000, index, after, vector, digest],
        [view + "\n", index, after, vector, digest],
        {"a": 1},
    ]
    texts = [base64.urlsafe_b64encode(json.dumps(content).encode()).decode() for content in made_up]
    for wrong in ("", "nonsense", "é", cursor[:-9], 5, "W" * 9000, *texts):
        with pytest.raises(InvalidCursorError):
            catalog.search("*", limit=2, cursor=wrong)  # type: ignore[arg-type]
    assert catalog.search("*", limit=3, cursor=cursor).hits


@pytest.mark.parametrize("sort", ["relevance", "name:desc", "creation_time", "creation_time:asc"])
def test_a_search_whose_index_is_rebuilt_and_deleted_goes_on_behind_its_last_hit(
    elasticsearch: str, sort: Sort
) -> None:
    settings = own_index(elasticsearch)
    alias, partition = settings.elasticsearch.index, ("metajournal.journal.catalog", 0)
    states = [state(dataset("default", f"d{number:02d} word"), offset=number % 7) for number in range(25)]
    states[3]["system"]["properties"].pop("creation_time")
    load(settings, states, {partition: position(1, 90)})
    client = make_client(settings)
    with Search(settings) as search:
        whole = [hit.urn for hit in search.search("word", limit=100, sort=sort).hits]
        page = search.search("word", limit=10, sort=sort)
        first = [hit.urn for hit in page.hits]
        replaced = replace(settings, elasticsearch=replace(settings.elasticsearch, index=f"{alias}x"))
        rebuilt = concrete_name(alias, 2)
        client.indices.create(index=rebuilt, aliases={f"{alias}x": {"is_write_index": True}}, **index_body())
        load(replaced, states)
        client.indices.update_aliases(
            actions=[
                {"remove_index": {"index": f"{alias}-000001"}},
                {"add": {"index": rebuilt, "alias": alias}},
            ]
        )
        with pytest.raises(NotYetVisibleError):  # never an older state than the first page showed
            search.search("word", limit=10, sort=sort, cursor=page.cursor, timeout_s=2)
        load(replaced, [], {partition: position(1, 91)})
        second = search.search("word", limit=10, sort=sort, cursor=page.cursor)
        third = search.search("word", limit=10, sort=sort, cursor=second.cursor)
    client.close()
    assert "continues after their last hit" in second.note
    assert third.note == ""
    assert [*first, *(hit.urn for hit in (*second.hits, *third.hits))] == whole
    assert third.cursor is None


def test_a_cursor_of_two_quiet_minutes_goes_on_and_says_so(catalog: Search) -> None:
    first = catalog.search("*", limit=5)
    assert first.cursor is not None
    client = make_client(catalog._settings)
    client.close_point_in_time(id=content_of(catalog, first.cursor)[0])  # as two quiet minutes would
    client.close()
    second = catalog.search("*", limit=100, cursor=first.cursor)
    assert "continues after their last hit" in second.note
    assert [hit.urn for hit in (*first.hits, *second.hits)] == sorted(NAME_OF)


@pytest.mark.parametrize("place", [-3, 6, 7, 8])
def test_a_cursor_whose_point_in_time_the_server_fails_to_read_goes_on_and_says_so(catalog: Search, place: int) -> None:
    """Whatever Elasticsearch calls it: of some bytes it says that it could not search just now."""
    first = catalog.search("*", limit=5)
    assert first.cursor is not None
    view, *rest = content_of(catalog, first.cursor)
    data = bytearray(base64.urlsafe_b64decode(view))
    data[place] ^= 1
    torn_view = base64.urlsafe_b64encode(data).decode()
    torn = base64.urlsafe_b64encode(json.dumps([torn_view, *rest]).encode()).decode()
    second = catalog.search("*", limit=100, cursor=torn)
    assert "continues after their last hit" in second.note
    assert [hit.urn for hit in (*first.hits, *second.hits)] == sorted(NAME_OF)


@pytest.mark.parametrize("paged", [False, True], ids=["first page", "page of a cursor"])
def test_a_server_that_fails_is_neither_a_wrong_cursor_nor_a_wrong_query(catalog: Search, paged: bool) -> None:
    cursor = catalog.search("*", limit=5).cursor if paged else None
    message = r"fails to answer \(500 failed\): its disk is gone"
    with (
        failing() as url,
        Search(Settings(elasticsearch=replace(catalog._settings.elasticsearch, url=url))) as search,
        pytest.raises(OperatorError, match=message) as caught,
    ):
        search.search("*", limit=5, cursor=cursor)
    assert caught.value.code == "search-failed"


HUMPED = {
    "accessories": state(
        dataset("shop", "accessories"), user={"about": "new iphone cases, av4_av5"}, tags=["big-data"]
    ),
    "orders": state(
        dataset("shop", "orders"),
        user={"about": "the customerOrders table"},
        tags=["BigData 2"],
        system={"schema": '[["rowId","TimestampMillis"],["shipTo rowNo","int"]]'},
    ),
    "GoesArchive v2": state(dataset("shop", "GoesArchive v2")),
}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("iPhone", ["accessories"]),
        ("aV5", ["accessories"]),
        ("about:aV5", ["accessories"]),
        ("ab*:aV5", ["accessories"]),
        ("iPho*", ["accessories"]),
        ("about:newIphone", ["accessories"]),
        ('"New iPhone" nothing', ["accessories"]),
        ("customerorders", ["orders"]),
        ("CUSTOMERORD*", ["orders"]),
        ('about:"the customerorders"', ["orders"]),
        ('ab*:"customerorders ta"*', ["orders"]),
        ("orders-table", ["orders"]),
        ("bigData", ["orders", "accessories"]),  # one tag of two has it in one word: rarer
        ("tags:bigdata", ["orders"]),
        ("schema:rowid", ["orders"]),
        ("schema:rowNO", ["orders"]),
        ("schema:rowno:int", ["orders"]),
        ("schema:ROWID:timestampmillis", ["orders"]),
        ("schema:rowid:millis", ["orders"]),
        ("goesarchive-v2", ["GoesArchive v2"]),
        ("goesarch*", ["GoesArchive v2"]),
        ("hive", []),  # shorter than words with typing errors are
        ("hone", []),
    ],
)
def test_a_change_of_case_inside_a_word_parts_it_and_does_not(humped: Search, query: str, names: list[str]) -> None:
    results = humped.search(query)
    assert [hit.name for hit in results.hits] == names
    assert all(hit.why for hit in results.hits)


def test_a_word_is_marked_whichever_way_it_was_read(humped: Search) -> None:
    [hit] = humped.search("customerorders orders").hits
    assert "the [customerOrders] table" in [why.marked() for why in hit.why]
    [hit] = humped.search("orders-table").hits
    assert "the customer[Orders table]" in [why.marked() for why in hit.why]


def test_a_name_s_uncut_word_counts_as_a_word_of_the_name(humped: Search) -> None:
    assert {hit.tier for hit in humped.search("v2").hits} == {Tier.NAME_WORDS}
    assert {hit.tier for hit in humped.search("goesarchive-v2").hits} == {Tier.NAME_WORDS}


# --- waiting


def test_at_least_waits_for_the_vector_and_says_how_far_behind_it_is(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    partition = ("metajournal.journal.catalog", 0)
    load(settings, [], {partition: position(1, 5)})
    wanted = Position(*partition, position(1, 7))
    with Search(settings) as search:
        assert search.search("*", at_least=Position(*partition, position(1, 4))).position_vector == {
            partition: position(1, 5)
        }
        with pytest.raises(NotYetVisibleError) as caught:
            search.search("*", at_least=wanted, timeout_s=2)
        assert caught.value.behind == {partition: 3}
        assert "by 3" in caught.value.message
        later = threading.Timer(0.3, load, (settings, [], {partition: position(1, 8)}))
        later.start()
        assert search.search("*", at_least=wanted, timeout_s=20).position_vector == {partition: position(1, 8)}
        assert search.search("*", at_least={partition: position(1, 8)}).total == 0
        later.join()


@pytest.mark.parametrize("wrong", [5, {"a": 1}, {("metajournal.journal.catalog", 0): "x"}, ["x"]])
def test_at_least_that_is_neither_a_position_nor_a_cut_is_refused(catalog: Search, wrong: object) -> None:
    with pytest.raises(InputError, match="at_least") as refused:
        catalog.search("*", at_least=wrong)  # type: ignore[arg-type]
    assert refused.value.code == "wrong-type"


def test_at_least_of_another_journal_is_refused_without_waiting(catalog: Search) -> None:
    topics = catalog._settings.journal.topics
    for topic in ("nojournal", topics.state("catalog"), "another.journal.catalog"):
        with pytest.raises(InvalidPositionError, match=f"This journal has no {topic}/0"):
            catalog.search("*", at_least=Position(topic, 0, position(1, 0)), timeout_s=3600)
    with pytest.raises(InvalidPositionError, match="This journal has no"):
        catalog.search("*", at_least={(topics.journal("catalog"), -1): position(1, 1)}, timeout_s=3600)


def test_where_kafka_does_not_answer_no_topic_of_this_journal_is_refused(
    elasticsearch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one of a domain that joined later, or comes from outside; a cursor holds positions of them all."""
    settings, asked = own_index(elasticsearch), list[float]()
    topics = settings.journal.topics
    domains = ("catalog", *(domain.name for domain in joining()), "games")
    load(settings, CORPUS.values(), {(topics.journal(domain), number): 9 for domain in domains for number in range(3)})

    def away(self: JournalPartitions, timeout_s: float) -> dict[str, int]:
        asked.append(timeout_s)
        return {}

    monkeypatch.setattr(JournalPartitions, "_partition_counts", away)
    with Search(settings) as search:
        page = search.search("*", limit=2)
        assert len(search.search("*", limit=2, cursor=page.cursor).hits) == 2
        assert len(asked) == 1, "the partitions of a topic are asked for together"
        for domain in domains:
            assert search.search("*", limit=0, at_least=Position(topics.journal(domain), 0, 8)).total > 0
        with pytest.raises(InvalidPositionError, match=r"This journal has no another\.journal\.catalog/0"):
            search.search("*", at_least=Position("another.journal.catalog", 0, 8))


def test_at_least_of_a_partition_that_there_is_not_is_refused_and_a_new_one_waited_for(settings: Settings) -> None:
    ensure_topics(settings)
    load(settings, [])
    topic, beyond = settings.journal.topics.journal("catalog"), settings.journal.partitions
    with Search(settings) as search:
        with pytest.raises(InvalidPositionError, match=f"This journal has no {topic}/{beyond}"):
            search.search("*", at_least=Position(topic, beyond, 1), timeout_s=3600)
        with pytest.raises(NotYetVisibleError):  # it is only not indexed yet
            search.search("*", at_least=Position(topic, beyond - 1, position(1, 0)), timeout_s=2)


def test_kafka_is_asked_for_no_partition_that_the_index_shows(
    elasticsearch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, asked = own_index(elasticsearch), list[object]()
    monkeypatch.setattr("metajournal.producers.topics.read_epochs", lambda *_, **__: asked.append(1))
    partition = (settings.journal.topics.journal("catalog"), 0)
    load(settings, [], {partition: position(1, 5)})
    with Search(settings) as search:
        search.search("*", at_least={partition: position(1, 5)})
        with pytest.raises(NotYetVisibleError):
            search.search("*", at_least={partition: position(1, 6)}, timeout_s=2)
    assert not asked


@pytest.mark.parametrize(("slow_s", "error"), [(60.0, NotYetVisibleError), (0.0, SearchUnavailableError)])
def test_a_server_that_said_just_now_how_far_it_is_is_behind_and_not_away(
    elasticsearch: str, monkeypatch: pytest.MonkeyPatch, slow_s: float, error: type[Exception]
) -> None:
    settings, answers = own_index(elasticsearch), iter([read_shown])
    partition = (settings.journal.topics.journal("catalog"), 0)
    load(settings, [], {partition: position(1, 5)})

    def once(client: Elasticsearch, index: str) -> Shown:
        for answer in answers:
            return answer(client, index)
        raise ConnectionTimeout("slow")

    monkeypatch.setattr(waiting, "read_shown", once)
    monkeypatch.setattr(waiting, "_SLOW_S", slow_s)
    with Search(settings) as search, pytest.raises(error):
        search.search("*", at_least={partition: position(1, 6)}, timeout_s=2)


def test_elasticsearch_away_is_waited_for_and_then_said() -> None:
    settings = Settings(elasticsearch=ElasticsearchSettings(url="http://127.0.0.1:9", index="none"))
    with Search(settings) as search, pytest.raises(SearchUnavailableError, match=r"did not answer within 0\.3 s"):
        search.search("*", timeout_s=0.3)


def test_a_server_that_refuses_connections_is_given_up_after_a_second() -> None:
    settings = Settings(elasticsearch=ElasticsearchSettings(url="http://127.0.0.1:9", index="none"))
    with Search(settings) as search, pytest.raises(SearchUnavailableError, match=r"did not answer within 1 s"):
        search.search("*", timeout_s=3600)


def test_a_closed_search_says_that_it_is_closed() -> None:
    search = Search(Settings(elasticsearch=ElasticsearchSettings(url="http://127.0.0.1:9", index="none")))
    search.close()
    for call in (search.search, search.suggest_names, search.suggest_keys):
        with pytest.raises(InputError, match="closed"):
            call("x")


def test_a_missing_index_is_its_own_error(elasticsearch: str) -> None:
    with Search(own_index(elasticsearch)) as search:
        with pytest.raises(IndexMissingError):
            search.search("*")
        with pytest.raises(IndexMissingError):
            search.suggest_names("a")
        with pytest.raises(IndexMissingError):
            search.search("*", at_least=Position("metajournal.journal.catalog", 0, position(1, 0)), timeout_s=2)


def test_an_index_of_another_mapping_is_noticed(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    alias = settings.elasticsearch.index
    client = make_client(settings)
    body = index_body()
    body["mappings"]["_meta"]["metajournal"] = {"version": 0, "digest": "other"}
    client.indices.create(index=f"{alias}-000001", aliases={alias: {}}, **body)
    with pytest.raises(MappingMismatchError, match="version 0"):
        ensure_index(client, alias)
    with Search(settings) as search, pytest.raises(MappingMismatchError, match="needs version"):
        search.search("*")
    client.close()


def test_an_index_of_somebody_else_is_not_to_be_deleted(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    alias = settings.elasticsearch.index
    client = make_client(settings)
    client.indices.create(index=f"{alias}-000001", aliases={alias: {}})
    with pytest.raises(MappingMismatchError, match="is not metajournal's") as caught:
        ensure_index(client, alias)
    assert caught.value.hint.startswith("Choose another name")
    client.close()


# --- completion


def test_names_and_keys_are_completed_for_the_tenant_only(catalog: Search) -> None:
    assert catalog.suggest_names("ORD") == [Suggestion("orders", 1), Suggestion("orders_loader", 1)]
    assert catalog.suggest_names("cafe z") == [Suggestion("Café Zürich", 1)]
    assert catalog.suggest_names("orders_deleted") == []
    assert catalog.suggest_names("orders", tenant="other") == [Suggestion("orders", 1)]
    assert catalog.suggest_keys("own") == [Suggestion("owner", 5), Suggestion("ownerMail", 1)]
    assert catalog.suggest_keys("own", scope="SYSTEM") == [Suggestion("owner", 1)]
    assert catalog.suggest_keys("creation") == [Suggestion("creation_time", len(FINDABLE))]
    assert catalog.suggest_keys("creation", scope="USER") == []
    assert len(catalog.suggest_keys("", limit=3)) == 3
    every = {
        key for findable in FINDABLE.values() for scope in ("user", "system") for key in findable[scope]["properties"]
    }
    assert {entry.text for entry in catalog.suggest_keys("", limit=500)} == every


def test_completion_of_a_name_that_is_gone_goes_too(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    many = [
        state(dataset("default", f"n{number:04d}"), user={f"k{number:04d}": "v"}, offset=1) for number in range(130)
    ]
    load(settings, many)
    load(settings, [{**document, "deleted": True, "logical_timestamp": position(1, 2)} for document in many[:120]])
    with Search(settings) as search:
        assert [entry.text for entry in search.suggest_names("n", limit=4)] == ["n0120", "n0121", "n0122", "n0123"]
        assert [entry.text for entry in search.suggest_keys("K01", limit=4)] == ["k0120", "k0121", "k0122", "k0123"]


def test_completion_finds_the_living_behind_thousands_that_are_gone(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    dead = [
        state(dataset("d", f"zdead-{number:05d}"), user={f"zkey-{number:05d}": "v"}, offset=1) for number in range(1200)
    ]
    living = [state(dataset("d", f"zdead-z{n}"), user={f"zkey-z{n}": "v"}, system={"zkey-z1": "v"}) for n in range(70)]
    load(settings, dead + living)
    load(settings, [{**document, "deleted": True, "logical_timestamp": position(1, 2)} for document in dead])
    names, keys = (sorted(f"{begun}-z{n}" for n in range(70)) for begun in ("zdead", "zkey"))
    with Search(settings) as search:
        assert [entry.text for entry in search.suggest_names("zdead", limit=100)] == names
        assert [entry.text for entry in search.suggest_names("zdead", limit=60)] == names[:60]
        assert search.suggest_keys("ZKEY", limit=100)[1] == Suggestion("zkey-z1", 70)
        assert [entry.text for entry in search.suggest_keys("ZKEY", limit=100)] == keys
        assert search.suggest_names("zdead-0") == []


def test_completions_are_in_alphabetical_order_and_a_text_comes_before_what_goes_on(elasticsearch: str) -> None:
    settings = own_index(elasticsearch)
    names = [
        "cats",
        "cats 1",
        "cats!",
        "cats\t2",
        "cats-1",
        "cats-10",
        "cats-2",
        "cats.x",
        "cats0",
        "Cats=",
        "catsÄ",
        "catsz",
    ]
    load(settings, [state(dataset("d", name), user={name: "v"}, offset=1) for name in names])
    with Search(settings) as search:
        expected = sorted(names, key=fold)
        assert expected[0] == "cats"
        assert [entry.text for entry in search.suggest_names("CATS", limit=100)] == expected
        assert [entry.text for entry in search.suggest_keys("cats", limit=100)] == expected
        assert [entry.text for entry in search.suggest_names("cats", limit=2)] == expected[:2]
        assert [hit.name for hit in search.search("cats*", sort="name", limit=100).hits] == expected
