"""Metadata is text: whatever stands in names, tags, keys, values, descriptions, schemas, actors and questions, pages
show it, and no element, attribute, script or style comes of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from metajournal import EntityRegistered, PropertiesSet, TagsAdded, dataset
from metajournal.gateway.templates import linked, raw, visible
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser, Element, logged_in, member, parsed
from tests.gateway.indexed import index
from tests.gateway.serving import Served, served

pytestmark = pytest.mark.services
HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)",
    "</textarea><svg onload=x>", "</title><base href=//evil.example>", "{{ 7 * 7 }}{% raw %}", "javascript:alert(1)",
    "<!-- x", "]]>", "&lt;b&gt;",
    "</style><style>*{display:none}", "\u202egnp.exe", "a\u0000\u001b[31m\u200b\ufeff", "http://a\"onclick=x", "--><b>",
)  # fmt: skip
ELEMENTS = {
    "html", "head", "meta", "title", "link", "body", "a", "header", "nav", "ul", "ol", "li", "form", "label", "input",
    "span", "button", "main", "h1", "h2", "h3", "p", "section", "table", "thead", "tbody", "tr", "th", "td", "code",
    "pre", "div", "textarea", "details", "summary", "mark", "select", "option", "strong", "ins", "del",
    "script", "output", "dialog", "dl", "dt", "dd", "kbd", "figure", "figcaption", "wbr",
    "fieldset", "legend",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "name", "content", "rel", "href", "class", "id", "aria-label", "aria-current", "action",
    "method", "role", "for", "type", "placeholder", "maxlength",
    "size", "list", "src", "defer", "hx-get",
    "hx-trigger", "hx-target", "hx-sync", "value", "required", "scope", "autocomplete",
    "selected", "checked", "hidden", "min", "max", "step", "aria-haspopup", "aria-labelledby", "aria-live",
    "data-part", "data-hits", "data-feed", "data-after", "data-from", "data-list", "data-who",
    "data-urn", "aria-selected", "data-address", "data-text", "data-states", "data-graph", "data-nodes",
}  # fmt: skip


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        yield running


@pytest.fixture(scope="module")
def root(server: Served, gateway_settings: Settings) -> Browser:
    """Somebody at pages about entities all of whose texts are hostile."""
    for number, text in enumerate(HOSTILE):
        actor = text if text.isprintable() and len(text) < 200 else None
        schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": text, "type": "string", "doc": text}]})
        entity = dataset(text, text)
        server.journal.emit(EntityRegistered(entity, text, schema, {text: text, "owner": text}, [text]), actor=actor)
        server.journal.emit(PropertiesSet(entity, {text: text + "2", "plain": f"see {text}"}), actor=actor)
        server.journal.emit(TagsAdded(entity, [f"t{number} {text}"], scope="SYSTEM"), actor=actor)
    server.journal.flush()
    index(server, gateway_settings)
    return logged_in(server, member(server.journal, "root", ("admin", "*")))


def harmless(page: Element) -> Counter[str]:
    """The elements of a page, which are those that templates have; no link leads to another site by itself."""
    elements = page.all()
    assert {one.name for one in elements} <= ELEMENTS
    for one in elements:
        assert set(one.attributes) <= ATTRIBUTES, one.attributes
        for name in ("href", "action", "data-feed", "data-from", "data-address", "data-states", "data-graph"):
            address = one.attributes.get(name)
            assert address is None or (address.startswith(("/", "#")) and not address.startswith("//")), address
    (icon, sheet), scripts = page.all("link"), page.all("script")
    base = str(sheet.attributes["href"]).removesuffix("/style.css")
    assert re.fullmatch("/assets/[0-9a-f]{16}", base)
    assert icon.attributes == {"rel": "icon", "href": f"{base}/icon.svg", "type": "image/svg+xml"}
    assert sheet.attributes == {"rel": "stylesheet", "href": f"{base}/style.css"}
    assert [one.attributes for one in scripts] == [
        {"src": f"{base}/htmx-2.0.11.min.js", "defer": None}, {"src": f"{base}/page.js", "type": "module"}
    ]  # fmt: skip
    assert not any(one.text for one in scripts)
    for one in elements:
        assert one.attributes.get("hx-get", "/suggest") == "/suggest", one.attributes
    return Counter(one.name for one in elements)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_an_entity_of_hostile_texts_makes_no_element(root: Browser, text: str) -> None:
    address = quote(str(dataset(text, text)), safe="")
    page = root.page(f"/entity?urn={address}")
    harmless(page)
    shown = visible(text)
    assert page.all("h1")[0].text == shown
    assert shown in [item.text.partition("\n")[0].strip() for item in page.all("li")] or text != text.strip()
    kept = [area.text.removeprefix("\n") for area in page.all("textarea")]
    assert (f"see {text}" in kept) == ("\0" not in text)  # no form can hold that
    harmless(root.page(f"/history?urn={address}"))
    harmless(root.page(f"/diff?urn={address}"))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_question_of_hostile_text_makes_no_element(root: Browser, text: str) -> None:
    for path, names in (
        ("/search", ("query", "namespace", "kind", "scope", "sort", "cursor")), ("/keys", ("prefix", "after")),
        ("/event", ("event",)), ("/login", ("next",)), ("/register", ("entity",)), ("/entity", ("urn",)), ("/", ("x",)),
        ("/history", ("urn", "before")), ("/diff", ("urn", "from", "to")),
    ):  # fmt: skip
        for name in names:
            answer = root.get(f"{path}?{urlencode({name: text})}")
            if answer.status != 303:
                assert answer.headers["content-type"] == "text/html; charset=utf-8"
                harmless(parsed(answer.body))
    harmless(parsed(root.get(f"/{quote(text, safe='')}").body))
    harmless(parsed(root.get(f"/assets/0/{quote(text, safe='')}").body))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_forms_of_hostile_texts_make_no_element(root: Browser, text: str) -> None:
    page = root.page("/register")
    token = str(page.all("input", name="token")[0].attributes["value"])
    for path, fields in (
        ("/register", {"urn": text}), ("/register", {"urn": "dataset:h/x", "properties": text}),
        ("/register", {"urn": "dataset:lake/d0", "description": text}), ("/edit/dataset:lake/d0", {"do": text}),
        ("/edit/dataset:lake/d0", {"do": "set", "expected": "1", "key": "k", "value": text, "seen": quote(text + "x")}),
        ("/edit/dataset:lake/d0", {"do": "set", "expected": text}), ("/login", {"key": text, "next": text}),
        ("/delete/dataset:lake/d0", {"expected": "1", "named": text}),
    ):  # fmt: skip
        answer = root.send(path, {"token": token, **fields})
        assert answer.status in (303, 400, 401, 412, 422, 429), (path, fields, answer.status)
        if answer.status != 303:
            harmless(parsed(answer.body))


def test_search_and_first_page_show_hostile_hits_and_facets_as_text(root: Browser) -> None:
    for path in ("/", "/search", "/search?query=alert", "/search?query=see&sort=name", "/keys", "/search?query=tags:*"):
        page = root.page(path)
        harmless(page)
    shown = root.page("/keys").all("main")[0].text
    assert all(visible(text) in shown for text in HOSTILE)
    marks = [mark.text for mark in root.page("/search?query=alert").all("mark")]
    assert "alert" in marks


def test_links_lead_to_web_addresses_alone() -> None:
    assert str(linked("https://a.example/x?y=1&z=2#f")) == (
        '<a href="https://a.example/x?y=1&amp;z=2#f" rel="noreferrer noopener nofollow">'
        "https://a.example/x?y=1&amp;z=2#f</a>"
    )
    for text in (
        "javascript:alert(1)", "data:text/html,x", "//a.example", "HTTPS://a", "http://", "http:///x", "ftp://a.example",
        "https://bank.example@evil.example/", "https://a.example/ x", 'https://a.example/"x', "https://a.example/\u202e",
        "https://a.example/<b>", "see https://a.example", "http://[", "https://a.example\n",
    ):  # fmt: skip
        assert "<a" not in str(linked(text)), text


@pytest.mark.parametrize(
    "code", [0, 8, 0x1B, 0x7F, 0x85, 0xAD, 0x61C, 0x200B, 0x200E, 0x202E, 0x2028, 0x2066, 0xFEFF, 0xE0041]
)
def test_characters_that_are_not_seen_are_shown_as_their_numbers(code: int) -> None:
    assert visible(f"a{chr(code)}b") == f"a⟨U+{code:04X}⟩b"
    assert chr(code) in str(raw(f"a{chr(code)}b"))
