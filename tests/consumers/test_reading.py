"""A partition that goes on where a commit of the group says."""

from __future__ import annotations

from typing import Any, cast

from confluent_kafka import TopicPartition

from metajournal.consumers.ledger import Reached, to_text
from metajournal.consumers.reading import Opener

STATE = ("metajournal.state.catalog", 0)
SOURCE = ("metajournal.journal.catalog", 0)


class From:
    """A topic whose first records were deleted."""

    def __init__(self, low: int, high: int) -> None:
        self.range = lambda _at: (low, high)


def test_records_that_were_deleted_behind_the_commit_are_a_gap() -> None:
    """The first copies of (7, 1) and (7, 2) are gone; of what is left, the lower one stands behind the higher one."""
    opener = Opener(cast(Any, None), cast(Any, From(13, 16)), {STATE[0]: 1}, compacted=True)
    commit = TopicPartition(*STATE, 8, metadata=to_text({SOURCE: Reached((7, 0))}))
    reading = opener.resumed(STATE, commit)
    assert reading.next == 13
    found = []
    for offset, place, key in ((13, (7, 2), b"c"), (14, (7, 1), b"b"), (15, (7, 2), b"c")):
        if reading.ledger.is_new(SOURCE, place, key, offset):
            found.append((offset, key))
        reading.ledger.take(SOURCE, place, key, offset)
    assert found == [(13, b"c"), (14, b"b")]
