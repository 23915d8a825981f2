"""How far the index is, from offsets and outcome records alone. Pure.

State records up to an offset are *indexed* when Elasticsearch has taken them and *shown* after the next refresh. An
outcome record says which state offsets a stretch of the journal ends at; once those are shown, the vector moves to the
end of the stretch. The vector never goes back. Ends only grow: an outcome whose ends lie below those of one before it
waits for these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...schemas.positions import Cut
from ...schemas.untrusted import whole, whole_of

Partition = tuple[str, int]


class Outcome(NamedTuple):
    """What the indexer needs of an outcome record, and where it stood."""

    source: Partition
    offset: int
    journal: Partition
    to: int
    ends: Mapping[Partition, int]
    system_time: int


def outcome_of(data: Mapping[str, Any], source: Partition, offset: int, state_topic: str) -> Outcome:
    """Read an outcome record; only the ends of the state topic matter here.

    Raises:
        one of UNREADABLE: it has another shape.
    """
    ends = {
        (state_topic, whole_of(partition)): whole(end) for partition, end in data["ends"].get(state_topic, {}).items()
    }
    journal = (str(data["topic"]), whole(data["partition"]))
    return Outcome(source, offset, journal, whole(data["to"]), ends, whole(max(data["system_time"] or 0, 0)))


class Progress:
    """The indexer's bookkeeping; starts from what the index says."""

    def __init__(self, vector: Cut, offsets: Cut, state_topics: frozenset[str]) -> None:
        self.vector: dict[Partition, int] = dict(vector)
        self._state_topics = state_topics
        self._read: dict[Partition, int] = {
            partition: end for partition, end in offsets.items() if partition[0] not in state_topics
        }
        self._indexed: dict[Partition, int] = {
            partition: end for partition, end in offsets.items() if partition[0] in state_topics
        }
        self._shown: dict[Partition, int] = dict(self._indexed)
        self._pending: list[Outcome] = []
        self._ends: dict[Partition, dict[Partition, int]] = {}
        """The greatest ends that outcomes of each journal partition have told."""
        self._unshown = False
        self._refreshing: dict[Partition, int] = {}
        self._changed_since = False

    @property
    def unshown(self) -> bool:
        """Whether documents wait for a refresh."""
        return self._unshown

    def reached(self, partition: Partition, offset: int) -> None:
        """Everything below an offset of a state or outcomes partition is taken care of."""
        offsets = self._indexed if partition[0] in self._state_topics else self._read
        offsets[partition] = max(offsets.get(partition, 0), offset)

    def changed(self) -> None:
        """Elasticsearch took documents that no search shows yet."""
        self._unshown = self._changed_since = True

    def heard(self, outcome: Outcome) -> None:
        """An outcome record was read."""
        ends = self._ends.setdefault(outcome.journal, {})
        ends.update({place: max(end, ends.get(place, 0)) for place, end in outcome.ends.items()})
        self._pending.append(outcome._replace(ends=dict(ends)))
        self.reached(outcome.source, outcome.offset + 1)

    def refreshing(self) -> None:
        """A refresh begins: it will show what is indexed now."""
        self._refreshing = dict(self._indexed)
        self._changed_since = False

    def refreshed(self) -> None:
        """The refresh that began last has ended."""
        self._shown = self._refreshing
        self._unshown = self._changed_since

    def settle(self) -> bool:
        """Move the vector over every outcome whose documents are shown; whether it moved."""
        if not self._unshown:
            self._shown = dict(self._indexed)
        waiting, moved = [], False
        for outcome in self._pending:
            if any(self._shown.get(partition, 0) < end for partition, end in outcome.ends.items()):
                waiting.append(outcome)
            elif outcome.to > self.vector.get(outcome.journal, 0):
                self.vector[outcome.journal] = outcome.to
                moved = True
        self._pending = waiting
        return moved

    def offsets(self) -> dict[Partition, int]:
        """Where to go on after a restart: shown state offsets, and the first outcome that still waits."""
        offsets = dict(self._read)
        for outcome in self._pending:
            offsets[outcome.source] = min(offsets.get(outcome.source, outcome.offset), outcome.offset)
        return offsets | self._shown

    def has_read(self, ends: Cut) -> bool:
        """Whether every outcomes partition was read up to these offsets: all that was decided then is known.

        False where no ends are known.
        """
        return bool(ends) and all(
            self._read.get(partition, 0) >= end
            for partition, end in ends.items()
            if partition[0] not in self._state_topics
        )

    def oldest_waiting_ms(self) -> int | None:
        """system_time of the oldest thing known to be decided and not shown."""
        waiting = [outcome.system_time for outcome in self._pending if outcome.to > self.vector.get(outcome.journal, 0)]
        return min(waiting, default=None)
