"""What Kafka's clients log: the logger `metajournal.kafka`, without noise and without secrets.

Job: leave out what nobody can act on, hide what a client's configuration hides, and say once what librdkafka says with
each of its attempts: a broker that is away has it tell the same some twenty times a second.
Left to others: the errors that somebody waits for (`ErrorLog` in kafka.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from ..schemas.setting_keys import scrubbed

AGAIN_S: Final = 30.0
"""Seconds after which a line that still comes is told again."""
_KINDS: Final = 200
"""Lines that are remembered; beyond them all are told anew."""
_VARIES: Final = " (after "
"""What follows it differs from one attempt to the next."""
_NOISE: Final = ("CONFWARN", "GETPID")
"""Lines of librdkafka that nobody can act on: keys of `[kafka]` that only the other kind of client reads, and that the
broker of a producer's id is asked again."""


def _worth_saying(record: logging.LogRecord) -> bool:
    return not any(word in record.getMessage() for word in _NOISE)


LOG: Final = logging.getLogger("metajournal.kafka")
LOG.addHandler(logging.NullHandler())
LOG.addFilter(_worth_saying)


class QuietLog(logging.LoggerAdapter[logging.Logger]):
    """The log of one client; its debugging lines are told whole.

    Args:
        hidden: texts that the client's configuration hides.
        clock: seconds, monotonic.
    """

    def __init__(self, hidden: tuple[str, ...], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(LOG)
        self._hidden = hidden
        self._clock = clock
        self._told: dict[str, tuple[float, int]] = {}

    def log(self, level: int, msg: object, *args: object, **_: Any) -> None:
        if not self.isEnabledFor(level):
            return
        text = scrubbed(str(msg) % args if args else str(msg), self._hidden)
        if level <= logging.DEBUG:
            self.logger.log(level, "%s", text)
        elif (more := self._left_out(text)) is not None:
            self.logger.log(level, "%s%s", text, f" ({more:,} more like this since)" if more else "")

    def _left_out(self, text: str) -> int | None:
        """How many such lines were left out since the last one; None where this one is to be left out, too."""
        kind, now = text.partition(_VARIES)[0], self._clock()
        told_s, more = self._told.get(kind, (-AGAIN_S, 0))
        if now - told_s < AGAIN_S:
            self._told[kind] = told_s, more + 1
            return None
        if len(self._told) >= _KINDS:
            self._told.clear()
        self._told[kind] = now, 0
        return more
