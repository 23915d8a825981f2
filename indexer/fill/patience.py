"""Waiting for a server that is away: for ever, with back-off, and said."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from ..connection import is_away, is_refused, reason_of
from ..errors import IndexerError

_FIRST_S: Final = 0.1
_MOST_S: Final = 5.0
_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818  (no error: the owner asked for it)
    """The indexer was asked to stop while it waited."""


class StartOver(Exception):  # noqa: N818  (no error: the indexer goes on by itself)
    """What the indexer knew no longer holds: it reads the index's own word again and goes on from there."""


class Patience:
    """Calls that survive an outage.

    Args:
        stop: set by the owner; ends any waiting.
        say: told what is waited for, and "" when it is over.
    """

    def __init__(self, stop: threading.Event, say: Callable[[str], None]) -> None:
        self._stop = stop
        self._say = say
        self._pause_s = _FIRST_S
        self._outage = ""

    def call(self, what: str, call: Callable[[], _T]) -> _T:
        """Call until it is answered.

        Raises:
            Stopped: asked to stop meanwhile.
            IndexerError: the server refuses this client.
        """
        result = self.answered(what, call)
        self.over()
        return result

    def answered(self, what: str, call: Callable[[], _T]) -> _T:
        """As `call`, where the answer may tell to wait on: whoever calls says when it is `over`."""
        while True:
            try:
                return call()
            except Exception as error:
                if is_refused(error):
                    raise IndexerError(
                        f"Elasticsearch refuses to let the indexer {what} ({reason_of(error)}).",
                        hint="Correct elasticsearch.api_key; the key needs all rights on the index and its alias.",
                    ) from error
                if not is_away(error):
                    raise
                self.wait(f"Elasticsearch does not answer ({reason_of(error)})")

    def wait(self, why: str) -> None:
        """Pause once, longer each time, and say why.

        Raises:
            Stopped: asked to stop meanwhile.
        """
        self._outage = why
        self._say(why)
        if self._stop.wait(self._pause_s):
            raise Stopped
        self._pause_s = min(self._pause_s * 2, _MOST_S)

    def go_on(self) -> None:
        """Between two steps of long work.

        Raises:
            Stopped: asked to stop.
        """
        if self._stop.is_set():
            raise Stopped

    def over(self) -> None:
        """What was waited for is back."""
        if self._outage:
            self._say("")
        self._outage, self._pause_s = "", _FIRST_S
