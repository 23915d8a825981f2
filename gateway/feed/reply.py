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
from .reader import Feed

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
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if self._feed is None:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        try:
            await self._feed.serve(receive, send, scope.get("extensions", {}).get(ABORT, _nothing))
        finally:
            self._feeds.closed(self._feed)
        _log.info("A feed ended: %s.", self._feed.why, extra={"data": dict(self._logged)})


def _nothing() -> None:
    """There is no connection to drop."""
