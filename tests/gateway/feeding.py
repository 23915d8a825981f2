"""A stream that publishes to the broker, and readers of feeds over sockets, as tests of the feed need them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from metajournal import Journal
from metajournal.producers.topics import wanted_topics
from metajournal.schemas.registry import joining
from metajournal.schemas.settings import Settings
from metajournal.streaming.publish import Publisher
from tests.gateway.serving import ADMIN
from tests.wait import eventually

BEGINNING = "1"
"""The id of an event before which nothing was."""


def publisher(settings: Settings) -> Publisher:
    """What publishes to the topics of an installation, which are there."""
    wanted = wanted_topics(settings, outside=[domain.name for domain in joining()])
    return Publisher(settings, {one.topic: one.partitions for one in wanted}, {}, lambda: False, lambda said: None)


class Event(NamedTuple):
    """One server-sent event.

    Attributes:
        id: the last id that came, with this event or before it.
    """

    name: str
    data: Any
    id: str

    @property
    def change(self) -> str:
        """The permanent id of the change that it tells."""
        return str(self.data["id"])


class Listener:
    """A reader of a feed, in a thread of its own; a context manager. With a cookie it reads as pages do.

    Args:
        last: the id of the last event that it had.
        resumes: whether it goes on in a new feed where one ends, as browsers do.
        query: what it asks for.
    Attributes:
        status, headers: of the answer.
        last_id: the id that it would send to resume.
        place: the id of the last event that came, a beat too: all that the scripts of a page know.
    """

    def __init__(
        self, address: str, *, key: str = ADMIN, last: str | None = None, cookie: str | None = None,
        resumes: bool = False, **query: str
    ) -> None:  # fmt: skip
        who = {"Authorization": f"Bearer {key}"} if cookie is None else {"Cookie": cookie}
        self._address, self._headers = address, {**who, "Accept": "text/event-stream"}
        path, asked = "/api/v1/changes" if cookie is None else "/feed", f"?{urlencode(query)}" if query else ""
        self._target, self._resumes, self._is_closed = f"{path}{asked}", resumes, False
        self.last_id = last or ""
        self._answer = self._ask()
        self.status, self.headers = self._answer.status, dict(self._answer.headers)
        self.events: list[Event] = []
        self.beats, self.place = 0, ""
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _ask(self) -> HTTPResponse:
        self._connection = HTTPConnection(self._address, timeout=60)
        last = {"Last-Event-ID": self.last_id} if self.last_id else {}
        self._connection.request("GET", self._target, headers=self._headers | last)
        return self._connection.getresponse()

    def _read(self) -> None:
        # A connection that is dropped ends the feed as its end does.
        with suppress(OSError, HTTPException, ValueError):
            self._take(_lines(self._answer))
        while self._resumes and not self._is_closed:
            with suppress(OSError, HTTPException, ValueError):
                self._answer = self._ask()
                if not self._is_closed:
                    self._take(_lines(self._answer))
        self.ended.set()

    def _take(self, lines: Iterable[bytes]) -> None:
        """Source: the HTML standard, "Server-sent events": an event without a line of data is none."""
        name, data = "message", list[str]()
        for raw in lines:
            field, _, value = raw.decode().partition(":")
            value = value.removeprefix(" ")
            if not raw:
                if data:
                    self._come(name, "\n".join(data))
                name, data = "message", []
            elif field == "id":
                self.last_id = value
            elif field == "event":
                name = value
            elif field == "data":
                data.append(value)
            elif field == "":
                self.beats += 1

    def _come(self, name: str, data: str) -> None:
        self.place = self.last_id
        if name == "beat":
            self.beats += 1
        else:
            self.events.append(Event(name, json.loads(data), self.last_id))

    @property
    def changes(self) -> list[Event]:
        """The changes that came."""
        return [event for event in list(self.events) if event.name == "change"]

    @property
    def told(self) -> list[str]:
        """The ids of the changes that came."""
        return [event.change for event in self.changes]

    def until(self, check: Callable[[Self], Any], timeout_s: float = 15.0) -> None:
        """Wait until what came is as it must be."""
        eventually(lambda: check(self), timeout_s, f"what the feed sent ({len(self.events)} events)")

    def close(self) -> None:
        """Leave."""
        self._is_closed = True
        with suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(2)
        self._thread.join(60)
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lines(answer: HTTPResponse) -> Iterator[bytes]:
    """The lines of an answer as they come; `readline` of a chunked one takes each byte by itself."""
    left = b""
    while came := answer.read1(1 << 20):
        *lines, left = (left + came).split(b"\n")
        yield from lines


def published(journal: Journal, tenant: str = "default") -> dict[str, str]:
    """The id of every change of a tenant that the topics have, as subscriptions deliver them, with its entity."""
    domains = ("catalog", "lineage", "files", "repositories")
    found = [
        change
        for domain in domains
        for change in journal.subscribe(domain, since="earliest", timeout_s=0.2, tenant=tenant)
    ]
    return {change.id: change.urn for change in found}
