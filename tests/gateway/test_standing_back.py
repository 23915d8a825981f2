"""A follower that stands back: it stops at a record that needs a newer version, or the lake is too far behind for it.

Nobody is told then that what the journal has is not there, nor what it had as what it has now: who asks is told that it
is not known yet, who writes that it is in the journal; and a server that ends answers all of them.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from metajournal import EntityRegistered, TagsAdded, dataset
from metajournal.consumers import follower
from metajournal.producers.shelving import shelve
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.consumers.test_follower import UNKNOWN, raw
from tests.gateway.browsing import Browser, logged_in, member
from tests.gateway.serving import Got, Served, served, settings_of_server
from tests.gateway.test_endings import free_port, process
from tests.gateway.test_writing import key as new_key
from tests.leaving import leave
from tests.services import Services
from tests.wait import eventually

pytestmark = pytest.mark.services
WAIT_S: Final = 0.5
"""What the gateway waits for the lake, so that nobody here waits for long."""
OLD, NEW = dataset("back", "old"), dataset("back", "new")
AT: Final = "/api/v1"
TAGS: Final = "/v3/namespaces/back/datasets/{}/metadata/tags"


@dataclass
class Stalled:
    """A server whose follower stands back, before a journal that has more than the lake.

    Attributes:
        before: the position of the last event that the lake holds of `OLD`.
        mend: has the stream go on.
    """

    server: Served
    settings: Settings
    key: str
    browser: Browser
    before: Position
    mend: Callable[[], object]

    def get(self, path: str) -> Got:
        return self.server.get(path, key=self.key)


@pytest.fixture(params=["unknown schema", "too far behind"])
def stalled(
    request: pytest.FixtureRequest, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stalled]:
    own = settings_of_server(services, tmp_path)
    own = replace(own, journal=replace(own.journal, partitions=1), gateway=replace(own.gateway, wait_s=WAIT_S))
    ensure_topics(own)
    with served(own, real=True) as server:
        key = member(server.journal, "root", ("admin", "*"))
        before = server.journal.emit(EntityRegistered(OLD, tags=["old"])).position
        server.fold()
        browser = logged_in(server, key)
        mend: Callable[[], object] = server.fold
        if request.param == "unknown schema":
            raw(server.journal, UNKNOWN, dataset("back", "unknown"))
            mend = partial(shelved, server, own, replace(before, value=before.value + 1))
        else:
            monkeypatch.setattr(follower, "MOST_BEHIND", 0)
        server.journal.emit(TagsAdded(OLD, ["newer"]))
        server.journal.emit(EntityRegistered(NEW, tags=["newer"])).position  # noqa: B018  (waits)
        yield Stalled(server, own, key, browser, before, mend)
    leave(own)


def shelved(server: Served, settings: Settings, place: Position) -> None:
    """Have the stream pass over the record."""
    shelve(settings, place)
    server.stream.start()
    server.fold()


def reads(stalled: Stalled) -> dict[str, Got]:
    """What is asked of both entities, and the answers."""
    paths = [f"{AT}/{what}/{of}" for of in (OLD, NEW) for what in ("entities", "history", "diff")]
    paths += [TAGS.format(of.name) for of in (OLD, NEW)]
    pages = [f"/entity/{OLD}", *(f"/{what}/{NEW}" for what in ("entity", "history", "diff"))]
    asks = {path: partial(stalled.get, path) for path in paths}
    asks |= {page: partial(stalled.browser.get, page) for page in pages}
    with ThreadPoolExecutor(len(asks)) as pool:
        return dict(zip(asks, pool.map(lambda ask: ask(), asks.values()), strict=True))


def written(stalled: Stalled) -> dict[str, Got]:
    """What is answered to writes of both entities."""
    ask = partial(stalled.server.post, body=["mine"], key=stalled.key)
    return {of.name: ask(TAGS.format(of.name), Idempotency_Key=new_key()) for of in (OLD, NEW)}


def test_what_is_not_known_is_neither_not_found_nor_an_old_state(stalled: Stalled) -> None:
    for path, answer in reads(stalled).items():
        assert answer.status == 503, (path, answer.body)
        assert int(answer.headers["retry-after"]) >= 1, path
        if path.startswith(("/api/", "/v3/")):
            assert answer.json["code"] == "not-yet-visible", path
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json["hint"], path
        else:
            assert b"This is not available now" in answer.body, path
    history = stalled.browser.page(f"/history/{OLD}").all("main")[0].text
    assert ("as folded into the lake" in history, "newer" in history) == (True, False), "which the page says"
    earlier = stalled.get(f"{AT}/entities/{OLD}?as_at={quote(str(stalled.before), safe='')}")
    assert (earlier.status, earlier.json["user"]["tags"]) == (200, ["old"]), "what was is known"
    for condition in ({"If_Match": "*"}, {"Idempotency_Key": new_key(), "If_Match": "*"}):
        refused = stalled.server.post(TAGS.format("old"), ["mine"], key=stalled.key, **condition)
        assert (refused.status, refused.json["code"]) == (503, "not-yet-visible"), refused.body
    for name, answer in written(stalled).items():
        assert (answer.status, answer.json["outcome"]) == (202, "pending"), name
        told = stalled.get(answer.headers["location"]).json
        assert [one["outcome"] for one in told["places"]] == ["not folded yet"], told
    stalled.mend()
    assert_current(stalled, "old", ["mine", "newer", "old"])
    assert_current(stalled, "new", ["mine", "newer"])
    assert {answer.status for answer in reads(stalled).values()} == {200}


def assert_current(stalled: Stalled, name: str, tags: list[str]) -> None:
    """Everything is answered again, by the follower too: it is tried again after a second."""
    answer = eventually(lambda: got if (got := stalled.get(TAGS.format(name))).status == 200 else None)
    assert answer.json == tags
    again = partial(stalled.server.post, TAGS.format(name), tags, key=stalled.key)
    verdict = eventually(lambda: got if (got := again()).status == 200 else None)
    assert verdict.json["outcome"] == "unchanged"


DRAIN_S: Final = 2.0


@pytest.mark.parametrize("stalled", ["unknown schema"], indirect=True)
def test_who_waits_at_a_servers_end_is_answered_and_others_as_long_as_it_drains(
    stalled: Stalled, tmp_path: Path
) -> None:
    """A write, lines and a read that nobody can answer yet; balancers are told at once to look elsewhere."""
    operator = f"127.0.0.1:{free_port()}"
    ending = replace(stalled.settings.gateway, drain_s=DRAIN_S, wait_s=60.0, operator=operator)
    settings, own = replace(stalled.settings, gateway=ending), new_key()
    with process(settings, tmp_path, stalled.key) as (found, address), ThreadPoolExecutor(3) as aside:
        ask = partial(stalled.server.ask, key=stalled.key, address=address)
        assert ask("GET", "/readyz", address=operator).json["server"] == "ok"
        write = aside.submit(ask, "POST", TAGS.format("old"), ["mine"], Idempotency_Key=own)
        line = b'{"type": "TagsAdded", "entity": "dataset:back/old", "tags": ["line"]}\n'
        lines = aside.submit(ask, "POST", f"{AT}/events?outcome=true", line, Content_Type="application/x-ndjson")
        eventually(lambda: stalled.get(f"{AT}/events/{own}").status == 200, what="the event that waits")
        began = time.monotonic()
        found.process.send_signal(signal.SIGTERM)
        ready = eventually(lambda: got if (got := ask("GET", "/readyz", address=operator)).status == 503 else None)
        assert (ready.json["ready"], ready.json["server"]) == (False, "ending")
        me: Any = ask("GET", f"{AT}/access/me")
        assert (me.status, write.done(), lines.done()) == (200, False, False), "it takes and answers requests"
        assert found.ended(30) == 0, found.tail()
        assert time.monotonic() - began >= DRAIN_S
        answer = write.result()
        assert (answer.status, answer.json["outcome"]) == (202, "pending")
        assert answer.headers["location"] == f"{AT}/events/{own}"
        (told,) = lines.result().json["results"]
        assert (lines.result().status, told["ok"], told["outcome"]) == (200, True, "pending")
        with pytest.raises(ConnectionRefusedError):
            ask("GET", f"{AT}/access/me")
