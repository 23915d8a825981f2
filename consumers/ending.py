"""SIGTERM ends a process that has subscriptions as Ctrl-C does: blocks are left, and its groups go on at once.

Python's own answer to SIGTERM ends the process on the spot; the broker then keeps a group's partitions for it until the
session expires, 45 s later. Service managers, containers and `kill` send SIGTERM, so a subscription answers it while it
is open: the main thread leaves by `SystemExit`, other threads' iterations end. A second SIGTERM cuts.

Invariants: a handler that the program has set, before or after, counts instead; without an open subscription, and in a
child that was forked, SIGTERM does what it did before.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import weakref
from typing import Final, Protocol

EXIT_CODE: Final = 128 + signal.SIGTERM


class Stoppable(Protocol):
    """What can be told to end."""

    def stop(self) -> None:
        """End soon; called in a signal handler."""

    def close(self) -> None:
        """Leave the group."""


_open: dict[int, weakref.ref[Stoppable]] = {}
_owner_pid = 0


def opened(subscription: Stoppable) -> None:
    """Have SIGTERM end this process in an orderly way from now on, where nobody else has a say in it."""
    global _owner_pid
    _open[id(subscription)] = weakref.ref(subscription)
    if _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        _owner_pid = os.getpid()
        signal.signal(signal.SIGTERM, _end)


def closed(subscription: Stoppable) -> None:
    """The subscription no longer asks for that."""
    _open.pop(id(subscription), None)
    if not _open and _is_main_thread() and signal.getsignal(signal.SIGTERM) is _end:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if not _open or os.getpid() != _owner_pid:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    for subscription in _still_open():
        subscription.stop()
    atexit.register(_close_all)
    sys.exit(EXIT_CODE)


def _close_all() -> None:
    """Close what other threads have open.

    Python 3.11 takes a thread whose `join` was interrupted for ended, and does not wait for it.
    """
    for subscription in _still_open():
        subscription.close()


def _still_open() -> list[Stoppable]:
    return [subscription for reference in list(_open.values()) if (subscription := reference()) is not None]


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
