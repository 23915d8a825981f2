"""The interpreter's search for cycles of references, in processes that serve until they are stopped."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_YOUNG: Final = 10_000
"""New containers that are not freed until the young ones are looked through."""


@contextmanager
def rarely_sought(young: int = _YOUNG, older: int = 10, all_of_them: int = 10) -> Iterator[None]:
    """Seek cycles rarely, and not among what the process began with.

    Nearly all that a request or a batch makes is freed with its last reference, and what the process began with stays:
    looking through both took a sixth of a server's work, and each look through everything was a pause for all.

    Args:
        young: new containers, those freed not counted, until they are looked through.
        older: looks through the young ones until those that stayed are looked through, too.
        all_of_them: looks through those until everything is.
    """
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, older, all_of_them)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()  # or libraries complain at the end that they are not cleaned up
