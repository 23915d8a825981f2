"""Records that a reader passes over, because the stream cannot have written them: counted, and said in the log."""

from __future__ import annotations

import logging
from collections import Counter

Partition = tuple[str, int]


def worth_saying(count: int) -> bool:
    """Whether the log names the record that makes so many: 1, 10, 100, ..."""
    return str(count).rstrip("0") == "1"


class PassedOver:
    """Counts records that were passed over.

    The log names the first record of each partition, the tenth, the hundredth and so on: whoever can write a topic can
    write a million.

    Args:
        log: where it is said.
    Attributes:
        unreadable: records that are not what their topic holds.
        forged: records that claim what the journal, or the stream's topics, do not hold.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._counts: Counter[tuple[str, Partition]] = Counter()
        self.unreadable = 0
        self.forged = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.unreadable + self.forged

    def damaged(self, place: Partition, offset: int, error: BaseException) -> None:
        """A record cannot be read."""
        self.unreadable += 1
        cause = error.__cause__ or error
        self._note("cannot be read", place, offset, f"{type(cause).__name__}: {cause}"[:300])

    def claims(self, place: Partition, offset: int, claim: str) -> None:
        """A record claims what is not so."""
        self.forged += 1
        self._note("contradicts the journal", place, offset, claim)

    def _note(self, what: str, place: Partition, offset: int, why: str) -> None:
        self._counts[what, place] += 1
        count = self._counts[what, place]
        if worth_saying(count):
            self._log.error(
                "The record %s/%d offset %d %s (%s); it is skipped, number %d of this partition. Only the stream may "
                "write to this topic: check who else can (docs/how-to/secure-connections.md).",
                *place, offset, what, why, count,
            )  # fmt: skip
