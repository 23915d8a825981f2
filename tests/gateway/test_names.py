"""Names of any characters, of every kind that the gateway serves: each goes through every path of the API and through
every page that takes it, and the links of these pages lead where they say. What a kind cannot have is refused in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from urllib.parse import quote, urlencode

import pytest

from metajournal import program, urn
from metajournal.domains.files.recording import file_record
from metajournal.domains.files.urns import file_urn
from metajournal.gateway.templates import visible
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.limits import MAX_URN_BYTES
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from tests.gateway.browsing import Browser, Element, logged_in, member, parsed
from tests.gateway.indexed import index
from tests.gateway.serving import Got, Served, served
from tests.repositories.staying import committed, created
from tests.wait import eventually

pytestmark = pytest.mark.services
NAMES: Final = {
    "slash": "a/b", "percent": "100%", "encoded slash": "%2F", "encoded twice": "%252F", "dots": "..", "dot": ".",
    "query": "?x=1", "fragment": "#top", "not seen": "\u202egröße Δ\u2066x", "control": "a\0b\r\nX: y",
    "signs": "run:a + b&=;v\\x",
}  # fmt: skip
LONGEST: Final = "longest"
KINDS: Final = ("dataset", "stream", "app", "program", "run", "report", "file")
WITH_LINEAGE: Final = ("dataset", "stream", "program", "run")
AT: Final = "/api/v1"
AT_MS: Final = 1_700_000_000_000


def named(kind: str, name: str, namespace: str) -> Urn:
    """An entity of such names; of a file, whose server and program have names of their own, the id alone."""
    if kind == "file":
        return file_urn("web01", "syslog", name)
    names = {"program": (namespace, name, "spark", name), "run": (namespace, name, "spark", name, name)}
    return urn(kind, *names.get(kind, (namespace, name)))


def longest(kind: str) -> Urn:
    """An entity whose URN has as many bytes as one can have."""
    short = named(kind, "a", "long")
    return urn(kind, *short.parts[:-1], short.name + "x" * (MAX_URN_BYTES - len(short)))


ENTITIES: Final = {
    **{what: {kind: named(kind, name, name) for kind in KINDS} for what, name in NAMES.items()},
    LONGEST: {kind: longest(kind) for kind in KINDS},
}
"""By what is odd about their names, and by kind."""
EACH: Final = pytest.mark.parametrize("what", ENTITIES)


def part(name: str) -> str:
    return quote(name, safe="")


def ways(of: Urn) -> tuple[str, str]:
    """How an address ends that names an entity: by its path, each part of it encoded once, and by its query."""
    return f"/{of.kind}:{'/'.join(map(part, of.parts))}?", f"?{urlencode({'urn': str(of)})}&"


def source_at(of: Urn) -> str:
    """Where the source's addresses have an entity."""
    forms = {"app": "apps/{}", "program": "apps/{}/{}/{}", "run": "apps/{}/{}/{}/runs/{}"}
    namespace, *others = map(part, of.parts)
    return f"/v3/namespaces/{namespace}/{forms.get(of.kind, of.kind + 's/{}').format(*others)}"


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    own = replace(gateway_settings, journal=replace(gateway_settings.journal, custom_kinds=("report",)))
    ensure_topics(own)
    with served(own, real=True) as running:
        yield running


@pytest.fixture(scope="module")
def key(server: Served) -> str:
    found = member(server.journal, "root", ("admin", "*"))
    eventually(lambda: server.get(f"{AT}/access/me", key=found).status == 200)
    return found


@pytest.fixture(scope="module")
def told(server: Served, key: str, gateway_settings: Settings) -> None:
    """All of them, written over HTTP by their paths, but for files; folded and indexed."""
    files = [of[kind] for of in ENTITIES.values() for kind in of if kind == "file"]
    server.journal.files.record(
        file_record(f"s3://archive/{number}", {
            "start": AT_MS + number, "end": AT_MS + number, "where": "web01", "what": "syslog", "data-version": "0",
            "id": of.name, "hash": f"{number:032x}", "work_id": "job-1"}, size=1, created=AT_MS)
        for number, of in enumerate(files)
    )  # fmt: skip
    for of in ENTITIES.values():
        for kind in ("dataset", "stream", "app", "program", "report"):
            by_path, _ = ways(of[kind])
            assert server.post(f"{AT}/entities{by_path}", {"tags": ["named"]}, key=key).status == 201, of[kind]
        assert server.post(f"{source_at(of['stream'])}?{urlencode({'source': 'x'})}", key=key).status == 200
        namespace, application, kind, name, run_id = of["run"].parts
        access = {
            "programRun": {
                "namespace": namespace, "app": application, "programType": kind, "name": name, "runId": run_id},
            "data": {"namespace": namespace, "type": "DATASET", "name": of["dataset"].name}, "accessType": "READ",
        }  # fmt: skip
        assert server.post("/v3/metadata/history", access, key=key).status == 200
    by_path, _ = ways(program("long", "a", "spark", "a"))
    assert server.post(f"{AT}/entities{by_path}", key=key).status == 201, "whose the longest run is"
    index(server, gateway_settings)


@pytest.fixture(scope="module")
def root(server: Served, key: str, told: None) -> Browser:
    return logged_in(server, key)


def got(server: Served, path: str, key: str) -> Got:
    answer = server.get(path, key=key)
    assert answer.status == 200, (path, answer.body)
    return answer


@EACH
def test_any_name_goes_through_every_address_of_its_entity(server: Served, key: str, told: None, what: str) -> None:
    for kind, of in ENTITIES[what].items():
        for way in ways(of):
            if kind != "run":
                found = got(server, f"{AT}/entities{way}", key).json
                assert found["urn"] == str(of)
                assert {one["urn"] for one in got(server, f"{AT}/history{way}", key).json} == {str(of)}
                assert got(server, f"{AT}/diff{way}", key).json["to"]["urn"] == str(of)
    of_run = ENTITIES[what]["run"]
    for way in ways(of_run):
        assert got(server, f"{AT}/run{way}", key).json["run"] == str(of_run)
        (access,) = got(server, f"{AT}/accesses{way}", key).json["accesses"]
        assert access["data"] == str(ENTITIES[what]["dataset"])


@EACH
def test_any_name_goes_through_every_address_of_the_source(server: Served, key: str, told: None, what: str) -> None:
    name = NAMES.get(what, "x" * 255)
    for kind in ("dataset", "stream", "app", "program"):
        at = f"{source_at(ENTITIES[what][kind])}/metadata"
        assert server.post(f"{at}/tags", [name], key=key).status == 200, at
        assert server.post(f"{at}/properties", {name: name}, key=key).status == 200, at
        assert got(server, at, key).json == {"properties": {name: name}, "tags": sorted([name, "named"])}
        assert server.delete(f"{at}/tags/{part(name)}", key=key).status == 200
        assert server.delete(f"{at}/properties/{part(name)}", key=key).status == 200
        assert got(server, at, key).json == {"properties": {}, "tags": ["named"]}
        got(server, f"{at}/properties/system", key)
    accesses = f"{source_at(ENTITIES[what]['run'])}/metadata/accesses"
    assert [one["data"] for one in got(server, accesses, key).json] == [str(ENTITIES[what]["dataset"])]


@EACH
def test_any_name_goes_through_lineage(server: Served, key: str, told: None, what: str) -> None:
    of = ENTITIES[what]
    namespace, application, kind, name, _ = of["run"].parts
    by, data = program(namespace, application, kind, name), of["dataset"]
    for way in ways(by):
        assert [one["run"] for one in got(server, f"{AT}/runs{way}", key).json["runs"]] == [str(of["run"])]
    window = "start=0&end=now%2B1h"
    for path in (*(f"{AT}/lineage{way}{window}" for way in ways(data)), f"{source_at(data)}/lineage?{window}"):
        answer = got(server, path, key).json
        assert [one["urn"] for one in answer["programs"].values()] == [str(by)]
        assert [one["urn"] for one in answer["data"].values()] == [str(data)]
    body = {"start": 0, "end": "now+1h", "maxLevels": 1, "after": [*answer["data"]]}
    following = server.post(f"{source_at(data)}/lineage/next", body, key=key)
    assert (following.status, [*following.json["programs"]]) == (200, [*answer["programs"]])
    got(server, f"{source_at(of['stream'])}/lineage?{window}", key)


def links_of(page: Element) -> set[str]:
    """Where a page leads to within the gateway."""
    found = {str(link.attributes["href"]) for link in page.all("main")[0].all("a") if "href" in link.attributes}
    return {address for address in found if address.startswith("/")}


def assert_led(root: Browser, pages: list[Element]) -> None:
    """Every link of some pages leads to a page that is there."""
    for address in set[str]().union(*map(links_of, pages)):
        assert root.get(address).status == 200, address


@EACH
def test_any_name_has_its_pages_and_their_links_lead_on(root: Browser, what: str) -> None:
    pages = list[Element]()
    for kind, of in ENTITIES[what].items():
        shown, found = visible(of.name), list[Element]()
        by_path, by_query = ways(of)
        if kind != "run":
            found += [root.page(f"/{page}{by_query}") for page in ("entity", "history", "diff")]
            assert found[0].all("h1")[0].text == root.page(f"/entity{by_path}").all("h1")[0].text == shown, of
            assert root.get(f"/states{by_query}").status == 200
        if kind in WITH_LINEAGE:
            found.append(root.page(f"/lineage{by_path}end=now%2B1h"))
        if kind in ("dataset", "stream"):
            assert root.get(f"/graph{by_query}end=now%2B1h").status == 200
        texts = [page.all("main")[0].text for page in found]
        assert all(str(of) in text or f"Run {shown}" in text for text in texts), of
        pages += found
    assert_led(root, pages)


def test_a_search_finds_any_name_and_its_hits_lead_there(server: Served, key: str, root: Browser) -> None:
    of_all = {str(of[kind]) for of in ENTITIES.values() for kind in ("dataset", "stream", "app", "program", "report")}
    hits = got(server, f"{AT}/search?query=tags:named&limit=1000", key).json["hits"]
    assert {hit["urn"] for hit in hits} == of_all
    for name in NAMES.values():
        names = got(server, f"{AT}/suggest/names?{urlencode({'prefix': name, 'limit': 100})}", key).json
        assert name in [one["text"] for one in names], repr(name)
    for name in NAMES.values():
        assert_led(root, [root.page(f"/search?{urlencode({'query': 'tags:named', 'namespace': name})}")])


def test_archived_files_of_any_id_are_listed_and_lead_to_their_pages(server: Served, key: str, root: Browser) -> None:
    files = {str(of["file"]) for of in ENTITIES.values()}
    query = "where=web01&what=syslog&start=1970-01-01&end=2030-01-01"
    assert {one["file"] for one in got(server, f"{AT}/files?{query}", key).json["files"]} == files
    assert_led(root, [root.page(f"/files?{query}")])


PATHS: Final = (*(name for name in NAMES.values() if "\0" not in name), "a//b", "a\r\nX: y", "x" * 900)
"""Paths of objects; none can hold NUL."""


def test_objects_of_any_path_are_listed_compared_and_lead_on(server: Served, key: str, root: Browser) -> None:
    created(server.journal, "odd")
    main = server.journal.repositories["odd"].branch("main")
    head = committed(main, "first")
    server.journal.repositories["odd"].branch("feature/x.y-1_z").create(head).position  # noqa: B018  (waits)
    committed(main, *PATHS)
    server.fold()
    at = f"{AT}/repositories/odd"
    every = sorted([*PATHS, "first"], key=str.encode)
    assert [one["path"] for one in got(server, f"{at}/objects?ref=main", key).json["items"]] == every
    branch = part("feature/x.y-1_z")
    assert [one["path"] for one in got(server, f"{at}/objects?ref={branch}", key).json["items"]] == ["first"]
    differences = got(server, f"{at}/diff?left=main&right={branch}", key).json["items"]
    assert [one["path"] for one in differences] == sorted(PATHS, key=str.encode)
    for before, path in zip(["", *every], every, strict=False):
        by_prefix = got(server, f"{at}/objects?{urlencode({'ref': 'main', 'prefix': path})}", key).json["items"]
        assert path in [one["path"] for one in by_prefix], repr(path)
        cursor = urlencode({"ref": "main", "limit": 1, **({"cursor": before} if before else {})})
        assert [one["path"] for one in got(server, f"{at}/objects?{cursor}", key).json["items"]] == [path]
    pages = [
        root.page(f"/repositories/odd{below}")
        for below in ("", f"?ref={branch}", "/objects?ref=main", f"/diff?left=main&right={branch}",
                      *(f"/objects?{urlencode({'ref': 'main', 'prefix': path})}" for path in PATHS))
    ]  # fmt: skip
    assert all(visible(path) in pages[3].all("main")[0].text for path in PATHS)
    assert_led(root, pages)


def test_objects_of_any_path_are_written_and_found_over_http_but_for_nul(server: Served, key: str) -> None:
    """A path is text and no place, so `..` is itself; NUL is refused by its field, and where a question names it."""
    created(server.journal, "over-http")

    def written(*paths: str) -> Got:
        entries = [{"path": one, "size": 1, "checksum": "c", "address": "s3://b/x"} for one in paths]
        event = {"type": "repositories.ObjectsWritten.1", "branch": "branch:over-http/main", "entries": entries}
        return server.post(f"{AT}/events", event, key=key)

    paths = ["%00", "%2F", "%2f", "..", "../../etc", "/..", "a/../b", "a/..", "./a"]
    assert written(*paths).status == 200, written(*paths).body
    for nul in ("\0", "a\0b", "a/\0"):
        refused = written("good", nul)
        assert (refused.status, refused.json["code"]) == (400, "invalid-event")
        assert [(one["field"], one["message"]) for one in refused.json["faults"]] == [
            ("entries[1].path", "must not hold NUL")
        ]
    server.fold()
    at = f"{AT}/repositories/over-http"
    assert [one["path"] for one in got(server, f"{at}/objects?ref=main", key).json["items"]] == sorted(paths)
    for path in paths:
        found = got(server, f"{at}/objects?{urlencode({'ref': 'main', 'prefix': path})}", key).json["items"]
        assert path in [one["path"] for one in found]
        assert all(one["path"].startswith(path) for one in found)
    for asked in (
        "objects?ref=main&prefix=a%00",
        "objects?ref=main&cursor=%00",
        "diff?left=main&right=main&prefix=%00",
    ):
        refused = server.get(f"{at}/{asked}", key=key)
        assert (refused.status, refused.json["code"]) == (400, "bad-path"), asked
        assert "NUL" in refused.json["hint"]


REFUSED: Final = {**NAMES, "long": "x" * 1_000}
"""Names that no repository, principal or role can have, nor a server or program of archived files."""


@pytest.mark.parametrize("what", REFUSED)
def test_a_name_that_its_kind_cannot_have_is_refused_in_words(
    server: Served, key: str, root: Browser, what: str
) -> None:
    name = part(REFUSED[what])
    asked = ("", "/branches", "/log?ref=main", "/objects?ref=main", "/diff?left=main&right=main")
    addresses = [f"{AT}/repositories/{name}{below}" for below in asked]
    addresses += [f"{AT}/access/principals/{name}", f"{AT}/access/principals/{name}/keys"]
    addresses += [f"{AT}/repositories/odd/log?ref={name}", f"{AT}/entities/dataset:a/{name}{'x' * 1_000}"]
    for path in addresses:
        answer = server.get(path, key=key)
        assert answer.status in (400, 404), (path, answer.body)
        assert answer.headers["content-type"] == "application/problem+json"
        assert len(answer.json["detail"]) > 15, path
        assert len(answer.json["hint"]) > 10, path
    for path in (f"{AT}/access/principals/{name}", f"{AT}/access/roles/{name}"):
        body = {"actions": ["ReadEntity"]} if "roles" in path else None
        assert server.post(path, body, key=key).status == 400, path
    for path in (f"/repositories/{name}", f"/repositories/odd/objects?ref={name}", f"/access/principals/{name}"):
        refused = root.get(path)
        assert refused.status in (400, 404), path
        assert parsed(refused.body).all("main")[0].all("h1")


@pytest.mark.parametrize("name", ["%ff", "%ed%a0%80", "%c0%af", "%00%ff"])
def test_what_is_no_text_is_refused_wherever_a_name_stands(server: Served, key: str, root: Browser, name: str) -> None:
    """Also a slash in more bytes than it needs, and half of a character."""
    for path in (f"{AT}/entities/dataset:a/{name}", f"{AT}/entities?urn=dataset:a/{name}", f"{AT}/repositories/{name}",
                 f"/v3/namespaces/{name}/datasets/d/metadata", f"{AT}/search?query={name}"):  # fmt: skip
        answer = server.get(path, key=key)
        assert (answer.status, answer.json["code"]) == (400, "not-utf-8"), path
    for path in (f"/entity/dataset:a/{name}", f"/repositories/{name}", f"/search?query={name}"):
        assert "is not percent-encoded UTF-8" in root.page(path, 400).all("main")[0].text
