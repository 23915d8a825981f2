"""`since`, as an offset for each partition of the target topics and what is passed over from there on.

Positions, a cut and a time all become the last position of each journal partition that is *not* asked for. The
watermarks of the outcomes topic turn it into offsets. Left to others: finding watermarks (watermarks), dropping what
stands at or below the cut (ledger).

Invariant: a start whose records are no longer all in the topic is a PositionExpired, never a later start. A compacted
topic cannot expire: of each entity the newest state is always there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NoReturn, TypeAlias

from ..producers.topics import Epochs
from ..schemas.errors import InputError, PositionExpired
from ..schemas.positions import Cut, Placed, Position, cut_of, positions_of
from ..schemas.registry import changes_of
from ..schemas.times import time_ms
from ..schemas.topics import TopicNames
from .ledger import Place, Source, below
from .records import Partition
from .watermarks import LookUp, Watermark


@dataclass(frozen=True, slots=True)
class Offsets:
    """A start behind what was had of the target topics themselves.

    Attributes:
        next: the first offset that was not had, by partition; 0 where none is named.
    """

    next: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class Newest:
    """A start that has about so many records before it, of all target partitions together."""

    count: int


Since: TypeAlias = Position | Placed | Iterable[Position | Placed] | Cut | datetime | int | str | Offsets | Newest
"""Where to begin: a point, a time as `times.time_ms` reads it, "earliest" or "latest"."""
_NO_TIME: Final = -(1 << 62)


def told_by(domain: str, served: Iterable[str], *, compacted: bool) -> list[str]:
    """The served domains whose journal topics tell of a domain's states (`compacted`), or of its changes."""
    return [domain] if compacted else [name for name in served if domain in changes_of(name)]


@dataclass(frozen=True, slots=True)
class Start:
    """Where one partition of a target topic begins.

    Attributes:
        offset: first offset to read.
        floors: places of each journal partition; what stands at or below them was not asked for.
        silent_until: records below this offset were there, or delivered, before: they are read and not delivered.
        since_ms: what is older was not asked for, milliseconds UTC.
    """

    offset: int
    floors: Mapping[Source, Place] = field(default_factory=dict)
    silent_until: int = 0
    since_ms: int = _NO_TIME


@dataclass(frozen=True, slots=True)
class _Floor:
    """The last position of each journal partition that is not asked for, and a time in the same sense."""

    last: Mapping[Source, int]
    since_ms: int = _NO_TIME
    named: frozenset[Source] = frozenset()
    """The journal partitions of the positions that were named."""


class Starts:
    """Finds starts in one domain.

    Args:
        look_up: asks Kafka.
        names: topic names.
        epochs: the journal topics as `check_topics` found them.
        domain: whose changes or states are read; several journal topics may tell of them. Of several domains: whose
            each target topic is.
        compacted: the target topics are state topics.
    """

    def __init__(
        self, look_up: LookUp, names: TopicNames, epochs: Epochs, domain: str | Mapping[str, str], *, compacted: bool
    ) -> None:
        self._look_up = look_up
        self._names = names
        of_topics = {} if isinstance(domain, str) else domain
        told = {
            name: told_by(name, epochs.domains, compacted=compacted)
            for name in ({domain} if isinstance(domain, str) else sorted(set(domain.values())))
        }
        self._tellers = {topic: frozenset(map(names.journal, told[name])) for topic, name in of_topics.items()}
        """The journal topics that tell of each target topic, where not all do."""
        domains = dict.fromkeys(name for names_ in told.values() for name in names_)
        self._outcomes = {names.journal(name): names.outcomes(name) for name in domains}
        self._journals = {topic: epochs[topic] for topic in self._outcomes}
        self._compacted = compacted
        self._outcome_partitions: dict[str, int] = {}
        self._silent: dict[Source, bool] = {}
        self._found: dict[Source, Watermark | None] = {}
        """The watermark of the asked cut, by journal partition."""

    def find(self, since: Since, targets: Mapping[str, int], wanted: list[Partition]) -> dict[Partition, Start]:
        """Where to begin.

        Args:
            since: a point; "earliest": all that is left; "latest": what is published from now on.
            targets: the topics to read, with their number of partitions.
            wanted: partitions to find starts of.
        Raises:
            InputError: `since` is not a point of this journal.
            PositionExpired: changes since then are no longer in the topic; `earliest` is a position to begin after.
            KafkaUnavailableError: no broker answers.
        """
        # The ends first: what is published between the look-ups must not be passed over.
        ranges = {partition: self._look_up.range(partition) for partition in wanted}
        if since == "earliest":
            return {partition: Start(low) for partition, (low, _) in ranges.items()}
        if since == "latest":
            return {
                partition: self.behind(partition, high, targets[partition[0]])
                for partition, (_, high) in ranges.items()
            }
        if isinstance(since, Newest):
            since = Offsets(_newest(ranges, since.count))
        if isinstance(since, Offsets):
            return {
                partition: self._had(partition, since.next.get(partition, 0), offsets, targets[partition[0]])
                for partition, offsets in ranges.items()
            }
        asked = self._cut(since)
        self._found.clear()
        return {
            partition: self._start(partition, asked, ranges[partition], targets[partition[0]]) for partition in wanted
        }

    def _had(self, partition: Partition, offset: int, offsets: tuple[int, int], count: int) -> Start:
        """A start at an offset of a topic, up to which everything was had. Raises: PositionExpired."""
        low, high = offsets
        if not low <= offset <= high:
            self.expired(partition, low, count)
        return self.behind(partition, offset, count) if offset > 0 else Start(0)

    def behind(self, partition: Partition, offset: int, count: int) -> Start:
        """A start behind an offset of a topic that knows what stands before it: the stream may publish it again.

        Args:
            partition: a partition of a target topic.
            offset: everything below it was delivered, or was not asked for.
            count: the topic's number of partitions.
        """
        low, _ = self._look_up.range(partition)
        first, floors = offset, {}
        for source in self._sources(partition, count):
            last, _ = self._watermark(source, lambda watermark: watermark.ends.get(partition, 0) > offset)
            first = min(first, last.ends.get(partition, low) if last else low)
            if last is not None:
                floors[source] = below(last.to)
        return Start(max(first, low), floors, silent_until=offset)

    def earliest(self, partition: Partition, count: int) -> Position | None:
        """The earliest position after which a subscription can still begin, as far as this partition is concerned."""
        low, _ = self._look_up.range(partition)
        for source in self._sources(partition, count):
            _, following = self._watermark(source, lambda watermark: watermark.ends.get(partition, 0) >= low)
            if following is not None and not following.ends_with_verdict:
                return Position(*source, max(following.to - 1, 0))
        return None

    def _all(self) -> list[Source]:
        """Every journal partition that tells of the domain."""
        return [(topic, number) for topic, epoch in self._journals.items() for number in range(epoch.partitions)]

    def _sources(self, partition: Partition, count: int) -> list[Source]:
        """Journal partitions whose records go to a target partition, but those of which nothing was ever heard."""
        topic, number = partition
        tellers = self._tellers.get(topic, self._journals)
        sources = [source for source in self._all() if source[1] % count == number and source[0] in tellers]
        return [source for source in sources if not self._is_silent(source)] or sources

    def _is_silent(self, source: Source) -> bool:
        """Whether a journal partition is empty, and no stream has spoken of it yet."""
        if source not in self._silent:
            empty = self._look_up.range(source)[1] == 0
            self._silent[source] = empty and self._watermark(source, lambda _: False)[0] is None
        return self._silent[source]

    def _watermark(
        self, source: Source, beyond: Callable[[Watermark], bool]
    ) -> tuple[Watermark | None, Watermark | None]:
        """The last outcome record of a journal partition that is not beyond something, and the first that is."""
        journal, number = source
        outcomes = self._outcomes[journal]
        if outcomes not in self._outcome_partitions:
            self._outcome_partitions[outcomes] = self._look_up.partitions(outcomes)
        partition = (outcomes, number % self._outcome_partitions[outcomes])
        return self._look_up.last(partition, f"{journal}/{number}".encode(), beyond)

    def _start(self, partition: Partition, asked: _Floor, offsets: tuple[int, int], count: int) -> Start:
        low, high = offsets
        sources = self._sources(partition, count)
        first = min((self._first(partition, source, asked, low, high) for source in sources), default=low)
        if first > high:  # the topic was made anew since
            first = low
        if first < low and not self._compacted:
            self.expired(partition, low, count)
        floors = {source: below(asked.last[source] + 1) for source in sources}
        return Start(max(first, low), floors, since_ms=asked.since_ms)

    def _first(self, partition: Partition, source: Source, asked: _Floor, low: int, high: int) -> int:
        """The offset that everything above a cut of one journal partition stands at or behind."""
        last = asked.last[source]
        if source not in self._found:
            self._found[source] = self._watermark(source, lambda watermark: watermark.to > last + 1)[0]
        watermark = self._found[source]
        first = watermark.ends.get(partition, 0) if watermark is not None else 0
        if first < low and source not in asked.named and last >= self._next(source) - 1:
            return high  # an idle partition: nothing stands in the journal above the cut, so nothing can be gone
        return first

    def expired(self, partition: Partition, low: int, count: int) -> NoReturn:
        """Say that what was asked for is gone.

        Raises:
            PositionExpired: always.
        """
        earliest = self.earliest(partition, count)
        raise PositionExpired(
            f"Changes since then are no longer in {partition[0]}, partition {partition[1]}: what is left begins at"
            f" offset {low}" + (f", after {earliest}." if earliest else "."),
            hint='Start with since="earliest" (`--since earliest`) or at that position, or read the states first.',
            earliest=earliest,
            topic=partition[0],
            partition=partition[1],
            offset=low,
        )

    def _cut(self, since: object) -> _Floor:
        if isinstance(since, Mapping):
            return self._given(since)
        positions = positions_of(since)  # type: ignore[arg-type]  # anything may be asked
        if positions is not None:
            return self._after(positions) if positions else self._given({})
        try:
            since_ms = time_ms(since)
            why = f"{since!r} is too far away"
        except ValueError as error:
            since_ms, why = _NO_TIME, str(error)
        if abs(since_ms) < -_NO_TIME:
            return self._from_time(since_ms)
        raise InputError(
            f"`since` is not a valid starting point: {why}.",
            hint="Give a Position, a receipt, several of them, a cut, a time (aware datetime, milliseconds, text), "
            '"earliest" or "latest".',
        )

    def _after(self, positions: list[Position]) -> _Floor:
        """Behind the last of some positions in each partition; the others from the earliest of their times on."""
        for position in positions:
            self._check(position.topic, position.partition, position)
            if not self._journals[position.topic].holds(position.partition, position.value):
                raise PositionExpired(f"The event at {position} is no longer in the journal topic.", earliest=None)
        ends = [Position(*source, below - 1) for source, below in cut_of(positions).items()]
        others = self._from_time(min(map(self._look_up.append_time, ends)))
        named = {(position.topic, position.partition): position.value for position in ends}
        return _Floor({**others.last, **named}, others.since_ms, frozenset(named))

    def _from_time(self, time_ms: int) -> _Floor:
        """The append time of the broker tells exactly which events are older, whatever the clocks did."""
        return _Floor({source: self._before(source, time_ms) for source in self._all()}, time_ms)

    def _before(self, source: Source, time_ms: int) -> int:
        """The last position of a journal partition that is older than a time; -1 where that is not known."""
        # The end first: what is appended between the two look-ups must not be passed over.
        low, high = self._look_up.range(source)
        offset = self._look_up.offset_at(*source, time_ms)
        if offset is None:
            return self._position(source, high) - 1
        return -1 if 0 < low == offset else self._position(source, offset) - 1

    def _given(self, cut: Mapping[object, object]) -> _Floor:
        last = dict.fromkeys(self._all(), -1)
        for key, value in cut.items():
            if not isinstance(key, tuple) or len(key) != 2 or not isinstance(value, int) or isinstance(value, bool):
                raise InputError(
                    f"{key!r}: {value!r} is not a valid entry of a cut.",
                    hint="A cut is {(topic, partition): next position}.",
                )
            topic, number = key
            self._check(topic, number, f"{topic}/{number}/{value}")
            if value > (end := self._position((topic, number), self._look_up.end((topic, number)))):
                raise InputError(
                    f"The journal has not reached {topic}/{number}/{value} yet: its next position there is {end}.",
                    hint="A cut contains the next position of each partition, as a search's `position_vector` does.",
                )
            last[topic, number] = value - 1
        return _Floor(last)

    def _check(self, topic: object, number: object, shown: object) -> None:
        known = self._journals.get(topic) if isinstance(topic, str) else None
        if known is None or not isinstance(number, int) or not 0 <= number < known.partitions:
            raise InputError(
                f"{shown} is not a position of {' or '.join(self._journals)}.",
                hint="Give a position as its receipt prints it.",
            )

    def _next(self, source: Source) -> int:
        """The position that the next event of a journal partition gets."""
        return self._position(source, self._look_up.range(source)[1])

    def _position(self, source: Source, offset: int) -> int:
        return self._journals[source[0]].position(source[1], offset)


def _newest(ranges: Mapping[Partition, tuple[int, int]], count: int) -> dict[Partition, int]:
    """Offsets that have an equal share of the newest records behind them, in each partition that has any."""
    share = -(-count // max(1, sum(low < high for low, high in ranges.values())))
    return {partition: max(low, high - share) for partition, (low, high) in ranges.items()}
