"""The rules of files over columns: the day buckets of many files that are new.

The same as `files`, which stays the judge of everything else. A new file's rows need nothing from before it and leave
no bucket, so all that a column can get wrong is which rows there are and how they are numbered.

Needs numpy (extra `stream`), and is imported by nothing that the light client needs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....schemas.encoding.cursor import Numbers
from ..events import DAY_MS


class Days(NamedTuple):
    """A row for each day bucket that a file touches, in the order of files and of days.

    Attributes:
        file: number of the row's file.
        bucket: days since the epoch, UTC.
        first: the least bucket of that file.
        seq: the row's place among those of its event.
    """

    file: Numbers
    bucket: Numbers
    first: Numbers
    seq: Numbers


def days(start: Numbers, last: Numbers, event: Numbers) -> Days:
    """The rows of some files.

    Args:
        start, last: the times that each file begins and ends at, milliseconds since the epoch.
        event: number of each file's event, ascending from 0.
    """
    first = start // DAY_MS
    counts = last // DAY_MS - first + 1
    behind = np.cumsum(counts)
    file = np.repeat(np.arange(len(start)), counts)
    number = np.arange(len(file))
    bucket = first[file] + number - (behind - counts)[file]
    begun = np.searchsorted(event[file], np.arange(event[-1] + 1)) if len(event) else event
    return Days(file, bucket, first[file], number - begun[event[file]])
