"""The indexer as a process of its own: it takes over what an earlier version made, then keeps the index up to date."""

from __future__ import annotations

import signal
import threading

from ...cycles import rarely_sought
from ...schemas.errors import MetajournalError
from ...schemas.settings import Settings
from .runner import Indexer
from .takeover import take_over


def run_indexer(settings: Settings) -> None:
    """Run the indexer in this process until SIGTERM or SIGINT.

    Raises:
        MetajournalError: only an operator can mend it.
    """
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    indexer = Indexer(settings)
    try:
        try:
            take_over(settings, stop, lambda message: indexer.tell("waiting", message))
        except MetajournalError as error:
            indexer.failed(error)
            raise
        with rarely_sought():
            indexer.run(stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
