"""Facets in any order of arrival make the same of an entity: the latest of each stands."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.urns import dataset, run
from metajournal.domains.lineage.facets import (
    Described,
    Side,
    described,
    described_run,
    harmless,
    without_secrets,
)
from metajournal.domains.lineage.kept import (
    AGAIN_MS,
    MOST_BYTES,
    MOST_SCHEMA_BYTES,
    TIMES,
    Facet,
    Omitted,
    _known_schema,
    facets_of,
    together,
    update_of,
)
from metajournal.domains.lineage.remembered import GOOD_S, Remembered
from tests.builders import NOON
from tests.properties import examples

ORDERS = dataset("shop", "orders")
_TEXTS = ("a", "b", "c")


def facets(step_ms: int) -> st.SearchStrategy[list[Facet]]:
    """Facets of one entity at a few times, those of readers and removals too."""

    def made(name: str, text: str | None, at: int, is_input: bool) -> Facet:
        key = {"schema": "schema", "documentation": "description"}.get(name, f"openlineage.{name}")
        stopgap = is_input and key in ("schema", "description") and text is not None
        return Facet(name, key, text, NOON + at * step_ms, stopgap)

    names, texts = st.sampled_from(["schema", "documentation", "sql"]), st.sampled_from([*_TEXTS, None])
    return st.lists(st.builds(made, names, texts, st.integers(0, 5), st.booleans()), min_size=1, max_size=12)


def modelled(said: Sequence[Facet]) -> dict[str, str]:
    """What stands: of those who write the latest; without any, of those who read the earliest."""
    stands: dict[str, str] = {}
    for name in {facet.name for facet in said}:
        own = [facet for facet in said if facet.name == name]
        writers, readers = [one for one in own if not one.is_stopgap], [one for one in own if one.is_stopgap]
        last = max(writers, key=lambda one: one.standing) if writers else min(readers, key=lambda one: (
            one.at_ms, [-byte for byte in one.standing.digest]))  # fmt: skip
        if last.text is not None:
            stands[last.key] = last.text
    return stands


def applied(properties: dict[str, str], said: Sequence[Facet], memory: Remembered | None) -> dict[str, str]:
    """The properties after some facets that came together."""
    news = said if memory is None else memory.compared("default", ORDERS, said).news
    update, stood = update_of(properties, news)
    if memory is not None:
        memory.hold("default", ORDERS, stood)
    if update is None:
        return properties
    kept = {key: value for key, value in properties.items() if key not in update.removed}
    return {**kept, **update.properties}


def cut(said: Sequence[Facet], data: st.DataObject) -> list[Sequence[Facet]]:
    """Pieces of a list, in order."""
    pieces, start = [], 0
    while start < len(said):
        end = start + data.draw(st.integers(1, 4))
        pieces.append(said[start:end])
        start = end
    return pieces


@settings(max_examples=examples(400), deadline=None)
@given(facets(1000), st.data())
def test_any_order_gives_the_same_in_a_process_that_remembers(said: list[Facet], data: st.DataObject) -> None:
    memory, properties = Remembered(), dict[str, str]()
    for piece in cut(data.draw(st.permutations(said)), data):
        properties = applied(properties, piece, memory)
    assert {key: value for key, value in properties.items() if key != TIMES} == modelled(said)
    assert all(applied(properties, [facet], memory) == properties for facet in said), "sent again, nothing changes"


@settings(max_examples=examples(400), deadline=None)
@given(facets(AGAIN_MS), st.data(), st.integers(1, 3))
def test_any_order_gives_the_same_where_nothing_is_remembered(
    said: list[Facet], data: st.DataObject, most: int
) -> None:
    """As long as what is said again is said an hour later; whatever little is remembered, and the times too."""
    results = []
    for memory in (None, Remembered(most)):
        properties: dict[str, str] = {}
        for piece in cut(data.draw(st.permutations(said)), data):
            properties = applied(properties, piece, memory)
        results.append(properties)
        assert {key: value for key, value in properties.items() if key != TIMES} == modelled(said)
    assert results[0] == results[1]


@pytest.mark.thorough
@settings(max_examples=examples(200), deadline=None)
@given(facets(1000), st.data())
def test_what_somebody_else_says_stands_before_readers_alone(said: list[Facet], data: st.DataObject) -> None:
    foreign = {"schema": "theirs", "description": "theirs", "openlineage.sql": "theirs"}
    memory, properties = Remembered(), dict(foreign)
    for piece in cut(data.draw(st.permutations(said)), data):
        properties = applied(properties, piece, memory)
    own = modelled([facet for facet in said if not facet.is_stopgap])
    written = {facet.key for facet in said if not facet.is_stopgap}
    for key, value in foreign.items():
        assert properties.get(key) == (own.get(key) if key in written else value)


def test_a_facet_that_stands_moves_its_time_by_an_hour_at_least() -> None:
    def one(at_ms: int) -> Facet:
        return Facet("sql", "openlineage.sql", "a", at_ms)

    first = applied({}, [one(NOON)], None)
    assert json.loads(first[TIMES]) == {"sql": NOON}
    assert applied(first, [one(NOON + AGAIN_MS - 1)], None) == first
    assert json.loads(applied(first, [one(NOON + AGAIN_MS)], None)[TIMES]) == {"sql": NOON + AGAIN_MS}


@pytest.mark.parametrize(
    "written", ["", "[]", "null", '{"sql": "soon"}', '{"sql": {"input": []}}', "{", '{"sql": true}']
)
def test_times_that_somebody_else_wrote_are_no_times(written: str) -> None:
    after = applied({TIMES: written}, [Facet("sql", "openlineage.sql", "a", NOON)], None)
    assert (after["openlineage.sql"], json.loads(after[TIMES])) == ("a", {"sql": NOON})


def test_memory_is_bounded() -> None:
    memory = Remembered(100)
    for number in range(300):
        facet = [Facet("sql", "openlineage.sql", "a", NOON)]
        _, stood = update_of({}, facet)
        refused = None if 150 <= number < 250 else "too-large"
        memory.hold("default", dataset("shop", str(number)), stood, refused)
    compared = [memory.compared("default", dataset("shop", str(number)), facet) for number in range(300)]
    assert [bool(one.news) for one in compared] == [True] * 200 + [False] * 100
    assert [bool(one.omitted) for one in compared] == [False] * 250 + [True] * 50
    assert len(memory._refused) == 50


def test_what_stands_is_looked_up_again_after_a_minute_and_what_is_earlier_is_not() -> None:
    """The entity may have been deleted and registered again meanwhile; what is refused is not tried each minute."""
    now_s = [0.0]
    memory = Remembered(clock=lambda: now_s[0])
    first = Facet("sql", "openlineage.sql", "a", NOON)
    again, between = first._replace(at_ms=NOON + 2), first._replace(text="b", at_ms=NOON + 1)
    properties = applied({}, [first], memory)
    assert applied(properties, [again], memory) == properties
    now_s[0] = GOOD_S - 1
    assert memory.compared("default", ORDERS, [again]) == ([], [])
    now_s[0] = GOOD_S
    assert memory.compared("default", ORDERS, [first]) == ([], [])
    assert memory.compared("default", ORDERS, [between]) == ([], []), "it would stand before what was said later"
    assert applied({}, [again], memory)["openlineage.sql"] == "a", "the entity was registered anew"
    assert memory.compared("default", ORDERS, [again]) == ([], [])
    memory.hold("default", ORDERS, update_of({}, [between])[1], "too-large")
    now_s[0] = 3 * GOOD_S
    assert memory.compared("default", ORDERS, [again]) == ([], [Omitted("sql", "too-large")])


def test_tenants_and_entities_are_remembered_apart() -> None:
    memory, facet = Remembered(), [Facet("sql", "openlineage.sql", "a", NOON)]
    memory.hold("default", ORDERS, update_of({}, facet)[1])
    assert memory.compared("default", ORDERS, facet).news == []
    assert memory.compared("another", ORDERS, facet).news == facet
    assert memory.compared("default", dataset("shop", "other"), facet).news == facet


def test_what_was_not_kept_is_told_until_it_is_kept_or_forgotten() -> None:
    memory = Remembered()
    facet = Facet("sql", "openlineage.sql", "a", NOON)
    later = facet._replace(text="b", at_ms=NOON + 1)
    _, stood = update_of({}, [facet])
    memory.hold("default", ORDERS, stood, "too-large")
    assert memory.compared("default", ORDERS, [facet]) == ([], [Omitted("sql", "too-large")])
    assert memory.compared("default", ORDERS, [facet, later]) == ([later], [])
    memory.hold("default", ORDERS, update_of({}, [later])[1])
    assert memory.compared("default", ORDERS, [facet]) == ([], [])
    memory.forget("default", ORDERS, [facet])
    assert memory.compared("default", ORDERS, [facet]) == ([facet], [])


EVENT: dict[str, Any] = {
    "eventType": "COMPLETE", "eventTime": "2026-01-01T12:00:00Z",
    "run": {"runId": "r1", "facets": {"parent": {"run": {"runId": "r0"}}, "metajournal_run": {"status": "FAILED"}}},
    "job": {"namespace": "airflow", "name": "load", "facets": {"sql": {"query": "select 1"}}},
    "inputs": [{"namespace": "s3://lake", "name": "raw", "facets": {"schema": {"fields": [{"name": "id"}]}}}],
    "outputs": [{
        "namespace": "s3://lake", "name": "orders", "outputFacets": {"outputStatistics": {"rowCount": 3}},
        "facets": {
            "documentation": {"description": "Bought"}, "schema": {"fields": []},
            "dataSource": {"name": "shop", "uri": "postgres://carol:geheim@db/shop?password=geheim"},
        },
    }],
}  # fmt: skip


def kept(one: Described) -> dict[str, str | None]:
    return {facet.key: facet.text for facet in facets_of(one, NOON)[0]}


def test_each_facet_becomes_a_property_of_whom_it_describes() -> None:
    raw, orders, job = described(EVENT)
    assert (raw.side, kept(raw)) == (Side.INPUT, {"schema": '[["id","unknown"]]'})
    assert kept(orders) == {
        "description": "Bought",
        "openlineage.dataSource": '{"name":"shop","uri":"postgres://db/shop"}',
        "openlineage.outputStatistics": '{"rowCount":3}',
    }
    assert kept(job) == {"openlineage.sql": '{"query":"select 1"}'}
    of_run = described_run(EVENT)
    assert (of_run.entity, kept(of_run)) == (
        run("airflow", "load", "workflow", "load", "r1"), {"openlineage.parent": '{"run":{"runId":"r0"}}'}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "facet", "reason"),
    [
        ("sql", {"query": "x" * MOST_BYTES}, "too-large"),
        ("times", {"sql": 0}, "not-a-name"),
        ("x" * 1100, {"a": 1}, "not-a-name"),
        ("\ud800", {"a": 1}, "not-a-name"),
        ("", {"a": 1}, "not-a-name"),
        ("odd", {"a": float("nan")}, "not-json"),
        ("odd", {"a": "\ud800"}, "not-json"),
        ("documentation", {"description": "\ud800"}, "not-json"),
        ("documentation", {"description": "x" * 300_000}, "too-large"),
    ],
)
def test_what_cannot_be_kept_is_named(name: str, facet: Any, reason: str) -> None:
    assert facets_of(Described(ORDERS, Side.OUTPUT, {name: facet}), NOON) == ([], [Omitted(name, reason)])


SECRET = "geheim"
SPOKEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dataSource": (
        {"name": "postgres://carol:geheim@db:5432", "uri": "postgres://carol:geheim@db/shop?password=geheim"},
        {"name": "postgres://db:5432", "uri": "postgres://db/shop"},
    ),
    "sourceCodeLocation": (
        {"type": "git", "url": "https://carol:geheim@github.com/acme/etl", "repoUrl": "https://geheim@github.com/acme"},
        {"type": "git", "url": "https://github.com/acme/etl", "repoUrl": "https://github.com/acme"},
    ),
    "catalog": (
        {"metadataUri": "thrift://u:geheim@a:9083,thrift://u:geheim@b:9083", "warehouseUri": "s3://b/w?token=geheim"},
        {"metadataUri": "thrift://a:9083,thrift://b:9083", "warehouseUri": "s3://b/w"},
    ),
    "symlinks": (
        {"identifiers": [{"namespace": "hive://u:geheim@db", "name": "a"}, {"namespace": "s3a://b", "name": "b"}]},
        {"identifiers": [{"namespace": "hive://db", "name": "a"}, {"namespace": "s3a://b", "name": "b"}]},
    ),
    "columnLineage": (
        {"fields": {"total": {"inputFields": [{"namespace": "mssql://db;password=geheim", "name": "a", "field": "b"}]}},
         "dataset": [{"namespace": "mysql://db?password=geheim", "name": "a", "field": "c"}]},
        {"fields": {"total": {"inputFields": [{"namespace": "mssql://db", "name": "a", "field": "b"}]}},
         "dataset": [{"namespace": "mysql://db", "name": "a", "field": "c"}]},
    ),
}  # fmt: skip
"""Facets as they are sent, and as they are kept."""


@pytest.mark.parametrize("name", SPOKEN)
def test_addresses_in_facets_lose_their_secrets_and_the_rest_stays(name: str) -> None:
    said, expected = SPOKEN[name]
    orders = {**EVENT["outputs"][0], "facets": {name: said}, "outputFacets": {}}
    (one,) = [one for one in described({**EVENT, "inputs": [], "outputs": [orders]}) if one.side is Side.OUTPUT]
    (text,) = kept(one).values()
    assert json.loads(text or "") == expected
    assert SECRET in json.dumps(said)


@pytest.mark.parametrize(
    "odd",
    [{}, {"identifiers": None}, {"identifiers": "a"}, {"identifiers": [5, {}, []]}, {"identifiers": {"namespace": "a"}},
     {"identifiers": [{"namespace": None}]}],
)  # fmt: skip
def test_facets_of_another_shape_are_kept_as_they_are(odd: dict[str, Any]) -> None:
    assert harmless("symlinks", odd) == odd
    assert harmless("symlinks", {"identifiers": [{"namespace": ["geheim"]}]}) == {"identifiers": [{"namespace": None}]}


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("git@github.com:acme/etl.git", "github.com:acme/etl.git"),
        ("git@github.com:acme/etl.git?token=geheim", "github.com:acme/etl.git"),
        ("carol:geheim@github.com:acme/etl.git", ""),
        ("ssh://git@github.com/acme/etl.git", "ssh://github.com/acme/etl.git"),
        ("sqlserver://db;user=u;password=p@geheim", "sqlserver://db"),
        ("jdbc:mysql://u:geheim@db/shop;password=geheim", "mysql://db/shop"),
        ("sqlite:///data/shop.db?key=geheim", "sqlite:///data/shop.db"),
        ("Driver=x;PWD = geheim", ""),
    ],
)
def test_an_address_of_any_form_is_kept_without_secrets(address: str, shown: str) -> None:
    assert without_secrets(address) == shown
    assert without_secrets(shown) == shown


def test_of_data_that_are_read_and_written_by_one_event_stands_what_was_written() -> None:
    """Whichever text has the greater digest; of what was read stays what is said of nothing written."""
    for read, written in (("1", "2"), ("2", "1")):
        sides = [(Side.INPUT, {"version": {"datasetVersion": read}, "storage": {}}),
                 (Side.OUTPUT, {"version": {"datasetVersion": written}})]  # fmt: skip
        for order in (sides, sides[::-1]):
            said = [(side, facets_of(Described(ORDERS, side, facets), NOON)[0]) for side, facets in order]
            assert applied({}, together(said), None)["openlineage.version"] == f'{{"datasetVersion":"{written}"}}'
            assert applied({}, together(said), None)["openlineage.storage"] == "{}"


@pytest.mark.parametrize("side", [Side.INPUT, Side.OUTPUT])
def test_what_a_run_says_of_data_as_it_had_them_stands_and_the_other_one_is_named(side: Side) -> None:
    own, other = ("inputFacets", "outputFacets")[:: 1 if side is Side.INPUT else -1]
    said = {"namespace": "n", "name": "d", "facets": {"x": {"a": 1}, "y": {"a": 1}, "z": {"a": 1}},
            own: {"x": {"a": 2}, "y": {"a": 1}}, other: {"x": {"a": 3}}}  # fmt: skip
    (one,) = [one for one in described({f"{side}s": [said]}) if one.side is side]
    assert kept(one) == {"openlineage.x": '{"a":2}', "openlineage.y": '{"a":1}', "openlineage.z": '{"a":1}'}
    assert set(facets_of(one, NOON)[1]) == {Omitted("x", "twice")}


def test_what_cannot_be_kept_does_not_stand_before_what_can() -> None:
    huge = ("x", {"a": "x" * MOST_BYTES})
    found, left_out = facets_of(Described(ORDERS, Side.OUTPUT, {"x": {"a": 1}}, [huge]), NOON)
    assert ([facet.text for facet in found], left_out) == (['{"a":1}'], [Omitted("x", "too-large")])


def test_a_schema_whose_nested_names_are_far_longer_than_itself_is_given_up_early() -> None:
    nested = {"fields": [{"name": "n" * 100_000, "fields": [{"name": "a"}] * 8_000}]}
    deep: dict[str, Any] = {"name": "leaf"}
    for _ in range(200):
        deep = {"name": "n" * 1_000, "fields": [deep]}
    tracemalloc.start()
    try:
        for facet in (nested, {"fields": [deep]}):
            left_out = facets_of(Described(ORDERS, Side.OUTPUT, {"schema": facet}), NOON)
            assert left_out == ([], [Omitted("schema", "too-large")])
        assert tracemalloc.get_traced_memory()[1] < 16 * MOST_SCHEMA_BYTES
    finally:
        tracemalloc.stop()


def test_a_schema_is_read_once_though_each_column_says_that_none_is_in_it() -> None:
    """As OpenLineage's client for Python writes columns; the text is the same as without, and each time."""
    columns = [{"name": f"read_once_{number}", "type": "int", "fields": []} for number in range(3)]
    before = _known_schema.cache_info()
    said = [facets_of(Described(ORDERS, Side.OUTPUT, {"schema": {"fields": columns}}), NOON)[0] for _ in range(3)]
    after = _known_schema.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 2)
    assert [one.text for one in said[0]] == ['[["read_once_0","int"],["read_once_1","int"],["read_once_2","int"]]']
    assert said[1] == said[2] == said[0]


def test_a_schema_that_json_cannot_carry_is_left_out_each_time() -> None:
    facet = {"fields": [{"name": "a", "type": "int"}], "more": float("nan")}
    for _ in range(2):
        left_out = facets_of(Described(ORDERS, Side.OUTPUT, {"schema": facet}), NOON)
        assert left_out == ([], [Omitted("schema", "not-json")])


def test_schemas_that_are_longer_than_what_says_them_are_not_remembered() -> None:
    held = _known_schema.cache_info().currsize
    nested = {"fields": [{"name": "n" * 10_000, "fields": [{"name": f"a{number}"} for number in range(20)]}]}
    assert len(facets_of(Described(ORDERS, Side.OUTPUT, {"schema": nested}), NOON)[0]) == 1
    assert _known_schema.cache_info().currsize == held


def test_the_largest_facet_is_kept() -> None:
    room = MOST_BYTES - len('{"query":""}')
    found, left_out = facets_of(Described(ORDERS, Side.OUTPUT, {"sql": {"query": "x" * room}}), NOON)
    assert ([len(facet.text or "") for facet in found], left_out) == ([MOST_BYTES], [])


def test_more_facets_than_one_event_may_carry_are_left_out() -> None:
    found, left_out = facets_of(Described(ORDERS, Side.OUTPUT, {f"f{one}": {} for one in range(700)}), NOON)
    assert (len(found), {one.reason for one in left_out}) == (500, {"too-many"})
