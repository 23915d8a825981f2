"""SIGTERM ends a process with subscriptions as Ctrl-C does: blocks are left, and its groups go on at once.

By default SIGTERM ends a Python process on the spot; the broker then reserves the group's partitions for it until the
session expires, 45 s later. Service managers, containers and `kill` send SIGTERM, so a subscription handles it while it
is open: the main thread raises `SystemExit`, other threads' iterations end. A second SIGTERM ends the process at once.

Invariants: a handler that the program has set, before or after, takes precedence; without an open subscription, and in
a forked child, SIGTERM does what it did before.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from typing import Final, Protocol

EXIT_CODE: Final = 128 + signal.SIGTERM


class Stoppable(Protocol):
    """Something that can be asked to end."""

    def stop(self) -> None:
        """End soon; called in a signal handler."""

    def close(self) -> None:
        """Leave the group."""


_open: dict[int, weakref.ref[Stoppable]] = {}
os.register_at_fork(after_in_child=_open.clear)  # a child's copies of its parent's are not its own


def opened(subscription: Stoppable) -> None:
    """From now on SIGTERM ends this process in an orderly way, unless the program has its own handler."""
    _open[id(subscription)] = weakref.ref(subscription)
    if _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def closed(subscription: Stoppable) -> None:
    """The subscription no longer needs that."""
    _open.pop(id(subscription), None)
    if not _open and _is_main_thread() and signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if not _open:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    for subscription in _still_open():
        subscription.stop()
    atexit.register(_close_all)
    raise SystemExit(EXIT_CODE)  # an instance: see producers.kafka.take_in


def _close_all() -> None:
    """Close the subscriptions of other threads.

    Python 3.11 treats a thread whose `join` was interrupted as ended, and does not wait for it.
    """
    for subscription in _still_open():
        subscription.close()


def _still_open() -> list[Stoppable]:
    return [subscription for reference in list(_open.values()) if (subscription := reference()) is not None]


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
