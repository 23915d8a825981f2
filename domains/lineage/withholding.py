"""Pages of what may be seen: full ones, whatever is left out between, so that none tells how much that is.

Pure: rows come through a function that reads them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

Row = TypeVar("Row")
Place = TypeVar("Place")
AT_ONCE: Final = 1_000
"""Rows that are read together, once some were left out; twice as many each time, since each read may begin anew."""
_MOST_AT_ONCE: Final = 16_000


def seen_rows(
    read: Callable[[Place | None, int], Sequence[Row]],
    place_of: Callable[[Row], Place],
    is_seen: Callable[[Row], bool],
    after: Place | None,
    count: int,
) -> list[Row]:
    """The next rows that may be seen.

    Args:
        read: the rows behind a place, in order, at most so many.
        place_of: a row's place.
        is_seen: whether it may be seen.
        after: the place behind which to begin; None: at the beginning.
        count: most rows.
    """
    found: list[Row] = []
    wanted = count
    while True:
        rows = read(after, wanted)
        for row in rows:
            if is_seen(row):
                found.append(row)
                if len(found) == count:
                    return found
        if len(rows) < wanted:
            return found
        after, wanted = place_of(rows[-1]), min(max(2 * wanted, AT_ONCE), max(count, _MOST_AT_ONCE))
