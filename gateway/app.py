"""The application: a request's way from its bytes to its answer.

Who, may they, do, answer: in this order, and an answer of every error comes from one place. Nothing is read for a
request before its rights are known, so a refusal is the same whether or not the entity exists.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from re import compile as pattern
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..client import Journal
from ..lake.reading import unknown_entity
from ..schemas.endpoints import Answer, Endpoint, Made, Need, Request, Wanted
from ..schemas.errors import (
    ForbiddenError,
    InputError,
    MetajournalError,
    NotYetVisibleError,
    OperatorError,
    OutcomeUnknownError,
    UnauthenticatedError,
    UnknownEntityError,
)
from ..schemas.pages import Page
from ..schemas.positions import cut_of
from ..schemas.settings import GatewaySettings
from ..schemas.urn import Urn
from .addresses import Proxies
from .audit import Audit, UnauditedError, without_keys
from .bodies import BODY_BYTES, EVENTS_BYTES, HELD_BYTES, HELD_BYTES_OF_ONE, Body, Held, Room, read_body, read_value
from .conditions import Wish, at_least_of, check_once, joined, wish_of
from .earlier import stands_already
from .feed.feeds import Feeds
from .feed.reader import Reader
from .feed.reply import EVENT_STREAM, feed_reply
from .figures import GatewayFigures
from .following import Following
from .limits import Buckets
from .openapi import DESCRIPTION, openapi
from .own.changes import AFTER
from .own.rows import entity_answer, positions_named, read_then
from .principals import KEY, Principal, Principals, check_needs
from .problems import HttpError, is_of_installation, problem_of
from .replies import JSON, check_accepts, problem_reply, reply_of
from .routing import Router, Row, named_urn, path_parts, query_values, takes_urn
from .sending import Senders, paced
from .sessions import Visit
from .site import Site
from .table import Table
from .threads import Readers
from .typed_lines import not_over_http, read_lines, read_unit
from .writing import EVENT_ID, Writer

_log = logging.getLogger("metajournal.gateway")
_REQUEST_ID: Final = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRACEPARENT: Final = pattern(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_BEARER: Final = "bearer "
_NO_HEADERS: Final = Headers()
_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_API: Final = ("/api/", "/v3/", "/openapi.json")
BODY_S: Final = 60.0


class Gateway:
    """Answers requests over one journal; an ASGI application. Made on the loop that it runs on.

    Args:
        journal: what is served.
        principals: who may ask.
        settings: the section `[gateway]`.
    Attributes:
        table: every endpoint.
        figures: what is counted.
    """

    def __init__(self, journal: Journal, principals: Principals, settings: GatewaySettings) -> None:
        self._journal = journal
        self._principals = principals
        self._settings = settings
        hosts = frozenset(name.lower() for name in settings.hosts)
        self._hosts = hosts or (_LOCAL_HOSTS if settings.is_local else None)
        self._readers = Readers()
        self._waiters = Readers(name="wait")
        self.following = Following(journal, self._readers)
        self.writer = Writer(journal, self.following, self._readers, principals)
        self.senders = Senders(journal, self.following)
        self.table = Table(journal.epochs.domains)
        self._router = Router((*self.table.endpoints, DESCRIPTION, *self.table.pages))
        self._description = openapi((*self.table.endpoints, DESCRIPTION))
        self._buckets = Buckets(settings.requests_per_s, settings.burst)
        self.figures = GatewayFigures()
        self.feeds = Feeds(journal, self.writer.leaving, self.figures)
        self._site = Site(
            journal, principals, settings, self.table, writer=self.writer, following=self.following,
            readers=self._readers, waiters=self._waiters, buckets=self._buckets, feeds=self.feeds,
        )  # fmt: skip
        self._proxies = Proxies(settings.trusted_proxies)
        self._room = Room(HELD_BYTES, HELD_BYTES_OF_ONE)
        self.audit = Audit(journal.settings, settings.audit, self.figures)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = HttpRequest(scope, receive)
        exchange = _Exchange(request, self._proxies, self._room)
        try:
            response = await self._handled(request, exchange)
        except ClientDisconnect:
            self._tell(exchange, 499)
            return
        except Exception as error:
            response = self._refused(request, exchange, error)
        finally:
            exchange.held.give_back()
        try:
            await self.audit.take(exchange, response.status_code)
        except UnauditedError as error:
            response = self._refused(request, exchange, error)
        response.headers["X-Request-Id"] = exchange.request_id
        self._tell(exchange, response.status_code)
        await response(scope, receive, send)

    async def _handled(self, request: HttpRequest, exchange: _Exchange) -> Response:
        self._check_host(request.headers.getlist("host"))
        parts = path_parts(request.scope["raw_path"])
        endpoint, names, rest = self._route(request, parts, exchange)
        exchange.row = endpoint
        if isinstance(endpoint, Page):
            exchange.is_page = True
            return await self._site.answer(request, endpoint, names, rest, exchange)
        check_accepts(joined(request.headers, "accept"), JSON if endpoint.feed is None else EVENT_STREAM)
        if endpoint.is_public:
            return reply_of(request, Answer(self._description))
        key = _key_of(request)
        if self._principals.who(key) is None:
            await self._principals.newest(key)
        ask = partial(self._principal, key, exchange)
        principal = ask() if endpoint.sends is None else await paced(ask)
        query = query_values(request.scope["query_string"])
        _check_query(endpoint, query)
        urn, writes = named_urn(endpoint, names, rest, query), endpoint.event is not None or endpoint.lines
        exchange.urn = urn
        check_once(request.headers)
        wish = wish_of(
            request.headers if writes else _NO_HEADERS, creates=endpoint.creates, wait_s=self._settings.wait_s
        )
        asked = Request(names, query, None, principal.tenant, principal.actor, wish.at_ms, urn, rights=principal.rights)
        if endpoint.needs is None and not endpoint.lines:
            check_needs(principal, endpoint.needed(asked))
        if (endpoint.lines or endpoint.sends is not None) and not principal.rights.grants:
            action = endpoint.action  # what else it takes is told by a body that is as large as that of those who may
            raise ForbiddenError("This key has no rights: nothing was granted to its principal.", action=action)
        exchange.held.asker = f"{principal.tenant}/{principal.actor}"
        body = await self._body(request, endpoint, exchange.held)
        if endpoint.lines:
            return reply_of(request, await self._lines(asked, endpoint, body, wish, exchange))
        value = await read_value(body, endpoint.body, optional=endpoint.optional_body)
        asked = replace(asked, body=value, size=None if body is None else len(body.text))
        if endpoint.needs is not None:
            check_needs(principal, endpoint.needed(asked))
        if endpoint.check is not None:
            endpoint.check(self._journal, asked)
        if endpoint.sends is not None:
            return reply_of(request, await self.senders.answer(endpoint, asked, partial(self.audit.refused, exchange)))
        if endpoint.feed is not None:
            return await self._feed(request, endpoint.feed(asked), asked, exchange)
        return reply_of(request, await self._answer(endpoint, asked, wish, at_least_of(request.headers)))

    async def _feed(self, request: HttpRequest, wants: Wanted, asked: Request, exchange: _Exchange) -> Response:
        """The answer that goes on; who asks is looked up anew as long as it does."""
        assert exchange.principal is not None
        key, last = _key_of(request), request.headers.get("last-event-id") or asked.query.get(AFTER)
        reader = Reader(partial(self._principals.who, key), exchange.principal, wants)
        return await feed_reply(
            self.feeds, reader, last, wait_s=self._settings.wait_s, only_head=request.method == "HEAD",
            logged=exchange.logged,
        )  # fmt: skip

    async def _answer(self, endpoint: Endpoint, asked: Request, wish: Wish, at_least: Any) -> Answer:
        if endpoint.event is not None:
            if asked.urn is None and wish.expected is not None:
                raise InputError("This request has no condition on an entity: omit If-Match.", code="bad-condition")
            made = endpoint.event(asked)
            event, tells = made if isinstance(made, Made) else (made, {})
            if not event.validate() and event.entities[0] != asked.urn and (wish.expected is not None or wish.exists):
                raise InputError(
                    f"A condition here would be of {event.entities[0]}, which is what this request makes or ends.",
                    code="bad-condition", hint="Omit If-Match and If-None-Match.",
                )  # fmt: skip
            if wish.exists and asked.urn is not None:
                wish = await self._of_existing(asked, wish, creates=endpoint.creates)
            wish = wish if endpoint.waits else wish._replace(wait_s=0.0)
            if tells and wish.event_id is not None and endpoint.waits and not wish.wait_s:
                wish = wish._replace(wait_s=self._settings.wait_s)  # a secret sent for twice is that of one of the two
            return await self.writer.write(endpoint, asked, event, wish, tells=tells)
        endpoint.check_values(asked.query)
        if points := positions_named(asked.query):
            with suppress(NotYetVisibleError):  # then the answer says that it is not final
                await self.following.reach(cut_of(points), self._settings.wait_s)
        if endpoint.row is not None:
            return await self._row(endpoint, asked, at_least)
        assert endpoint.read is not None
        awaited = at_least
        if endpoint.is_fresh and not asked.is_earlier:
            last = await self.following.last(asked.entity, asked.tenant)
            await self.following.fresh(asked.entity, asked.tenant, self._settings.wait_s, asker=asked.asker)
            awaited = tuple(one for one in at_least if not last.covers(one))
            at_least = (last,)  # a follower has it, the lake need not
        elif endpoint.is_whole is not None and endpoint.is_whole(asked):
            newest = await self.following.newest(asked, self._settings.wait_s)
            awaited = at_least = at_least if newest is None else (*at_least, newest)
        if awaited and not endpoint.waits_itself:
            await self.following.reach(cut_of(awaited), self._settings.wait_s)
        elif awaited:
            await self.following.check_ends(cut_of(awaited))
        readers = self._waiters if endpoint.waits_itself else self._readers
        read = partial(endpoint.read, self._journal, replace(asked, at_least=at_least))
        seen = self.following.then if asked.is_earlier else self.following.seen
        return await seen(asked, partial(readers.run, read, asker=asked.asker), self._settings.wait_s)

    async def _of_existing(self, asked: Request, wish: Wish, *, creates: bool) -> Wish:
        """`If-Match: *`: the entity must be there; an event that would make it is held against the state that there is.

        With an Idempotency-Key it is only looked at: a repetition meets another state, and is the same request; also
        where what it was about is gone since.
        Raises: HttpError: 412.
        """
        row = (await self.following.fresh(asked.entity, asked.tenant, self._settings.wait_s, asker=asked.asker)).row
        if row is None or row.deleted:
            stands = partial(stands_already, self._journal, wish.event_id, asked)
            if wish.event_id is not None and await self._readers.run(stands, asker=asked.asker):
                return wish
            raise HttpError(
                412, f"There is no entity {asked.entity}.", code="stale-entity",
                hint="If-Match: * is for what is there already.",
            )  # fmt: skip
        if not creates or wish.event_id is not None:
            return wish
        return wish._replace(expected=row.logical_timestamp)

    async def _row(self, endpoint: Endpoint, asked: Request, at_least: Any) -> Answer:
        """The answer of an entity's newest row, or of the one as at a point."""
        assert endpoint.row is not None
        if "as_at" in asked.query or "as_of" in asked.query:
            if at_least:
                await self.following.reach(cut_of(at_least), self._settings.wait_s)
            read = partial(read_then, self._journal, endpoint.row, asked)
            return await self.following.then(
                asked, partial(self._readers.run, read, asker=asked.asker), self._settings.wait_s
            )  # fmt: skip
        if at_least:
            await self.following.check_ends(cut_of(at_least))
        fresh = await self.following.fresh(asked.entity, asked.tenant, self._settings.wait_s, asker=asked.asker)
        if fresh.row is None:
            raise UnknownEntityError(str(asked.entity), held_to=str(fresh.end))
        if fresh.row.deleted:
            raise unknown_entity(asked.entity, fresh.end, fresh.row)
        return entity_answer(endpoint.row(fresh.row, asked, self._journal), fresh.row)

    async def _lines(
        self, asked: Request, endpoint: Endpoint, body: Body | None, wish: Wish, exchange: _Exchange
    ) -> Answer:
        """The answer to events, one a line or one alone."""
        named = asked.query.get("unit") == ""
        is_unit = named or asked.choice("unit", ("true", "false"), "false") == "true"
        check = partial(self._check_line, exchange, body is not None and body.is_lines and not is_unit)
        if (is_unit or (body is not None and body.is_lines)) and wish.is_of_one:
            raise InputError(
                "Conditions and keys in headers are of one event; several were sent.", code="bad-condition",
                hint="Give each line its own expected, or its own event_id with repeat.",
            )  # fmt: skip
        if is_unit:
            typed = await read_unit(body, needs_of=self.table.needs_of, check=check)
            return await self.writer.unit(asked, typed, wish.wait_s)
        lines = await read_lines(body, needs_of=self.table.needs_of, check=check)
        if lines.alone is not None:
            event, about = lines.alone
            if wish.exists and not event.validate():
                wish = await self._of_existing(replace(asked, urn=event.entities[0]), wish, creates=True)
            return await self.writer.write(endpoint, asked, event, wish, about)
        waits = wish.wait_s if asked.choice("outcome", ("true", "false"), "false") == "true" else 0.0
        results = await self.writer.lines(asked, lines.typed, lines.refused, wish._replace(wait_s=waits))
        return Answer({"ok": all(result["ok"] for result in results), "results": results})

    def _check_line(self, exchange: _Exchange, several: bool, needs: Sequence[Need] | None) -> None:
        """As `check_needs`, of an event; of one of several, each that is refused is recorded by itself.

        Args:
            needs: None: nobody may send such an event.
        """
        assert exchange.principal is not None
        try:
            if needs is None:
                raise not_over_http()
            check_needs(exchange.principal, needs)
        except ForbiddenError as error:
            if several:
                self.audit.refused(exchange, error)
            raise

    async def _body(self, request: HttpRequest, endpoint: Endpoint, held: Held) -> Body | None:
        if endpoint.method == "GET":
            return None
        return await read_body(
            request.headers, request.stream(), held=held, deadline_s=BODY_S, lines=endpoint.lines,
            most_bytes=EVENTS_BYTES if endpoint.has_events else BODY_BYTES,
            is_none=endpoint.body is None and not endpoint.has_events,
        )  # fmt: skip

    def _route(
        self, request: HttpRequest, parts: Sequence[str], exchange: _Exchange
    ) -> tuple[Row, Mapping[str, str], tuple[str, ...]]:
        """The row of a request. Raises: HttpError: 404 or 405."""
        route = self._router.find(parts)
        if not route.by_method:
            see = "the pages begin at /" if exchange.is_page else "see /openapi.json"
            hint = f"{see[0].upper()}{see[1:]}." if parts[-1] else f"Leave out the slash at its end, or {see}."
            raise HttpError(404, "There is no such address.", code="no-such-address", hint=hint)
        method = "GET" if request.method == "HEAD" else request.method
        if method not in route.by_method:
            allowed = ", ".join(route.allowed)
            raise HttpError(
                405, f"This address takes {allowed}, not {request.method}.", code="no-such-method",
                hint="See /openapi.json.", headers={"Allow": allowed},
            )  # fmt: skip
        return route.by_method[method]

    def _principal(self, key: str, exchange: _Exchange) -> Principal:
        """Who asks. Raises: UnauthenticatedError, HttpError (429), UnavailableError: rights were not heard of."""
        principal = self._principals.who(key)
        if principal is None or principal.use != KEY:
            raise UnauthenticatedError("The key is not valid.", hint="Use a key that is issued and not revoked.")
        exchange.principal = principal
        self._buckets.take(principal.key_id)
        return principal

    def _check_host(self, hosts: Sequence[str]) -> None:
        """Refuse a name of this server that nobody gave it (DNS rebinding). Raises: HttpError: 421; 400: several."""
        if len(hosts) > 1:
            raise HttpError(400, "The request has several Host headers.", code="bad-host", hint="Send one.")
        host = hosts[0] if hosts else ""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self._hosts is not None and name.lower() not in self._hosts:
            raise HttpError(
                421, f"This server is not called {host!r:.80}.", code="unknown-host",
                hint="The setting gateway.hosts lists its names.",
            )  # fmt: skip

    def _refused(self, request: HttpRequest, exchange: _Exchange, error: Exception) -> Response:
        """The answer of an error; what only the operator may know goes to the log."""
        exchange.error = error
        problem = problem_of(error, exchange.request_id, is_local=self._settings.tells_all)
        if isinstance(error, OutcomeUnknownError) and "event_id" in error.data:
            problem.headers = {**problem.headers, EVENT_ID: error.data["event_id"]}
        if isinstance(error, OperatorError):
            _log.error("%s", error.message, extra={"data": {"code": error.code, **exchange.logged}})
        elif is_of_installation(error):
            _log.warning("%s", error.message, extra={"data": {"code": error.code, **exchange.logged}})
        elif not isinstance(error, MetajournalError):
            _log.error("A request failed.", exc_info=error, extra={"data": exchange.logged})
        return self._site.refused(request, problem, exchange.visit) if exchange.is_page else problem_reply(problem)

    def _tell(self, exchange: _Exchange, status: int) -> None:
        """Count an answered request, and log it."""
        seconds = time.perf_counter() - exchange.began
        self.figures.request(exchange.endpoint, status, seconds)
        _log.info(
            "%s %s %d", exchange.method, exchange.path, status,
            extra={"data": {**exchange.logged, "status": status, "ms": round(seconds * 1000, 1)}},
        )  # fmt: skip

    async def close(self) -> None:
        """Stop following and reading; what is taken was answered before."""
        await self.feeds.close()
        await self.audit.close()
        await self.senders.close()
        await self.following.close()
        self._readers.close()
        self._waiters.close()


class _Exchange:
    """What is told of a request, whatever becomes of it.

    Args:
        request: as it came.
        proxies: whose word counts on where it comes from.
        room: for the bodies of all requests.
    """

    def __init__(self, request: HttpRequest, proxies: Proxies, room: Room) -> None:
        self.held = Held(room)
        self._sender = partial(proxies.sender, request)
        given = request.headers.get("x-request-id", "")
        self.request_id = given if _REQUEST_ID.fullmatch(given) else f"{random.getrandbits(64):016x}"
        traced = request.headers.get("traceparent", "")
        self.traceparent = traced if _TRACEPARENT.fullmatch(traced) else None
        self.began = time.perf_counter()
        self.method = request.method
        self.path = without_keys(request.scope["raw_path"].decode("latin-1")[:2048])
        self.row: Row | None = None
        self.urn: Urn | None = None
        self.error: Exception | None = None
        self.principal: Principal | None = None
        self.visit: Visit | None = None
        wants_html = "text/html" in request.headers.get("accept", "")
        self.is_page = wants_html and not self.path.startswith(_API)
        """Whether errors are shown as pages: also of addresses that are none, to browsers."""

    @property
    def sender(self) -> str:
        """Where it comes from, as limits count it."""
        return self._sender()

    @property
    def endpoint(self) -> str:
        """The row's name."""
        return "none" if self.row is None else self.row.name

    @property
    def logged(self) -> dict[str, Any]:
        """What its lines of the log have; never a key or a body."""
        data: dict[str, Any] = {"request_id": self.request_id}
        if self.traceparent is not None:
            data["traceparent"] = self.traceparent
        if self.principal is not None:
            data |= {"tenant": self.principal.tenant, "actor": self.principal.actor, "key": self.principal.key_id}
        return data


def _key_of(request: HttpRequest) -> str:
    """The key that a request bears. Raises: UnauthenticatedError: it has none."""
    given = request.headers.getlist("authorization")
    if len(given) != 1 or not given[0].lower().startswith(_BEARER):
        raise UnauthenticatedError("The request has no key.")
    return given[0][len(_BEARER) :].strip()


def _check_query(endpoint: Endpoint, query: Mapping[str, str]) -> None:
    """Refuse a name of the query that the endpoint does not have. Raises: InputError."""
    known = {parameter.name for parameter in endpoint.query} | ({"urn"} if takes_urn(endpoint) else set())
    for name in query:
        if name not in known:
            raise InputError(f"This address takes no {name!r:.60} in its query.", code="unknown-parameter",
                             hint=f"It takes {', '.join(sorted(known)) or 'none'}.")  # fmt: skip
