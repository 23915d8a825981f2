"""One Chromium and one gateway with a story in it, for all files of this folder; a window of its own for each test.

Both end with the last test of the folder: while a browser is driven, its process can run no other event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser as Chromium

from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.browser.axe import equip
from tests.browser.chromium import AbsentError, launched
from tests.browser.story import Story, tell
from tests.browser.visitor import Visitor, window
from tests.gateway.browsing import logged_in, member
from tests.gateway.serving import Served, served, settings_of_server
from tests.kept import Kept
from tests.leaving import leave
from tests.services import Services

_kept = pytest.StashKey[list[Kept[Any]]]()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Both end as soon as the next test is of another folder, though the session goes on."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        begun = item.config.stash.get(_kept, None) or []
        for kept in reversed(begun):
            kept.close()


def _keep(config: pytest.Config, kept: Kept[Any]) -> Kept[Any]:
    config.stash.setdefault(_kept, []).append(kept)
    return kept


@pytest.fixture(scope="session")
def chromium(pytestconfig: pytest.Config) -> Iterator[Chromium]:
    """The browser that all tests share; without one they are skipped."""
    kept = _keep(pytestconfig, Kept(launched))
    try:
        yield kept.get()
    except AbsentError as error:
        pytest.skip(str(error))
    finally:
        kept.close()


@pytest.fixture(scope="session")
def settings_served(
    chromium: Chromium, services: Services, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """Settings of the installation that all tests share."""
    own = settings_of_server(services, tmp_path_factory.mktemp("pages"))
    yield own
    leave(own)


@pytest.fixture(scope="session")
def server(settings_served: Settings, pytestconfig: pytest.Config) -> Iterator[Served]:
    """A running gateway."""
    ensure_topics(settings_served)
    kept = _keep(pytestconfig, Kept(lambda: served(settings_served, real=True)))
    running: Served = kept.get()
    yield running
    kept.close()


@pytest.fixture(scope="session")
def story(server: Served, settings_served: Settings) -> Story:
    """What is in it."""
    return tell(server, settings_served)


@pytest.fixture(scope="session")
def key(server: Served) -> str:
    """The key of a principal who may do everything."""
    return member(server.journal, "root", ("admin", "*"))


@pytest.fixture(scope="module")
def cookie(server: Served, key: str) -> str:
    """The cookie of somebody who has logged in with it.

    A session for each file: search waits for the index to have what its session has written of late, which here it
    does not get.
    """
    cookie = logged_in(server, key).cookie
    assert cookie is not None
    return cookie


class Opens(Protocol):
    """What opens a window."""

    def __call__(self, cookie: str | None = None, *, base: str | None = None, **how: Any) -> Visitor:
        """Open one.

        Args:
            cookie: with which one is logged in.
            base: address of the gateway; that of `server` where None.
            how: as Playwright's `new_context` has it.
        """


@pytest.fixture(scope="module")
def reading(chromium: Chromium, server: Served, story: Story, cookie: str) -> Iterator[Visitor]:
    """Somebody who may do everything; one for a file, whose last test fails for what all have done."""
    visitor = window(chromium, f"http://{server.address}")
    visitor.take(cookie)
    yield visitor
    visitor.context.close()
    assert visitor.faults == []


@pytest.fixture(scope="module")
def examined(reading: Visitor) -> Visitor:
    """The same, with axe-core in each page."""
    equip(reading.context)
    return reading


@pytest.fixture
def visit(chromium: Chromium, server: Served, story: Story) -> Iterator[Opens]:
    """Opens windows, and fails a test in which a page did what no page of the gateway does."""
    visitors: list[Visitor] = []

    def opened(cookie: str | None = None, *, base: str | None = None, **how: Any) -> Visitor:
        visitors.append(window(chromium, base or f"http://{server.address}", **how))
        if cookie is not None:
            visitors[-1].take(cookie)
        return visitors[-1]

    yield opened
    for visitor in visitors:
        visitor.context.close()
    assert [fault for visitor in visitors for fault in visitor.faults] == []


@pytest.fixture
def root(visit: Callable[[str], Visitor], cookie: str) -> Visitor:
    """Somebody who is logged in and may do everything."""
    return visit(cookie)
