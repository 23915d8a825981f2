"""Waiting in tests: for a condition with a deadline, never for a span of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")
_PAUSE_S = 0.02
_SLOWEST = 4
"""How much slower than expected a machine may be before what does not come counts as missing."""


def eventually(check: Callable[[], T | None], timeout_s: float = 10.0, what: str = "the condition") -> T:
    """Call `check` until it gives something true, and return that.

    A failure of the check (an AssertionError, or an error that `pytest.raises` waited for in vain) means "not yet"; the
    last one is shown when the time is over.

    Args:
        timeout_s: how long it takes at most on a machine that does nothing else.
    Raises:
        AssertionError: it did not come true within several times that.
    """
    timeout_s *= _SLOWEST
    deadline = time.monotonic() + timeout_s
    while True:
        last: BaseException | None = None
        found: T | None = None
        try:
            found = check()
            if found:
                return found
        except (AssertionError, pytest.fail.Exception) as error:
            last = error
        if time.monotonic() > deadline:
            seen = str(last) if last is not None else repr(found)
            raise AssertionError(f"{what} did not come true within {timeout_s:g} s; last seen: {seen}") from last
        time.sleep(_PAUSE_S)
