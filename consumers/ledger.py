"""What a subscriber has had of one partition: deliver or drop, and the text that keeps it between runs.

The stream writes at least once: after a crash it publishes from an earlier event on again, in the same order. So within
a topic everything at or below the (position, seq) reached of a journal partition was there before and is dropped. Each
target partition of each topic has a ledger of its own, because the USER and SYSTEM records of one event carry the same
(position, seq).

A compacted topic needs more: compaction may take the first copy of a record away and leave the second, which then
stands behind records with higher positions. Compaction leaves gaps in the offsets, and a stretch of offsets without
a gap is what the stream wrote, so only what was read in such a stretch counts as reached; below it a record is new
unless its key was delivered with that position or a later one. What was delivered is forgotten with the process: an
older state may then come once more, and the stretch no longer counts as read, so that the newer ones follow it.

Pure: values in, values out. What the offsets of the group are and when they are committed is the subscription's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

Source: TypeAlias = tuple[str, int]
"""Journal topic and partition."""
Place: TypeAlias = tuple[int, int]
"""(position, seq) of a record in its journal partition."""

NOTHING: Final[Place] = (-1, -1)
MAX_TEXT_BYTES: Final = 4095
"""Most bytes of a group commit's metadata (the broker's `offset.metadata.max.bytes` is 4096)."""
_REMEMBERED_KEYS: Final = 250_000
"""Keys of a compacted partition in one of two generations; what is forgotten can come twice, never be lost."""
_FORMAT: Final = "mj1"
_SOME: Final = "+"
"""Last word of a text that could not hold every journal partition."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_ENTRY: Final = re.compile(r"(\d{1,9})=([0-9a-z]{1,13}\.[0-9a-z]{1,13})(?:-([0-9a-z]{1,13}\.[0-9a-z]{1,13}))?")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Reached(NamedTuple):
    """How far a journal partition was read.

    Attributes:
        place: the greatest (position, seq) delivered or passed over.
        since: everything above it and up to `place` was read; NOTHING where that holds from the beginning.
    """

    place: Place
    since: Place = NOTHING


def below(position: int) -> Place:
    """The place that has everything before a position, and nothing of it, behind it."""
    return (position, -1)


class Ledger:
    """Deliver-or-drop for one partition of a change topic.

    Args:
        reached: how far each journal partition was read before.
    """

    def __init__(self, reached: Mapping[Source, Reached] | None = None) -> None:
        self._reached: dict[Source, Place] = {source: reach.place for source, reach in (reached or {}).items()}

    def is_new(self, source: Source, place: Place, key: bytes, offset: int) -> bool:
        """Whether the record at an offset is to be delivered. Changes nothing that a second question would notice."""
        return place > self._reached.get(source, NOTHING)

    def take(self, source: Source, place: Place, key: bytes, offset: int) -> None:
        """Note a record that was delivered, dropped or passed over; records are noted in the order of their offsets."""
        if place > self._reached.get(source, NOTHING):
            self._reached[source] = place

    def pass_over(self, offset: int) -> None:
        """Note a record that says nothing about what was reached."""

    @property
    def reached(self) -> dict[Source, Reached]:
        """How far each journal partition was read."""
        return {source: Reached(place) for source, place in self._reached.items()}

    def merge(self, reached: Mapping[Source, Reached]) -> None:
        """Also count as read what another ledger of this partition has reached."""
        for source, reach in reached.items():
            self._reached[source] = max(reach.place, self._reached.get(source, NOTHING))


class CompactedLedger(Ledger):
    """Deliver-or-drop for one partition of a state topic.

    Args:
        reached: how far each journal partition was read before.
        floors: places that were not asked for: nothing at or below them is delivered.
        start: the offset of the first record that will come, when no record before it is gone.
    """

    def __init__(
        self,
        reached: Mapping[Source, Reached] | None = None,
        floors: Mapping[Source, Place] | None = None,
        start: int = 0,
    ) -> None:
        super().__init__(reached)
        self._since = {source: reach.since for source, reach in (reached or {}).items()}
        self._floors = dict(floors or {})
        self._next = start
        self._anew: set[Source] = set()
        # A gap gives every journal partition a `since`; one without means that there was none.
        self._from_the_start = start == 0 or NOTHING in self._since.values()
        self._keys: dict[bytes, Place] = {}
        self._older: dict[bytes, Place] = {}

    def is_new(self, source: Source, place: Place, key: bytes, offset: int) -> bool:
        if offset != self._next:
            self._gap(offset)
        if place <= self._floors.get(source, NOTHING):
            return False
        if place > self._reached.get(source, NOTHING):
            return True
        if place > self._since.get(source, NOTHING):
            return False
        return place > self._delivered(key)

    def take(self, source: Source, place: Place, key: bytes, offset: int) -> None:
        if offset != self._next:
            self._gap(offset)
        self._next = offset + 1
        before = self._reached.get(source)
        behind = self._floors.get(source, NOTHING) < place <= self._since.get(source, NOTHING)
        if before is not None and behind and place > self._delivered(key):
            self._since[source] = before  # a newer one may have come before a restart: it comes once more
        if before is None and not self._from_the_start:
            self._anew.add(source)
        if source in self._anew:
            self._anew.discard(source)
            self._since[source] = max(before or NOTHING, place)
        self._reached[source] = max(before or NOTHING, place)
        if place > self._delivered(key):
            self._remember(key, place)

    def pass_over(self, offset: int) -> None:
        if offset != self._next:
            self._gap(offset)
        self._next = offset + 1

    def _gap(self, offset: int) -> None:
        """Records before this offset are gone: what was reached so far is no longer all there was."""
        self._next = offset
        self._from_the_start = False
        self._anew = set(self._reached)
        for source, place in self._reached.items():
            self._since[source] = max(place, self._since.get(source, NOTHING))

    def _delivered(self, key: bytes) -> Place:
        return self._keys.get(key) or self._older.get(key, NOTHING)

    def _remember(self, key: bytes, place: Place) -> None:
        if len(self._keys) >= _REMEMBERED_KEYS:
            self._older, self._keys = self._keys, {}
        self._keys[key] = place

    @property
    def reached(self) -> dict[Source, Reached]:
        return {source: Reached(place, self._since.get(source, NOTHING)) for source, place in self._reached.items()}

    def merge(self, reached: Mapping[Source, Reached]) -> None:
        for source, reach in reached.items():
            mine = self._reached.get(source)
            if mine is None or reach.place > mine:
                since = max(reach.since, self._since.get(source, NOTHING))
                self._reached[source], self._since[source] = reach.place, since


def to_text(reached: Mapping[Source, Reached], limit: int = MAX_TEXT_BYTES, *, complete: bool = True) -> str:
    """What was reached as the metadata of a commit, at most `limit` bytes of ASCII.

    Journal partitions that do not fit are left out, and the text says that some are: they are found again by reading.

    Args:
        complete: nothing else was reached.
    """
    words: list[str] = [_FORMAT]
    left = limit - len(_FORMAT) - 2  # room for a blank and the mark of an incomplete text
    topic = None
    for source, reach in sorted(reached.items()):
        entry = f"{source[1]}={_spelt(reach.place)}" + ("" if reach.since == NOTHING else f"-{_spelt(reach.since)}")
        new = [entry] if source[0] == topic else [source[0], entry]
        size = sum(len(word) + 1 for word in new)
        if size > left:
            complete = False
            break
        topic, left = source[0], left - size
        words += new
    return " ".join(words if complete else [*words, _SOME])


class Kept(NamedTuple):
    """What a commit's metadata say.

    Attributes:
        complete: every journal partition read so far is in it.
    """

    reached: dict[Source, Reached]
    complete: bool


def from_text(text: str | None) -> Kept | None:
    """Read a commit's metadata; None where they are missing or somebody else's."""
    first, *words = (text or "").split(" ")
    if first != _FORMAT:
        return None
    complete = _SOME not in words
    topic: str | None = None
    reached: dict[Source, Reached] = {}
    for word in words if complete else words[:-1]:
        entry = _ENTRY.fullmatch(word)
        if entry is None and _TOPIC.fullmatch(word):
            topic = word
        elif entry is None or topic is None:
            return None
        else:
            number, place, since = entry.groups()
            reached[topic, int(number)] = Reached(_place(place), _place(since) if since else NOTHING)
    return Kept(reached, complete)


def _spelt(place: Place) -> str:
    """Both numbers plus one, since -1 stands for "before the first", in base 36."""
    return f"{_base36(place[0] + 1)}.{_base36(place[1] + 1)}"


def _place(text: str) -> Place:
    position, seq = text.split(".")
    return int(position, 36) - 1, int(seq, 36) - 1


def _base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
        if number == 0:
            return text
