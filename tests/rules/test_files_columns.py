"""The day buckets of many new files are those that each file touches, numbered within its event."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from metajournal.domains.files.columns.judging import days
from metajournal.domains.files.events import DAY_MS

Files = list[list[tuple[int, int]]]
"""For each event its files: the first and the last millisecond of each."""

starts = st.one_of(st.integers(-3, 3).map(lambda day: day * DAY_MS), st.integers(-2 * DAY_MS, 2 * DAY_MS))
spans = st.one_of(st.integers(0, 3).map(lambda count: count * DAY_MS), st.integers(0, 2 * DAY_MS))
files = st.builds(lambda start, span: (start, start + span), starts, spans)


@given(st.lists(st.lists(files, min_size=1, max_size=4), max_size=4))
@example([])
@example([[(0, 0), (DAY_MS - 1, DAY_MS)], [(-1, -1)]])
def test_each_file_has_a_row_for_each_day_that_it_touches(events: Files) -> None:
    expected, number = list[tuple[int, ...]](), 0
    for some in events:
        seq = 0
        for start, last in some:
            for bucket in range(start // DAY_MS, last // DAY_MS + 1):
                expected.append((number, bucket, start // DAY_MS, seq))
                seq += 1
            number += 1
    flat = [one for some in events for one in some]
    event = np.array([at for at, some in enumerate(events) for _ in some], np.int64)
    found = days(np.array([one for one, _ in flat], np.int64), np.array([one for _, one in flat], np.int64), event)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected
