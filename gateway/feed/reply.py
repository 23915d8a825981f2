"""The answer of a feed: its head, then events until it ends. Source: the HTML standard, "Server-sent events"."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..protocol import ABORT
from ..replies import SAFE
from .feeds import Feeds
from .reader import Feed, Reader

_log = logging.getLogger("metajournal.gateway")
EVENT_STREAM: Final = "text/event-stream"


class FeedReply(Response):
    """An answer that goes on.

    Args:
        feeds: all feeds.
        feed: what is sent; None: the head alone is asked for.
        logged: what its line of the log has.
    """

    def __init__(self, feeds: Feeds, feed: Feed | None, logged: Mapping[str, Any]) -> None:
        self.status_code = 200
        self.background = None
        self.media_type = EVENT_STREAM
        self.init_headers({**SAFE, "X-Accel-Buffering": "no"})
        self._feeds, self._feed, self._logged = feeds, feed, logged

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        head = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        if self._feed is None:
            await send(head)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        self._feeds.opened(self._feed)  # before anything is waited for: whoever comes next is counted behind it
        try:
            await send(head)
            await self._feed.serve(receive, send, scope.get("extensions", {}).get(ABORT, _nothing))
        finally:
            self._feeds.closed(self._feed)
        _log.info("A feed ended: %s.", self._feed.why, extra={"data": dict(self._logged)})


async def feed_reply(
    feeds: Feeds, reader: Reader, last_id: str | None, *, wait_s: float, only_head: bool, logged: Mapping[str, Any]
) -> FeedReply:
    """The answer to who asks for changes.

    Args:
        feeds: all feeds.
        reader: who asks, and for what.
        last_id: of the last event that the reader had; None: changes from now on.
        wait_s: seconds to wait until the process knows what there is now.
        only_head: HEAD is asked for.
        logged: what its line of the log has.
    Raises:
        InputError: the id is none of a feed.
        UnavailableError: Kafka was not read in time, or too many feeds are open.
    """
    feeds.check_room(reader.asker)
    shown = await feeds.shown(wait_s)
    feeds.check_room(reader.asker)  # others have opened theirs meanwhile
    since = shown.cuts.read(last_id) if last_id else None
    return FeedReply(feeds, None if only_head else Feed(feeds, shown, reader, since), logged)


def _nothing() -> None:
    """There is no connection to drop."""
