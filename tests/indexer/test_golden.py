"""Golden queries: each form of the grammar, what it finds, in order, and what it must not find."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from functools import partial

import pytest

from metajournal.indexer.search.described import Described
from metajournal.indexer.search.edits import edits_of
from metajournal.indexer.search.explain import matched, near
from metajournal.indexer.search.grammar import Everything, Term, parse
from metajournal.indexer.search.ranking import Tier, plain_word
from metajournal.indexer.search.searching import Search
from metajournal.indexer.search.typos import MOST_MISSPELT
from metajournal.schemas.settings import ElasticsearchSettings, Settings
from tests.indexer.corpus import CORPUS, FINDABLE, NAME_OF
from tests.indexer.loading import load

pytestmark = pytest.mark.services

PII = ("orders", "pairs", "tagged-property", "custom")
ALL = sorted(FINDABLE, key=lambda name: str(FINDABLE[name]["urn"]))

GOLDEN: list[tuple[str, str | None, list[str]]] = [
    # everything
    ("", None, ALL),
    ("  ", None, ALL),
    ("*", None, ALL),
    ("*:*", None, ALL),
    ("*=*", None, ALL),
    # value: whole words and whole values, names before the rest, short texts before long ones, ties by URN
    ("orders", None, ["orders", "loader", "customerOrders", "custom"]),
    ("ORDERS", None, ["orders", "loader", "customerOrders", "custom"]),
    ("order", None, ["pairs"]),
    ("ders", None, []),
    ("customerOrders", None, ["customerOrders"]),
    ("customerorders", None, ["customerOrders"]),
    ("customer", None, ["customerOrders"]),
    ("customer_orders", None, ["customerOrders"]),
    ("orders_customer", None, []),
    ("Baba", None, ["orders"]),
    ('"ali baba"', None, ["orders"]),
    ('"baba ali"', None, []),
    ("ali-baba", None, ["orders"]),
    ("tag33", None, ["noaa-goes16"]),
    ("tag12-tag33", None, ["noaa-goes16"]),
    ("tag12", None, ["noaa-goes16"]),
    ("tag1", None, []),
    ('"[CC BY 4.0]"', None, ["noaa-goes16"]),
    ("[CC", None, ["noaa-goes16"]),
    ('"cc by"', None, ["noaa-goes16"]),
    ('"cc 4"', None, []),
    ("noaa", None, ["noaa-goes16", "noaa_goes.17/raw"]),
    ("noaa-goes16", None, ["noaa-goes16"]),
    ("noaa_goes16", None, ["noaa-goes16"]),
    ("goes.17", None, ["noaa_goes.17/raw"]),
    ("noaa_goes.17/raw", None, ["noaa_goes.17/raw"]),
    ("cafe", None, ["Café Zürich"]),
    ('"cafe zurich"', None, ["Café Zürich"]),
    ("CAFÉ", None, ["Café Zürich"]),
    ("strasse", None, []),
    ("bahnhofstrasse", None, ["Café Zürich"]),
    ("angstrom", None, ["Café Zürich"]),
    ("東京", None, ["Café Zürich"]),
    ("offentlich", None, ["Café Zürich"]),
    ("needle", None, ["archive"]),
    ('"very end"', None, ["archive"]),
    ("sales", None, ["broken", "customerOrders", "pairs"]),
    ("ml-model", None, ["custom"]),
    ("program", None, ["loader"]),
    ("street", None, ["customerOrders"]),
    ("geopoint", None, ["customerOrders"]),
    ("address.street", None, ["customerOrders"]),
    ("shipments", None, ["broken"]),
    ("record", None, []),
    # value*
    ("ord*", None, ["orders", "loader", "customerOrders", "pairs", "custom"]),  # names of fewer words first
    ("customerO*", None, ["customerOrders"]),
    ("noaa-go*", None, ["noaa-goes16", "noaa_goes.17/raw"]),
    ("noaa-*", None, ["noaa-goes16", "noaa_goes.17/raw"]),
    ("noa-*", None, []),
    ("ZÜR*", None, ["Café Zürich"]),
    ('"ali b"*', None, ["orders"]),
    ('"ali*"', None, ["orders", "customerOrders"]),
    ("[CC*", None, ["noaa-goes16"]),
    ("東*", None, ["Café Zürich"]),
    ("zzz*", None, []),
    # several terms: OR, exact name first, then every term, then some: rare words and short texts weigh more
    ("pii orders", None, ["orders", "custom", "loader", "customerOrders", "pairs", "tagged-property"]),
    ("weather raw", None, ["noaa_goes.17/raw", "noaa-goes16"]),
    ("gdpr pii", None, ["pairs", "custom", "orders", "tagged-property"]),  # a value that is rare before common tags
    # boolean
    ("alice AND gdpr", None, []),
    ("alice OR gdpr", None, ["pairs", "customerOrders"]),
    ("pii AND gdpr", None, ["pairs"]),
    ("pii NOT gdpr", None, ["custom", "orders", "tagged-property"]),
    ("pii -gdpr", None, ["custom", "orders", "tagged-property"]),
    ("+pii gdpr", None, ["pairs", "custom", "orders", "tagged-property"]),
    ("+pii +gdpr", None, ["pairs"]),
    ("gdpr OR NOT pii", None, ["pairs", *(name for name in ALL if name not in PII)]),
    ("-pii", None, [name for name in ALL if name not in PII]),
    ("NOT (pii OR orders)", None, [name for name in ALL if name not in (*PII, "loader", "customerOrders")]),
    ("(alice OR gdpr) AND sales", None, ["pairs", "customerOrders"]),
    ("alice AND (gdpr OR sales)", None, ["customerOrders"]),
    ("alice OR gdpr AND sales", None, ["pairs", "customerOrders"]),
    ("alice and", None, ["customerOrders"]),
    ("owner:ali* -team:crm", None, ["orders"]),
    ("tags:pii AND NOT kind:x", None, ["orders", "pairs", "tagged-property"]),
    # typing errors: five letters or more that nothing has
    ("rders", None, ["orders", "customerOrders", "loader", "custom"]),
    ("ordres", None, ["orders", "customerOrders", "loader", "custom"]),
    ("ordre", None, ["pairs"]),
    ("ordr", None, []),
    ("costumer", None, ["customerOrders"]),
    ("bahnhofstrase", None, ["Café Zürich"]),
    ("pii shipmnets", None, ["custom", "orders", "pairs", "tagged-property", "broken"]),
    ("orders shipmnets", "USER", ["orders", "custom", "loader", "customerOrders"]),
    ("-ordres owner:ops", None, ["ingest"]),
    ("owner:alcie", None, []),
    ("alcie*", None, []),
    ("ordre1", None, []),
    # key:value
    ("owner:ali", None, ["orders"]),
    ('owner:"ali baba"', None, ["orders"]),
    ("owner:ali-baba", None, ["orders"]),
    ("owner=alice", None, ["customerOrders"]),
    ("owner : alice", None, ["customerOrders"]),
    ("OWNER: ALICE", None, ["customerOrders"]),
    ("owner:ali*", None, ["orders", "customerOrders"]),
    ('owner:"ali b"*', None, ["orders"]),
    ("own:alice", None, []),
    ("own*:alice", None, ["customerOrders"]),
    ("own*:ali", None, ["orders", "customerOrders"]),
    ("own*:ali*", None, ["orders", "customerOrders"]),
    ("OWN*:ALI*", None, ["orders", "customerOrders"]),
    ('own*:"ali baba"', None, ["orders"]),
    ("own*:ali-b*", None, ["orders"]),
    ("own*:baba-a*", None, []),
    ("*:crm", None, ["customerOrders"]),
    ("team:crm", None, ["customerOrders"]),
    ("team:alice", None, []),
    ("owner:*", None, ["ingest", "orders", "tagged-property", "customerOrders", "Café Zürich"]),
    ("own*:*", None, ["ingest", "orders", "tagged-property", "customerOrders", "Café Zürich"]),
    ("strasse:bahnhofstrasse*", None, ["Café Zürich"]),
    ("region:north_america", None, ["noaa-goes16"]),
    ("region:america", None, ["noaa-goes16"]),
    ("description:ordered", None, ["customerOrders"]),
    ("description:needle", None, ["archive"]),
    ("description:every*", None, ["archive"]),
    ("desc*:needle", None, ["archive"]),
    ("description:orders", None, []),
    ("licence:4.0", None, ["noaa-goes16"]),
    ("path:/var/log/syslog", None, ["tagged-property"]),
    ("path:/var/*", None, ["tagged-property"]),
    ("path:/etc*", None, []),
    ('"key with: signs":a=b', None, ["tagged-property"]),
    ('"key with: signs":*', None, ["tagged-property"]),
    ('"star*":"x*y"', None, ["tagged-property"]),
    ('"star*":"x*"', None, ["tagged-property"]),
    ("sta*:x*", None, ["tagged-property"]),
    ('empty:""', None, ["custom"]),
    # tags
    ("tags:pii", None, ["orders", "pairs", "tagged-property"]),
    ("tags:PII", None, ["orders", "pairs", "tagged-property"]),
    ("TAGS:pii", None, ["orders", "pairs", "tagged-property"]),
    ("tags=gdpr", None, ["pairs"]),
    ("tags:pi", None, []),
    ("tags:p*", None, ["orders", "tagged-property", "pairs"]),
    ("tags:tag33", None, ["noaa-goes16"]),
    ("tags:tag12-t*", None, ["noaa-goes16"]),
    ('tags:"[cc by 4.0]"', None, ["noaa-goes16"]),
    ("tags:donnees", None, ["Café Zürich"]),
    ("tags:crm", None, []),
    ("tags:literal", None, []),
    ('"tags":literal', None, ["tagged-property"]),
    (
        "tags:*",
        None,
        ["archive", "noaa-goes16", "noaa_goes.17/raw", "orders", "tagged-property", "pairs", "Café Zürich"],
    ),
    # properties
    ("properties:owner", None, ["ingest", "orders", "tagged-property", "customerOrders", "Café Zürich"]),
    ("properties:owner*", None, ["ingest", "orders", "tagged-property", "customerOrders", "Café Zürich"]),
    ("properties:ownerM*", None, ["customerOrders"]),
    ("properties:schema", None, ["broken", "customerOrders", "pairs"]),
    ("properties:description", None, ["archive", "customerOrders"]),
    ("properties:alice", None, []),
    ("properties:tags", None, ["tagged-property"]),
    ("properties:*", None, ALL),
    # schema
    ("schema:customerId", None, ["customerOrders"]),
    ("schema:customer", None, ["customerOrders"]),
    ("schema:street", None, ["customerOrders"]),
    ("schema:address.street", None, ["customerOrders"]),
    ("schema:total-amount", None, ["customerOrders"]),
    ("schema:order", None, ["pairs"]),
    ("schema:ord*", None, ["customerOrders", "pairs"]),
    ("schema:customerId:long", None, ["customerOrders"]),
    ("schema:customerId:string", None, []),
    ("schema:e_mail:string", None, ["customerOrders"]),
    ("schema:geoPoint:double", None, ["customerOrders"]),
    ("schema:address.street:string", None, ["customerOrders"]),
    ("schema:address:string", None, []),
    ("schema:order_date:timestamp-millis", None, ["pairs"]),
    ("schema:order*:time*", None, ["pairs"]),
    ("schema:order_id:*", None, ["pairs"]),
    ("schema:*:int", None, ["pairs"]),
    ("schema:shipments", None, ["broken"]),
    ("schema:orders_loader", None, []),
    ("schema:*", None, ["broken", "customerOrders", "pairs"]),
    # scopes: which metadata may match; a name always may
    ("owner:platform", "USER", []),
    ("owner:platform", "SYSTEM", ["tagged-property"]),
    ("tags:pii", "USER", ["orders", "pairs"]),
    ("tags:pii", "SYSTEM", ["tagged-property"]),
    ("tags:*", "SYSTEM", ["archive", "tagged-property"]),
    ("needle", "USER", []),
    ("schema:street", "USER", []),
    ("street", "USER", []),
    ("alice", "SYSTEM", []),
    ("orders", "SYSTEM", ["orders", "loader", "customerOrders"]),
    ("properties:owner", "SYSTEM", ["tagged-property"]),
    # separators only, hostile texts
    ("---", None, []),
    ("-*", None, []),
    (":", None, []),
    ('""', None, []),
    ("--- orders", None, ["orders", "loader", "customerOrders", "custom"]),
    ('{"match_all": {}}', None, []),
    ("/ord.*/", None, []),
    ("orders~2", None, []),
    ("+orders -pii", None, ["loader", "customerOrders"]),
    ('"orders', None, ["orders", "loader", "customerOrders", "custom"]),
    ("ord?rs", None, []),
    ("\x00orders\x00", None, ["orders", "loader", "customerOrders", "custom"]),
    ("\ud800orders", None, ["orders", "loader", "customerOrders", "custom"]),
    ("owner:\ud800", None, []),
    ("_exists_:owner", None, []),
    ("user.keys:owner", None, []),
    ("tenant:other", None, []),
    ("foreign", None, []),
    ("orders_deleted", None, []),
]


@pytest.fixture(scope="module")
def catalog(elasticsearch: str) -> Iterator[Search]:
    """The corpus in an index of its own."""
    settings = Settings(elasticsearch=ElasticsearchSettings(url=elasticsearch, index=f"golden{uuid.uuid4().hex[:8]}"))
    load(settings, CORPUS.values())
    with Search(settings) as search:
        yield search


def _names_found(catalog: Search, query: str, scope: str | None = None) -> list[str]:
    results = catalog.search(query, scope=scope, limit=100)
    assert results.total == len(results.hits)
    return [NAME_OF[hit.urn] for hit in results.hits]


@pytest.mark.parametrize(("query", "scope", "expected"), GOLDEN, ids=lambda value: ascii(value)[:60])
def test_a_golden_query_finds_exactly_this_in_this_order(
    catalog: Search, query: str, scope: str | None, expected: list[str]
) -> None:
    assert _names_found(catalog, query, scope) == expected


@pytest.mark.parametrize(("query", "scope", "expected"), GOLDEN, ids=lambda value: ascii(value)[:60])
def test_the_model_of_explain_agrees_and_every_hit_says_why(
    catalog: Search, query: str, scope: str | None, expected: list[str]
) -> None:
    parsed = parse(query)
    scopes = ("USER", "SYSTEM") if scope is None else (scope,)
    all_described = [Described(findable, scopes) for findable in FINDABLE.values()]  # type: ignore[arg-type]
    misspelt = {
        term: plain_word(term)
        for term in parsed.terms
        if edits_of(plain_word(term)) and not any(matched(term, described) for described in all_described)
    }
    assert len(misspelt) <= MOST_MISSPELT
    for name, findable in FINDABLE.items():
        described = Described(findable, scopes)  # type: ignore[arg-type]
        model = parsed.holds(partial(_matches, described, misspelt))
        assert model == (name in expected), name
    hits = catalog.search(query, scope=scope, limit=100).hits
    assert all(hit.why for hit in hits if hit.tier not in (None, Tier.SOME_TERMS))
    assert all(hit.why for hit in hits) or Everything() in parsed.terms or "NOT" in query or not parsed.terms


def _matches(described: Described, misspelt: Mapping[Term, str], term: Term) -> bool:
    word = misspelt.get(term)
    return bool(matched(term, described)) or (word is not None and any(near(described, word, edits_of(word))))
