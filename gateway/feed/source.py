"""The one subscription of a process, in a thread of its own: what it reads is handed to the event loop.

Frames are made here, so that the loop only copies bytes. Where Kafka is away the thread waits and goes on from where it
was; where what comes next is gone, it begins anew with the newest changes and says so.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from ...client import Journal
from ...consumers.every_change import (
    ChangeTopic,
    EveryChange,
    Published,
    change_topics,
    identities,
)
from ...consumers.records import Partition
from ...consumers.starts import Newest, Offsets
from ...schemas.errors import MetajournalError, PositionExpired, UnavailableError
from ...values import change_json
from ..replies import encoded
from .cuts import Cuts, Topic, mark_of
from .ring import Entry

_log = logging.getLogger("metajournal.gateway")
_AGAIN_S: Final = 1.0
_ENDING_S: Final = 15.0


class Begun(NamedTuple):
    """The subscription begins; what was kept of an earlier one does not belong to it.

    Attributes:
        topics: what is read.
        cuts: writes ids.
        offsets: where it begins.
    """

    topics: tuple[ChangeTopic, ...]
    cuts: Cuts
    offsets: Mapping[Partition, int]


class Reached(NamedTuple):
    """Everything below some offsets was handed over, and there is nothing more at the moment."""

    offsets: Mapping[Partition, int]


Item: TypeAlias = Begun | Entry | Reached


class Source:
    """Reads the change topics until it is closed; made on the event loop that it hands things to.

    Args:
        journal: whose changes.
        take: called on the loop with what comes, in order, many at once.
        newest: about how many changes that are there already it begins with.
    """

    def __init__(self, journal: Journal, take: Callable[[list[Item]], None], newest: int) -> None:
        self._journal = journal
        self._newest = newest
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._came: deque[Item] = deque()
        self._is_told = self._is_woken = False
        self._closing = threading.Event()
        self._changes: EveryChange | None = None
        self._had: dict[Partition, int] | None = None
        """The next offset of each partition; None: it begins with the newest."""
        self._thread = threading.Thread(target=self._run, name="metajournal-feed", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; not on the loop."""
        self._closing.set()
        changes = self._changes
        if changes is not None:
            changes.close()
        self._thread.join(_ENDING_S)

    # In its own thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._read()
            except PositionExpired as error:
                _log.warning("The feed begins anew: %s", error.message, extra={"data": {"code": error.code}})
                self._had = None
            except MetajournalError as error:
                _log.warning("The feed waits: %s", error.message, extra={"data": {"code": error.code}})
            except Exception:  # a fault of ours: all feeds would wait for good if the thread ended
                _log.exception("Reading for the feeds failed, and is tried again.")
            self._closing.wait(_AGAIN_S)

    def _read(self) -> None:
        settings, epochs = self._journal.settings, self._journal.epochs
        topics = tuple(change_topics(settings.journal.topics, epochs))
        cuts = cuts_of(self._journal, topics) if self._had is None else None
        since = Newest(self._newest) if self._had is None else Offsets(dict(self._had))
        with EveryChange(settings, epochs, topics, since, reached=self._at_end) as changes:
            self._changes = changes
            if cuts is not None:
                self._had, self._is_told = changes.place, False
                self._hand(Begun(topics, cuts, dict(self._had)))
            for published in changes:
                if self._closing.is_set():
                    return
                self._hand(entry_of(published))
                assert self._had is not None
                self._had[published.partition] = published.offset + 1

    def _at_end(self, offsets: Mapping[Partition, int]) -> None:
        if not self._is_told or offsets != self._had:
            self._is_told = True
            self._had = dict(offsets)
            self._hand(Reached(offsets))

    def _hand(self, item: Item) -> None:
        """Give the loop something; it is woken once for all that comes meanwhile."""
        self._came.append(item)
        if not self._is_woken:  # set before the loop looks, unset before it takes: nothing is left lying
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._drain)

    # On the loop

    def _drain(self) -> None:
        self._is_woken = False
        items: list[Item] = []
        while self._came:
            items.append(self._came.popleft())
        if items:
            self._take(items)


def cuts_of(journal: Journal, topics: tuple[ChangeTopic, ...]) -> Cuts:
    """What writes and reads the ids of a journal's feeds. Raises: KafkaUnavailableError."""
    found = identities(journal.settings, topics)
    missing = [topic.name for topic in topics if topic.name not in found]
    if missing:
        raise UnavailableError(f"There is no topic {', '.join(missing)}.", hint="Start the stream of this version.")
    return Cuts(Topic(topic.name, topic.label, mark_of(found[topic.name][0]), found[topic.name][1]) for topic in topics)


def entry_of(published: Published) -> Entry:
    """A change as feeds hand it on."""
    change = published.change
    data = encoded({**change_json(change), "domain": change.domain})
    return Entry(
        published.partition, published.offset, change.tenant, published.entities, change.domain, change.scope,
        change.type, b"event: change\ndata: " + data + b"\n\n",
    )  # fmt: skip
