"""Pages: from a request to HTML, with the same order as the API's: who, may they, do, answer.

Who: the cookie, and nothing else. What a page declares is asked of rights before anything is read. A form counts with
the token of its sender's session alone, and its event is judged by the fold as any other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from markupsafe import Markup
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from ..client import Journal
from ..schemas.endpoints import READ, Request, Wanted
from ..schemas.errors import (
    InputError,
    NotYetVisibleError,
    OutcomeUnknownError,
    RejectedError,
    UnauthenticatedError,
    UnavailableError,
    UnknownEntityError,
)  # fmt: skip
from ..schemas.pages import Page, Section, Sent, Shown
from ..schemas.positions import Position, cut_of
from ..schemas.registry import domain_named
from ..schemas.settings import GatewaySettings
from ..schemas.urn import Urn
from .addresses import Proxies
from .assets import Assets
from .bodies import BODY_BYTES, Held, aside, read_body
from .conditions import Wish
from .feed.feeds import Feeds
from .feed.reader import Reader
from .feed.reply import feed_reply
from .following import Following
from .limits import Buckets
from .logins import WRITTEN, LoginFailedError, Logins
from .own.changes import AFTER
from .own.rows import points_of, positions_named
from .own_writes import OWN_S, OwnWrites
from .pages.needs import needs_nothing
from .pages.rows import ASSETS, LOGIN, LOGIN_FORM, LOGOUT
from .principals import SESSION, Principal, Principals, allows, check_needs
from .problems import HttpError, Problem, hint_of, status_of, words_of
from .replies import JSON, encoded
from .routing import Router, named_urn, path_parts, query_values
from .sessions import COOKIE_LENGTH, FIELD, Cookies, Visit, check_origin, foreign_form, safe_address
from .table import Table
from .templates import OWN, environment
from .threads import Readers
from .writing import POSITION, Writer

FORM: Final = "application/x-www-form-urlencoded"
_BODY_S: Final = 60.0
_LOGIN_BYTES: Final = 16 * 1024
"""Of a form that anybody may send."""
_HTML: Final = "text/html; charset=utf-8"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SAFE: Final = {
    "Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store", "Vary": "Cookie",
}  # fmt: skip
_HEARD_S: Final = 1.0
"""Seconds for a session that began in another process to be heard of in this one."""
_UNKNOWN: Final = "Look in a moment whether it was done, before you send it again."
"""What to do where Kafka did not acknowledge what a form has sent."""
_CORRECTED: Final = (400, 413)
"""Statuses of what a form's sender can correct."""
_TRIES: Final = 3
"""How often a form is sent whose entity changes elsewhere meanwhile."""


class Exchange(Protocol):
    """What is told of a request, as far as pages learn it."""

    principal: Principal | None
    visit: Visit | None
    urn: Urn | None
    held: Held

    @property
    def logged(self) -> dict[str, Any]:
        """What its lines of the log have."""


class Site:
    """Answers requests for pages.

    Args:
        journal, principals, settings: as of the gateway.
        table: every page, and what domains add to them.
        writer, following, readers, waiters, buckets, feeds: as of the gateway, whose they are.
    """

    def __init__(
        self, journal: Journal, principals: Principals, settings: GatewaySettings, table: Table, *,
        writer: Writer, following: Following, readers: Readers, waiters: Readers, buckets: Buckets, feeds: Feeds,
    ) -> None:  # fmt: skip
        self._journal = journal
        self._principals = principals
        self._settings = settings
        self._writer = writer
        self._following = following
        self._readers = readers
        self._waiters = waiters
        self._buckets = buckets
        self._feeds = feeds
        self._sections = table.sections
        self._menu = [page for page in table.pages if page.menu is not None]
        self._router = Router(table.pages)
        self._assets = Assets(OWN, _SAFE)
        self._templates = environment(journal.epochs.domains, self._assets.base)
        self._cookies = Cookies(settings)
        self._proxies = Proxies(settings.trusted_proxies)
        self._own = OwnWrites()
        domains = filter(None, map(domain_named, journal.epochs.domains))
        self._found = frozenset(one.name for one in domains if one.has_documents)
        self._logins = Logins(journal, principals, writer, settings.wait_s, buckets)

    async def answer(
        self, request: HttpRequest, page: Page, names: Mapping[str, str], rest: Sequence[str], exchange: Exchange
    ) -> Response:
        """The answer of a page. Raises: MetajournalError: what `refused` shows."""
        if page is ASSETS:
            return self._assets.answer(request, names["state"], names["asset"])
        query = query_values(request.scope["query_string"])
        _check_query(page, query)
        if page is LOGIN:
            return await self._login_page(request, query)
        if page is LOGIN_FORM:
            return await self._log_in(request, exchange)
        visit = exchange.visit = self._visit(request)
        if visit is None:
            return self._to_login(request, page)
        exchange.principal = visit.principal
        exchange.held.asker = f"{visit.principal.tenant}/{visit.principal.actor}"
        self._buckets.take(exchange.held.asker)  # all sessions of somebody share it
        fields = await self._form(request, visit, exchange.held) if page.method == "POST" else None
        if page is LOGOUT:
            await self._logins.end(visit.principal)
            return self._moved("/login", {"Set-Cookie": self._cookies.dropped(request)})
        asked = self._asked(page, names, rest, query, fields, visit)
        needs = page.needed(asked)
        exchange.urn = asked.urn or next((need.urn for need in needs if need.urn is not None), None)
        check_needs(visit.principal, needs)
        if page.form is not None:
            return await self._sent(request, page, asked, visit)
        if page.check is not None:
            page.check(self._journal, asked)
        if page.feed is not None:
            return await self._feed(request, page.feed(asked), asked, exchange)
        if points := positions_named(query):
            with suppress(NotYetVisibleError):  # then the page says so
                await self._following.reach(cut_of(points), self._settings.wait_s)
        if asked.at_least and not page.waits_itself:
            with suppress(NotYetVisibleError):
                await self._journal.wait_future(asked.at_least, timeout_s=OWN_S)
                asked = replace(asked, at_least=())
        if page.data is not None:
            value = await self._readers.run(partial(page.data, self._journal, asked), asker=asked.asker)
            return Response(encoded(value), headers=_SAFE, media_type=JSON)
        return await self._shown(request, page, asked, visit)

    def _asked(
        self, page: Page, names: Mapping[str, str], rest: Sequence[str], query: Mapping[str, str],
        fields: Mapping[str, str] | None, visit: Visit,
    ) -> Request:  # fmt: skip
        principal, now_ms = visit.principal, _now_ms()
        urn = named_urn(page, names, rest, query)
        is_newest = page.includes_own and "before" not in query
        at_least = self._own.of(principal.key_id, urn) if is_newest else ()
        return Request(
            names, query, fields, principal.tenant, principal.actor, now_ms, urn, at_least, principal.rights
        )  # fmt: skip

    async def _feed(
        self, request: HttpRequest, wants: Wanted, asked: Request, exchange: Exchange
    ) -> Response:  # fmt: skip
        """Changes as they come; the session is looked up anew as long as they do."""
        visit = exchange.visit
        assert visit is not None
        last = request.headers.get("last-event-id") or asked.query.get(AFTER)
        reader = Reader(partial(self._principals.who, visit.key), visit.principal, wants, hears_beats=True)
        return await feed_reply(
            self._feeds, reader, last, wait_s=self._settings.wait_s, only_head=request.method == "HEAD",
            logged=exchange.logged,
        )  # fmt: skip

    async def _shown(self, request: HttpRequest, page: Page, asked: Request, visit: Visit) -> Response:
        row = None
        if page.of_row is not None and asked.is_earlier:
            return await self._earlier(request, page, asked, visit)
        if page.of_row is not None:
            fresh = await self._following.fresh(asked.entity, asked.tenant, self._settings.wait_s, asker=asked.asker)
            if fresh.row is None:
                raise UnknownEntityError(str(asked.entity), held_to=str(fresh.end))
            row = fresh.row
        readers = self._waiters if page.waits_itself else self._readers
        read = partial(self._read, request, page, asked, row, visit)
        seen = self._following.then if asked.is_earlier else self._following.seen
        return await seen(asked, partial(readers.run, read, asker=asked.asker), self._settings.wait_s)

    async def _earlier(self, request: HttpRequest, page: Page, asked: Request, visit: Visit) -> Response:
        """A page of an entity as it was at a point, and whether a later event can change that."""
        find = partial(self._journal.answer, asked.entity, tenant=asked.tenant, **points_of(asked))
        row, final = None, False
        with suppress(UnknownEntityError):
            found = await self._following.then(
                asked, partial(self._readers.run, find, asker=asked.asker), self._settings.wait_s
            )  # fmt: skip
            row, final = found.row, found.final
        read = partial(self._read, request, page, asked, row, visit, final)
        return await self._readers.run(read, asker=asked.asker)

    def _read(
        self, request: HttpRequest, page: Page, asked: Request, row: Any, visit: Visit, final: bool = False
    ) -> Response:  # fmt: skip
        if page.of_row is not None:
            shown = page.of_row(self._journal, asked, row)
            shown = shown._replace(values={**shown.values, "final": final})
            return self._html(request, self._with_sections(request, page, asked, row, visit, shown), visit)
        assert page.show is not None
        return self._html(request, page.show(self._journal, asked), visit)

    def _with_sections(
        self, request: HttpRequest, page: Page, asked: Request, row: Any, visit: Visit, shown: Shown
    ) -> Shown:  # fmt: skip
        """What a page shows, and what domains add to it; a part that cannot be read says so, and the rest is there."""
        if not page.has_sections or row is None or row.deleted:
            return shown
        sections = [one for section in self._sections if (one := self._section(request, section, asked, row, visit))]
        return shown._replace(values={**shown.values, "sections": sections})

    def _section(self, request: HttpRequest, section: Section, asked: Request, row: Any, visit: Visit) -> Markup | None:
        try:
            shown = section(self._journal, asked, row)
        except UnavailableError as error:
            message, hint = words_of(error, is_local=self._settings.tells_all)
            shown = Shown("missing.html", {"problem": {"detail": message, "hint": hint}})
        return None if shown is None else Markup(self._text(request, shown, visit))  # it was escaped on its way

    async def _sent(self, request: HttpRequest, page: Page, asked: Request, visit: Visit) -> Response:
        """Emit what a form asks for, and go to the page that shows it; or show what stands instead or is wrong."""
        try:
            if page.check is not None:
                page.check(self._journal, asked)
            return await self._written(request, page, asked, visit)
        except InputError as error:
            if page.refill is None or status_of(error) not in _CORRECTED:
                raise
            shown = page.refill(asked, error)._replace(status=status_of(error))
            return await self._readers.run(partial(self._html, request, shown, visit))

    async def _written(self, request: HttpRequest, page: Page, asked: Request, visit: Visit) -> Response:
        assert page.form is not None
        sent: Sent | Shown = page.form(asked)
        for _ in range(_TRIES):
            if isinstance(sent, Shown):
                return await self._readers.run(partial(self._html, request, sent, visit))
            try:
                wish = Wish(sent.expected, None, asked.at_ms, self._settings.wait_s)
                answer = await self._writer.write(WRITTEN, asked, sent.event, wish)
                written = sent.event.entities[0]
                if written.domain in self._found:
                    self._own.add(visit.principal.key_id, written, Position.parse(answer.headers[POSITION]))
                if answer.status == 202:
                    raise HttpError(
                        504, "What you sent is in the journal; its outcome is not known yet.", code="pending",
                        hint="Open the page again in a moment: it shows what came of it." if sent.tells is None
                        else "What was to be shown is lost: end it on its page, and make another one.",
                    )  # fmt: skip
                if sent.tells is not None:
                    return self._html(request, sent.tells, visit)
                if not self._may_open(sent.back, asked):
                    told = Shown("saved.html", {"urn": written, "verdict": answer.value})
                    return self._html(request, told, visit)
                return self._moved(sent.back)
            except RejectedError as error:
                entity = sent.event.entities[0]
                if error.reason != "stale-entity" or page.again is None or not asked.may(READ, entity):
                    raise  # what stands now is shown to whoever may read it
                stale = error
            fresh = await self._following.fresh(entity, asked.tenant, self._settings.wait_s)
            sent = page.again(asked, fresh.row)
        raise stale

    def _may_open(self, address: str, asked: Request) -> bool:
        """Whether who has sent a form may see the page that it leads back to: what that page itself needs."""
        try:
            place = self._destination(address)
            if place is None:
                return True
            urn = named_urn(place.page, place.names, place.rest, place.query)
            back = replace(asked, parts=place.names, query=place.query, body=None, urn=urn)
            return all(allows(asked.rights, need.action, need.urn) for need in place.page.needed(back))
        except InputError:  # that page says so; what was asked for is done
            return True

    def _destination(self, address: str) -> _Destination | None:
        """What an address of this server opens; None where it is no page's. Raises: InputError: it is not UTF-8."""
        path, _, query = address.partition("?")
        found = self._router.find(path_parts(path.encode())).by_method.get("GET")
        if found is None:
            return None
        page, names, rest = found
        return _Destination(page, names, rest, query_values(query.encode())) if isinstance(page, Page) else None

    # Who

    def _visit(self, request: HttpRequest) -> Visit | None:
        """Who is logged in, by the cookie; nobody where the proxy in front names somebody else."""
        key = self._cookies.given(request)
        principal = None if key is None else self._principals.who(key)
        if key is None or principal is None or principal.use != SESSION:
            return None
        named = self._proxies.vouched(request, self._settings.user_header)
        return None if named not in (None, principal.actor) else Visit(principal, key)

    def _to_login(self, request: HttpRequest, page: Page) -> Response:
        if request.method not in ("GET", "HEAD") or page.is_for_scripts or "hx-request" in request.headers:
            raise UnauthenticatedError(
                "Your session has ended; nothing was done.", code="no-session", hint="Log in, and send the form again."
            )
        return self._moved(_login_of(_address(request)))

    async def _login_page(self, request: HttpRequest, query: Mapping[str, str]) -> Response:
        back = safe_address(query.get("next", "/"))
        key = self._cookies.given(request)
        if key is not None and await self._logins.is_heard(key, _HEARD_S) and self._visit(request) is not None:
            return self._moved(back)
        answer = self._login_html(request, back, code=query.get("code", "")[:COOKIE_LENGTH])
        if key is not None:
            answer.headers["Set-Cookie"] = self._cookies.dropped(request)
        return answer

    def _login_html(
        self, request: HttpRequest, back: str, failed: Problem | None = None, code: str = ""
    ) -> Response:  # fmt: skip
        named = self._proxies.vouched(request, self._settings.user_header)
        values = {"back": back, "named": named, "code": code, "failed": None if failed is None else failed.body}
        status = 200 if failed is None else failed.status
        return self._html(request, Shown("login.html", values, status), None)

    async def _log_in(self, request: HttpRequest, exchange: Exchange) -> Response:
        check_origin(request, is_secure=self._cookies.is_secure)
        fields = await self._fields(request, exchange.held, _LOGIN_BYTES)
        back, named = safe_address(fields.get("next", "/")), self._proxies.vouched(request, self._settings.user_header)
        try:
            if "as" in fields and named is not None:
                key = await self._logins.by_name(self._journal.settings.journal.tenant, named)
            else:
                key = await self._logins.by_key(fields.get("key", ""), self._proxies.sender(request))
        except (LoginFailedError, HttpError) as error:
            failed = Problem(
                429 if isinstance(error, HttpError) else 401, {"detail": error.message, "hint": hint_of(error)},
                error.headers if isinstance(error, HttpError) else {},
            )  # fmt: skip
            answer = self._login_html(request, back, failed)
            answer.headers.update(failed.headers)
            return answer
        exchange.principal = self._principals.who(key)
        return self._moved(back, {"Set-Cookie": self._cookies.set(request, key, self._logins.lasts_s)})

    # Forms

    async def _form(self, request: HttpRequest, visit: Visit, held: Held) -> dict[str, str]:
        """The fields of a form of this session. Raises: HttpError: 403: another page sent it."""
        check_origin(request, is_secure=self._cookies.is_secure)
        fields = await self._fields(request, held)
        if not visit.owns(fields.pop(FIELD, "")):
            raise foreign_form()
        return fields

    async def _fields(self, request: HttpRequest, held: Held, most_bytes: int = BODY_BYTES) -> dict[str, str]:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
            raise HttpError(415, "This address takes a form.", code="unsupported-type", hint=f"Send {FORM}.")
        body = await read_body(
            request.headers, request.stream(), held=held, most_bytes=most_bytes, deadline_s=_BODY_S, lines=False
        )
        if body is None:
            return {}
        return await aside(lambda: query_values(body.text.encode()), len(body.text))

    # Answers

    def _html(self, request: HttpRequest, shown: Shown, visit: Visit | None) -> Response:
        return Response(self._text(request, shown, visit), shown.status, _SAFE, media_type=_HTML)

    def _text(self, request: HttpRequest, shown: Shown, visit: Visit | None) -> str:
        return self._templates.get_template(shown.template).render({**self._common(request, visit), **shown.values})

    def _common(self, request: HttpRequest, visit: Visit | None) -> dict[str, Any]:
        """What every template may name."""
        return {
            "me": None if visit is None else visit.principal.actor,
            "tenant": None if visit is None else visit.principal.tenant,
            "token": None if visit is None else visit.token,
            "menu": [] if visit is None else self._entries(visit, request.scope["path"]),
            "here": _address(request),
            "feed_place": lambda: self._feeds.place,
            "server": self._server(request),
        }

    def _server(self, request: HttpRequest) -> str:
        return f"{'https' if self._cookies.is_secure else 'http'}://{request.headers.get('host', '')}"

    def _entries(self, visit: Visit, path: str) -> list[dict[str, Any]]:
        """The pages that every page leads to: those that somebody may see."""
        rights = visit.principal.rights
        return [
            {"name": page.menu, "to": page.path, "is_here": path == page.path}
            for page in self._menu if page.needs is needs_nothing or allows(rights, page.action, None)
        ]  # fmt: skip

    def refused(self, request: HttpRequest, problem: Problem, visit: Visit | None) -> Response:
        """What is shown where a page cannot be."""
        is_unknown = problem.body["code"] == OutcomeUnknownError.CODE  # which a form sends again by another event
        told = {**problem.body, "hint": _UNKNOWN} if is_unknown else problem.body
        values = {
            "problem": told, "is_form": request.method == "POST", "login": _login_of(self._sent_from(request)),
        }  # fmt: skip
        answer = self._html(request, Shown("refused.html", values, problem.status), visit)
        answer.headers.update(problem.headers)
        return answer

    def _sent_from(self, request: HttpRequest) -> str:
        """The page that a form or a script of it was sent from, as its sender's browser says; else the first one."""
        referer, own = request.headers.get("referer", ""), self._server(request)
        if not referer.startswith(f"{own}/"):
            return "/"
        address = safe_address(referer.removeprefix(own))
        with suppress(InputError):
            place = self._destination(address)
            if place is not None and not place.page.is_for_scripts:
                return address
        return "/"

    def _moved(self, to: str, headers: Mapping[str, str] | None = None) -> Response:
        return Response(status_code=303, headers={**_SAFE, **(headers or {}), "Location": to})


class _Destination(NamedTuple):
    """A page that an address opens, and what the address says to it."""

    page: Page
    names: Mapping[str, str]
    rest: tuple[str, ...]
    query: Mapping[str, str]


def _login_of(back: str) -> str:
    """The address of the login that comes back to a page."""
    return "/login" if back == "/" else f"/login?{urlencode({'next': back})}"


def _check_query(page: Page, query: Mapping[str, str]) -> None:
    known = {parameter.name for parameter in page.query} | {"urn"}
    for name in query:
        if name not in known:
            raise InputError(f"This page takes no {name!r:.60} in its address.", code="unknown-parameter",
                             hint="Remove it from the address.")  # fmt: skip


def _address(request: HttpRequest) -> str:
    """The address that was asked for, path and query."""
    path = quote(request.scope["raw_path"].decode("latin-1"), safe="/%:@!$&()*+,;=~-._'")
    query = quote(request.scope["query_string"].decode("latin-1"), safe="/%:@!$&()*+,;=~-._'?")
    return f"{path}?{query}" if query else path


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
