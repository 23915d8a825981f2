"""What a browser does with pages, without JavaScript: keeps a cookie, reads HTML, sends forms with what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from metajournal import Journal
from tests.gateway.serving import Asked, Got
from tests.wait import eventually

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass
class Element:
    """An element: its name, its attributes, and what is in it."""

    name: str
    attributes: dict[str, str | None]
    children: list[Element | str] = field(default_factory=list)

    def all(self, name: str | None = None, /, **wanted: str) -> list[Element]:
        """The elements within it, in their order."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if name in (None, child.name) and all(child.attributes.get(key) == wanted[key] for key in wanted):
                    found.append(child)
                found += child.all(name, **wanted)
        return found

    @property
    def text(self) -> str:
        """The text in it."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].name == tag, f"</{tag}> ends <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def parsed(page: bytes) -> Element:
    """A page's elements; one whose elements are not closed as they were opened is refused."""
    reader = _Reader()
    reader.feed(page.decode())
    reader.close()
    assert len(reader._open) == 1, f"<{reader._open[-1].name}> is not closed"
    return reader.root


class Browser:
    """Somebody at a server's pages.

    Attributes:
        cookie: what the server has it keep; None: nothing.
    """

    def __init__(self, server: Asked, address: str | None = None) -> None:
        self.server = server
        self.address = address
        self.cookie: str | None = None

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Got:
        """Send a request with the cookie, and keep what comes."""
        if self.cookie is not None:
            headers.setdefault("Cookie", self.cookie)
        headers.setdefault("Accept", "text/html")
        answer = self.server.ask(method, path, body, key=None, address=self.address, **headers)
        if "set-cookie" in answer.headers:
            pair, _, _ = answer.headers["set-cookie"].partition(";")
            self.cookie = pair if pair.partition("=")[2] else None
        return answer

    def get(self, path: str, **headers: str) -> Got:
        return self.ask("GET", path, None, **headers)

    def page(self, path: str, status: int = 200) -> Element:
        """A page that is there."""
        answer = self.get(path)
        assert (answer.status, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), answer.body
        return parsed(answer.body)

    def send(self, path: str, fields: dict[str, str], **headers: str) -> Got:
        """Send the fields of a form."""
        return self.ask(
            "POST", path, urlencode(fields).encode(), Content_Type="application/x-www-form-urlencoded", **headers
        )

    def submit(self, form: Element, **fields: str) -> Got:
        """Send a form as it stands, with some of its fields filled in, or by the button of a name and value."""
        held = {one.attributes["name"]: one.attributes.get("value") or "" for one in form.all("input")
                if one.attributes.get("name") and is_sent(one, fields)}  # fmt: skip
        held |= {one.attributes["name"]: one.text.removeprefix("\n") for one in form.all("textarea")}
        for one in form.all("select"):
            chosen = [option for option in one.all("option") if "selected" in option.attributes] or one.all("option")
            held[one.attributes["name"]] = chosen[0].attributes.get("value") or ""
        buttons = {name for name, value in fields.items() if form.all("button", name=name, value=value)}
        assert set(fields) <= {*held, *buttons}, f"the form has {sorted(map(str, held))}"
        action = form.attributes["action"]
        assert action is not None
        return self.send(action, {**{str(name): value for name, value in held.items()}, **fields})

    def log_in(self, key: str, back: str = "/") -> Got:
        """Log in."""
        return self.send("/login", {"key": key, "next": back})


def is_sent(field: Element, filled: dict[str, str]) -> bool:
    """Whether a form sends a field: of boxes those that are ticked."""
    is_box = field.attributes.get("type") == "checkbox"
    return not is_box or "checked" in field.attributes or field.attributes["name"] in filled


def member(journal: Journal, name: str, *grants: tuple[str, str]) -> str:
    """The key of a new principal, by Kafka alone."""
    journal.access.register(name)
    if grants:
        journal.access.grant(name, *grants)
    key, receipt = journal.access.issue_key(name)
    receipt.position  # noqa: B018  (acknowledged)
    return key.text


def logged_in(server: Asked, key: str, address: str | None = None) -> Browser:
    """Somebody who has logged in with a key, once the server has heard of it."""
    browser = Browser(server, address)
    eventually(lambda: server.get("/api/v1/access/me", key=key, address=address).status == 200)
    answer = browser.log_in(key)
    assert answer.status == 303, answer.body
    return browser


def token_of(page: Element) -> dict[str, Any]:
    """The token that a page's forms bear."""
    return {"token": page.all("input", name="token")[0].attributes["value"]}
