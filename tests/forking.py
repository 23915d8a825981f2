"""What is so in a forked process."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable

from tests.wait import eventually


def is_true_in_child(check: Callable[[], bool]) -> bool:
    """Whether something is true in a forked process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of what this is about
        child = os.fork()
    if not child:
        try:
            os._exit(7 if check() else 1)
        finally:
            os._exit(2)
    ended = [0, 0]

    def has_ended() -> bool:
        ended[:] = os.waitpid(child, os.WNOHANG)
        return ended[0] == child

    try:
        eventually(has_ended, 10, "the end of the child")
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return os.waitstatus_to_exitcode(ended[1]) == 7
