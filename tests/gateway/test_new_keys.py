"""A key counts from its acknowledgement on, in every process: one that is not known yet is no wrong one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from metajournal.domains.access.directory import RightsNotHeardError
from metajournal.domains.access.keys import make_key
from metajournal.gateway.principals import Followed
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.gateway.browsing import Browser
from tests.gateway.serving import Served, served

ME = "/api/v1/access/me"


@pytest.fixture(scope="module")
def server(gateway_settings: Settings) -> Iterator[Served]:
    ensure_topics(gateway_settings)
    with served(gateway_settings, real=True) as running:
        access = running.journal.access
        access.register("new")
        access.grant("new", ("analyst", "*"))
        yield running


def test_a_key_is_good_as_soon_as_it_is_acknowledged(server: Served) -> None:
    """The server has heard of few of them by then."""
    for _ in range(30):
        key, receipt = server.journal.access.issue_key("new")
        receipt.position  # noqa: B018  (waits)
        assert server.get(ME, key=key.text).status == 200


def test_a_code_is_good_as_soon_as_it_is_acknowledged(server: Served) -> None:
    for _ in range(5):
        key, receipt = server.journal.access.issue_code("new")
        receipt.position  # noqa: B018  (waits)
        assert Browser(server).log_in(key.text).status == 303


def test_wrong_keys_are_refused_all_the_same(server: Served) -> None:
    key, receipt = server.journal.access.issue_key("new")
    receipt.position  # noqa: B018  (waits)
    end = server.journal.access.revoke_key("new", key.id)
    end.position  # noqa: B018  (waits)
    for text in (make_key().text, key.text, key.text[:-1], "x"):
        answer = server.get(ME, key=text)
        assert (answer.status, answer.json["code"]) == (401, "unauthenticated")


class Waiting:
    """A directory that nobody is in, whose looks end when they are let."""

    def __init__(self) -> None:
        self.looks = 0
        self.let = threading.Semaphore(0)
        self.fails = False

    def who(self, key: str) -> Any:
        return None

    def is_key(self, text: str) -> bool:
        return text != "x"

    def wait(self, timeout_s: float) -> None:
        self.looks += 1
        assert self.let.acquire(timeout=30)
        if self.fails:
            raise RightsNotHeardError("It was not heard.")

    def close(self) -> None:
        """Nothing is open."""


def test_who_guesses_costs_one_look_at_a_time_and_each_look_begins_behind_its_question() -> None:
    directory = Waiting()
    with closing(Followed(directory)) as followed:  # type: ignore[arg-type]

        async def run() -> None:
            assert await followed.newest("x") is None
            assert directory.looks == 0, "it has not the form of a key"
            first = [asyncio.ensure_future(followed.newest("a")) for _ in range(100)]
            while not directory.looks:
                await asyncio.sleep(0.001)
            later = [asyncio.ensure_future(followed.newest("b")) for _ in range(100)]
            later[0].cancel()
            await asyncio.sleep(0)
            directory.let.release()
            assert await asyncio.gather(*first) == [None] * 100
            assert not any(one.done() for one in later[1:]), "that look had begun before they asked"
            directory.let.release()
            assert await asyncio.gather(*later[1:]) == [None] * 99
            assert directory.looks == 2
            directory.fails = True
            directory.let.release()
            with pytest.raises(RightsNotHeardError):
                await followed.newest("c")

        asyncio.run(run())
