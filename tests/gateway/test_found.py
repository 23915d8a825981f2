"""What searches find over a real server, and that nothing shows which its reader may not read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metajournal import EntityRegistered, app, dataset, program, run, stream, urn
from metajournal.gateway import problems
from metajournal.indexer.search.in_steps import AT_ONCE
from metajournal.lake import reading
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.errors import InputError
from metajournal.schemas.settings import Settings
from tests.gateway.reading import pages
from tests.gateway.serving import ADMIN, OTHER, READER, TEAM_A, Served, served
from tests.indexer.corpus import state
from tests.indexer.loading import load

ENTITIES = [f"dataset:{space}/{name}" for space in ("team-a", "team-ab") for name in ("orders", "parts", "orders old")]
OF_EACH_TARGET = {
    "dataset": [dataset("cdap", "sales")], "stream": [stream("cdap", "clicks")], "app": [app("cdap", "shop")],
    "program": [program("cdap", "shop", "spark", "sums"), program("cdap", "other", "flow", "sums")],
}  # fmt: skip
HEAVY = [dataset("heavy", f"h{number:03}") for number in range(230)]
"""Of 23 MB."""
OF_NO_TARGET = [run("cdap", "shop", "spark", "sums", "r1"), urn("report", "cdap", "weekly"), dataset("cdap2", "apart")]


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    """With an index of two teams' datasets, and of one entity or two of each kind of the source's."""
    ensure_topics(gateway_settings)
    with served(gateway_settings) as running:
        states = [
            state(urn.replace(" ", "%20"), user={f"key-{urn[8:]}": "shared word"}, offset=number)
            for number, urn in enumerate(ENTITIES)
        ]  # fmt: skip
        described = [one for ones in (*OF_EACH_TARGET.values(), OF_NO_TARGET) for one in ones]
        states += [
            state(one, user={"owner": f"Ada-{one.kind}", "region": "north"}, tags=["gdpr"], offset=100 + number)
            for number, one in enumerate(described)
        ]
        states += [
            state(one, user={"heavy": "x" * 100_000}, system={"order": str(number)}, offset=200 + number)
            for number, one in enumerate(HEAVY)
        ]
        load(gateway_settings, states)
        yield running


def test_what_hints_call_otherwise_still_stands_in_them() -> None:
    """Else nothing would be said in the words of HTTP any longer, and no other test would tell."""
    said = Path(reading.__file__).read_text("utf-8")
    for there, here in problems._OVER_HTTP.items():
        assert there in said
        assert problems.hint_of(InputError("x", hint=f"Use {there}.")) == f"Use {here}."


def test_what_to_do_is_said_in_the_words_of_http(server: Served) -> None:
    answer = server.get("/api/v1/history/dataset:lake/nobody")
    assert answer.status == 404
    assert "pass its position as the header Metajournal-At-Least" in answer.json["hint"]
    assert "--" not in answer.json["hint"]


def test_searches_that_wait_for_the_index_hold_no_other_read_up(server: Served) -> None:
    """As many of them as there are threads, of several askers; a read of the lake is answered before any of them."""
    ahead, done = str(server.journal.emit(EntityRegistered(dataset("not", "indexed"))).position), []

    def search(key: str) -> None:
        answer = server.get("/api/v1/search?query=shared", key=key, Metajournal_At_Least=ahead)
        done.append((answer.status, answer.json["code"]))

    keys = [ADMIN, ADMIN, ADMIN, READER, READER, READER, TEAM_A, TEAM_A]
    threads = [threading.Thread(target=search, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    answer = server.get("/api/v1/history/dataset:lake/d0")
    assert (answer.status, done) == (200, [])
    for thread in threads:
        thread.join()
    assert done == [(503, "not-yet-visible")] * len(keys)
    for path in ("names?prefix=o", "keys?prefix=key"):
        assert server.get(f"/api/v1/suggest/{path}", Metajournal_At_Least=ahead).status == 503


def found(server: Served, query: str, **more: Any) -> list[str]:
    answer = server.get(f"/api/v1/search?{query}", **more)
    assert answer.status == 200, answer.body
    return [hit["urn"] for hit in answer.json["hits"]]


def test_a_word_is_found_and_paged(server: Served) -> None:
    first = server.get("/api/v1/search?query=shared&limit=4")
    assert (first.json["total"], len(first.json["hits"])) == (6, 4)
    link = first.headers["link"]
    assert link.endswith('; rel="next"')
    second = server.get(link[1 : link.index(">")])
    assert {hit["urn"] for hit in first.json["hits"] + second.json["hits"]} == {
        urn.replace(" ", "%20") for urn in ENTITIES
    }
    assert "link" not in second.headers


def test_who_may_read_a_part_finds_that_part(server: Served) -> None:
    """Hits, total, facets and completions are those of a journal that has nothing else."""
    answer = server.get("/api/v1/search?query=shared&facets=true", key=TEAM_A)
    assert {hit["urn"].split("/")[0] for hit in answer.json["hits"]} == {"dataset:team-a"}
    assert answer.json["total"] == 3
    assert b"team-ab" not in answer.body
    names = server.get("/api/v1/suggest/names?prefix=o", key=TEAM_A)
    assert {one["text"]: one["entities"] for one in names.json} == {"orders": 1, "orders old": 1}
    keys = server.get("/api/v1/suggest/keys?prefix=key", key=TEAM_A)
    assert b"team-ab" not in keys.body
    assert len(keys.json) == 3


def test_completions_are_paged(server: Served) -> None:
    first = server.get("/api/v1/suggest/keys?prefix=key&limit=4")
    link = first.headers["link"]
    second = server.get(link[1 : link.index(">")])
    assert len({one["text"] for one in first.json + second.json}) == 6


def test_a_cursor_of_somebody_else_gives_nothing(server: Served) -> None:
    link = server.get("/api/v1/search?query=shared&limit=1", key=READER).headers["link"]
    answer = server.get(link[1 : link.index(">")], key=TEAM_A)
    assert answer.status == 400
    assert b"team-ab" not in answer.body


def test_another_tenant_finds_nothing(server: Served) -> None:
    assert found(server, "query=shared", key=OTHER) == []


def test_the_sources_search_gives_names_of_a_namespace(server: Served) -> None:
    at = "/v3/namespaces/team-a/metadata/search?query=shared"
    assert sorted(server.get(at).json) == ["orders", "orders old", "parts"]
    assert server.get(f"{at}&target=stream").json == []
    assert server.get(f"{at}&target=other").status == 400
    assert server.get("/v3/namespaces/team-ab/metadata/search?query=shared", key=TEAM_A).json == []


@pytest.mark.parametrize("target", OF_EACH_TARGET)
def test_the_sources_search_of_a_target_gives_names_of_that_kind_alone(server: Served, target: str) -> None:
    """Source: "Search Datasets containing business metadata" and the three behind it: value and key:value prefixes."""
    at, name = "/v3/namespaces/cdap/metadata/search", OF_EACH_TARGET[target][0].name
    for query in ("ada-*", f"ada-{target}", "owner:ada*", f"owner:Ada-{target}", "region:north", "gdpr", "tags:gd*"):
        assert server.get(f"{at}?query={query}&target={target}").json == [name], query
    others = next(one for one in OF_EACH_TARGET if one != target)
    for query in (f"owner:Ada-{others}", "region:south", "owner:north*"):
        assert server.get(f"{at}?query={query}&target={target}").json == [], query


def test_the_sources_search_of_no_target_gives_names_of_all_its_kinds_page_by_page(server: Served) -> None:
    at, every = "/v3/namespaces/cdap/metadata/search", {ones[0].name for ones in OF_EACH_TARGET.values()}
    for of_all in ("", "&target=all"):
        assert sorted(server.get(f"{at}?query=region:north{of_all}").json) == sorted(every)
    paged = [name for page in pages(server, f"{at}?query=region:north&limit=2") for name in page]
    assert set(paged) == every


def test_a_page_of_large_entities_ends_early_and_goes_on_behind_its_last(server: Served) -> None:
    """Whatever limit is asked for, an answer has a bound; counts of all hits stand where they were asked for."""
    at = "/api/v1/search?query=heavy:x*&sort=name&facets=true"
    read = [*pages(server, f"{at}&limit=1000")]
    assert [len(page["hits"]) for page in read] == [AT_ONCE, AT_ONCE, len(HEAVY) - 2 * AT_ONCE]
    assert [hit["urn"] for page in read for hit in page["hits"]] == HEAVY
    assert [page["total"] for page in read] == [len(HEAVY)] * 3
    assert [page["facets"]["kind"] for page in read] == [[{"value": "dataset", "hits": len(HEAVY)}]] * 3
    few = server.get(f"{at}&limit=150").json
    assert (few["facets"], [hit["urn"] for hit in few["hits"]]) == (read[0]["facets"], HEAVY[:AT_ONCE])


def test_the_sources_search_has_all_names_of_large_entities(server: Served) -> None:
    """The source has no pages: who asks for names gets all of them, however large their entities are."""
    at, names = "/v3/namespaces/heavy/metadata/search?query=heavy:x*", {one.name for one in HEAVY}
    whole = server.get(at)
    assert ({*whole.json}, len(whole.json), "link" in whole.headers) == (names, len(HEAVY), False)
    paged = [*pages(server, f"{at}&limit=110")]
    assert ([len(page) for page in paged], {name for page in paged for name in page}) == ([110, 110, 10], names)


@pytest.mark.parametrize("query", ["limit=0x", "limit=-1", "limit=1001", "sort=best", "facets=1", "cursor=x", "x=1"])
def test_questions_that_are_none(server: Served, query: str) -> None:
    answer = server.get(f"/api/v1/search?{query}")
    assert (answer.status, bool(answer.json["hint"])) == (400, True)


def test_what_the_index_does_not_show_yet_is_not_answered(server: Served) -> None:
    """A position that the index has not reached is waited for, and then the answer says how far behind it is."""
    position = server.post("/api/v1/entities/dataset:team-a/late").headers["metajournal-position"]
    answer = server.get("/api/v1/search?query=late", Metajournal_At_Least=position)
    assert (answer.status, answer.json["code"]) == (503, "not-yet-visible")
    assert int(answer.headers["retry-after"]) >= 1
