"""The newest changes, kept once for all feeds of a process.

A feed holds no changes of its own: it knows the number of the next one that it has not had. So a reader that stops
holds nothing but its socket's buffer, and one that falls behind the oldest change learns that here.
Bounded by number and by bytes. Of one thread; pure but for that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ...consumers.records import Partition
from ...schemas.endpoints import in_namespace
from ...schemas.urn import Urn
from .cuts import Cuts, Offsets, joined

CHANGES: Final = 10_000
BYTES: Final = 32 * 1024 * 1024


@dataclass(slots=True)
class Entry:
    """A change as feeds hand it on.

    Attributes:
        partition: where it stands.
        offset: its offset there.
        tenant: whose it is.
        entities: all entities that it speaks of, its subject first.
        domain: whose change it is.
        scope: of which metadata.
        type: its CloudEvents type.
        frame: event and data as server-sent events have them, without the id.
        id: where a feed is that has had everything up to this change; set by the ring.
    """

    partition: Partition
    offset: int
    tenant: str
    entities: tuple[Urn, ...]
    domain: str
    scope: str
    type: str
    frame: bytes
    id: str = ""

    @property
    def subject(self) -> Urn:
        """The entity that changed."""
        return self.entities[0]


class Ring:
    """The newest changes.

    Args:
        cuts: writes ids.
        most: most changes.
        most_bytes: most bytes of their frames; the newest is kept however large it is.
    Attributes:
        first: number of the oldest change.
        next: number of the change that comes next.
    """

    def __init__(self, cuts: Cuts, most: int = CHANGES, most_bytes: int = BYTES) -> None:
        self._cuts = cuts
        self._most, self._most_bytes = most, most_bytes
        self._entries: dict[int, Entry] = {}
        self._by_key: dict[str, list[int]] = defaultdict(list)
        self._bytes = 0
        self._floor: dict[Partition, int] = {}
        self._reached: dict[Partition, int] = {}
        self._parts: dict[str, str] = {}
        self.first = self.next = 0

    @property
    def id(self) -> str:
        """Where a feed is that has had everything."""
        return joined(self._parts.get(topic.name, "") for topic in self._cuts.topics)

    @property
    def reached(self) -> Offsets:
        """The next offset of each partition."""
        return self._reached

    @property
    def floor(self) -> Offsets:
        """The offset of each partition from which on every change is here."""
        return self._floor

    def begin(self, offsets: Offsets) -> None:
        """Note where the first changes were read from."""
        self._floor = dict(offsets)
        self.reach(offsets)

    def add(self, entry: Entry) -> None:
        """Take a change in, and let the oldest go where there are too many."""
        if entry.partition not in self._floor:
            self._floor[entry.partition] = entry.offset
        self.reach({entry.partition: entry.offset + 1})
        entry.id = self.id
        self._entries[self.next] = entry
        for key in keys_of(entry.subject):
            self._by_key[key].append(self.next)
        self.next += 1
        self._bytes += len(entry.frame)
        while self.next - self.first > self._most or (self._bytes > self._most_bytes and self.next - self.first > 1):
            self._let_go()

    def reach(self, offsets: Offsets) -> None:
        """Note that there is nothing below some offsets that is not here."""
        changed = {place for place, offset in offsets.items() if offset > self._reached.get(place, 0)}
        self._reached |= {place: offsets[place] for place in changed}
        for name in {topic for topic, _ in changed}:
            self._parts[name] = self._cuts.part(name, self._reached)

    def _let_go(self) -> None:
        oldest = self._entries.pop(self.first)
        self._bytes -= len(oldest.frame)
        for key in keys_of(oldest.subject):
            numbers = self._by_key[key]
            del numbers[0]
            if not numbers:
                del self._by_key[key]
        self._floor[oldest.partition] = oldest.offset + 1
        self.first += 1

    def numbers(self, keys: Iterable[str] | None, first: int) -> Iterable[int]:
        """The numbers, from one on, of the changes whose subject has one of some keys, in order.

        Args:
            keys: as `keys_of` has them; None: every change.
        """
        if keys is None:
            return range(first, self.next)
        found = [self._by_key[key] for key in keys if key in self._by_key]
        later = [numbers[bisect_left(numbers, first) :] for numbers in found]
        return later[0] if len(later) == 1 else sorted({number for numbers in later for number in numbers})

    def __getitem__(self, number: int) -> Entry:
        return self._entries[number]

    def covers(self, offsets: Offsets) -> bool:
        """Whether everything from some offsets on is here."""
        return all(offsets.get(place, 0) >= offset for place, offset in self._floor.items())


def keys_of(subject: Urn) -> tuple[str, ...]:
    """By what the changes of an entity are found: its URN and, where it has one, its namespace."""
    return (subject,) if subject.namespace is None else (subject, in_namespace(subject.namespace))


def merged(first: Mapping[Partition, int], second: Mapping[Partition, int]) -> dict[Partition, int]:
    """The greater offset of each partition."""
    return {place: max(first.get(place, 0), second.get(place, 0)) for place in first.keys() | second.keys()}
