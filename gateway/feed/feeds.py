"""All feeds of a process: what they share, who is judged when, and how they end.

One subscription fills one ring; a feed is a place in it. Rights are judged with each change and, for every open feed,
several times a second, so that a revoked key ends its feeds even where nothing changes.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...client import Journal
from ...consumers.every_change import ChangeTopic
from ...schemas.errors import UnavailableError
from ..figures import FEEDS, GatewayFigures
from .cuts import Cuts
from .ring import CHANGES, Ring
from .source import Begun, Item, Reached, Source

if TYPE_CHECKING:
    from .reader import Feed

MOST: Final = 1_000
"""Most feeds of a process."""
OF_ONE: Final = 250
"""Most feeds of one who reads."""
FROM_KAFKA: Final = 4
"""Most feeds that read at once what the ring no longer has."""
JUDGED_S: Final = 0.2
"""Seconds between two judgements of the rights of a feed to which nothing is sent."""


@dataclass
class Shown:
    """What the ring shows, from where the subscription began."""

    topics: tuple[ChangeTopic, ...]
    cuts: Cuts
    ring: Ring
    is_over: bool = field(default=False)
    """Another one began: its changes do not follow on this one's."""


class Feeds:
    """The feeds of one process; made on its event loop.

    Args:
        journal: whose changes.
        leaving: set when the server ends.
        figures: what is counted.
    Attributes:
        from_kafka: held by whoever reads below the ring.
        pool: the threads that do it.
    """

    def __init__(self, journal: Journal, leaving: asyncio.Event, figures: GatewayFigures) -> None:
        self.journal = journal
        self._figures = figures
        self.leaving = leaving
        self.from_kafka = asyncio.Semaphore(FROM_KAFKA)
        self.pool = ThreadPoolExecutor(FROM_KAFKA, thread_name_prefix="metajournal-feed-past")
        self._shown: Shown | None = None
        self._ready = asyncio.Event()
        self._news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open: set[Feed] = set()
        self._kept = CHANGES
        self._source = Source(journal, self._take, self._kept)
        self._judging = asyncio.ensure_future(self._judge())

    def __len__(self) -> int:
        return len(self._open)

    async def shown(self, wait_s: float) -> Shown:
        """The ring, once what was there at the beginning is in it.

        Raises:
            UnavailableError: it is not in time.
        """
        try:
            await asyncio.wait_for(self._ready.wait(), wait_s)
        except TimeoutError:
            raise UnavailableError(
                "The change topics cannot be read yet.", code="feed-not-ready", hint="Is Kafka reachable?"
            ) from None
        assert self._shown is not None
        return self._shown

    @property
    def place(self) -> str:
        """The id of what is known by now, after which a feed may begin; empty where nothing is known yet."""
        return self._shown.ring.id if self._shown is not None and self._ready.is_set() else ""

    @property
    def news(self) -> asyncio.Future[None]:
        """Done when something has come."""
        return self._news

    def check_room(self, asker: str) -> None:
        """Refuse one feed too many. Raises: UnavailableError."""
        own = sum(feed.asker == asker for feed in self._open)
        if own >= OF_ONE:
            raise UnavailableError(
                f"{own} feeds of yours are open.", code="too-many-feeds", hint="Close some, or share one."
            )
        if len(self._open) >= MOST:
            raise UnavailableError(
                f"{len(self._open)} feeds are open.", code="too-many-feeds", hint="Try again later, or elsewhere."
            )

    def opened(self, feed: Feed) -> None:
        """Note a feed."""
        self._open.add(feed)
        self._figures.figures.set(FEEDS, len(self._open))

    def closed(self, feed: Feed) -> None:
        """Forget a feed."""
        self._open.discard(feed)
        self._figures.figures.set(FEEDS, len(self._open))

    def _take(self, items: list[Item]) -> None:
        for item in items:
            if isinstance(item, Begun):
                self._begin(item)
                continue
            assert self._shown is not None
            if isinstance(item, Reached):
                self._shown.ring.reach(item.offsets)
                self._ready.set()
            else:
                self._shown.ring.add(item)
        news, self._news = self._news, asyncio.get_running_loop().create_future()
        news.set_result(None)

    def _begin(self, begun: Begun) -> None:
        if self._shown is not None:
            self._shown.is_over = True
        self._ready.clear()
        self._shown = Shown(begun.topics, begun.cuts, Ring(begun.cuts, self._kept))
        self._shown.ring.begin(begun.offsets)

    async def _judge(self) -> None:
        """End the feeds of those who may not read any longer, and all when the server ends."""
        while not self.leaving.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.leaving.wait(), JUDGED_S)
            for feed in list(self._open):
                feed.judge()
        for feed in list(self._open):
            feed.end("the server ends")

    async def close(self) -> None:
        """Leave Kafka; the feeds have ended before."""
        self._judging.cancel()
        await asyncio.gather(self._judging, return_exceptions=True)
        await asyncio.to_thread(self._source.close)
        self.pool.shutdown(wait=False, cancel_futures=True)
