"""Positions: where an event stands in the journal, and cuts through all partitions.

A position is `epoch * 2**40 + offset`, epochs from 1, so positions of one journal partition grow for ever, also when
a topic is restored under a new epoch. Positions of different partitions are never compared: a cut holds one for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from .errors import InvalidPositionError

EPOCH_SHIFT: Final = 40
MAX_OFFSET: Final = (1 << EPOCH_SHIFT) - 1
MAX_EPOCH: Final = (1 << (63 - EPOCH_SHIFT)) - 1

Cut: TypeAlias = Mapping[tuple[str, int], int]
"""The *next* position of each (topic, partition), as a mark is: everything below it is inside."""


def position(epoch: int, offset: int) -> int:
    """Position of an offset in an epoch.

    Raises:
        InvalidPositionError: the epoch is below 1 or the offset outside [0, 2**40).
    """
    if not 1 <= epoch <= MAX_EPOCH or not 0 <= offset <= MAX_OFFSET:
        raise InvalidPositionError(
            f"Epoch {epoch}, offset {offset} is not a valid position.", epoch=epoch, offset=offset
        )
    return (epoch << EPOCH_SHIFT) + offset


BEGIN: Final = position(1, 0)
"""No event stands in front of it."""


def epoch_of(value: int) -> int:
    """Epoch of a position, from 1."""
    return value >> EPOCH_SHIFT


def offset_of(value: int) -> int:
    """Kafka offset of a position."""
    return value & MAX_OFFSET


@dataclass(frozen=True, slots=True)
class Position:
    """One place in the journal; prints as `topic/partition/value`."""

    topic: str
    partition: int
    value: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.value}"

    @property
    def epoch(self) -> int:
        return epoch_of(self.value)

    @property
    def offset(self) -> int:
        return offset_of(self.value)

    def covers(self, other: Position) -> bool:
        """Whether whoever has read up to here has read another position; of another partition that says nothing."""
        return (other.topic, other.partition) == (self.topic, self.partition) and other.value <= self.value

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read the printed form.

        Raises:
            InvalidPositionError: the text is not of the form `topic/partition/value`.
        """
        topic, _, rest = text.partition("/")
        partition, _, value = rest.partition("/")
        if not topic or not _is_number(partition) or not _is_number(value):
            raise InvalidPositionError(f"{text!r} is not a valid position.", text=text)
        return cls(topic, int(partition), int(value))


class Placed(Protocol):
    """What stands at a position of the journal: a receipt, a change, a state."""

    @property
    def position(self) -> Position: ...


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19


def cut_of(positions: Iterable[Position]) -> dict[tuple[str, int], int]:
    """The cut behind the last of the given positions in each topic and partition: their events are inside."""
    cut: dict[tuple[str, int], int] = {}
    for position in positions:
        key = (position.topic, position.partition)
        cut[key] = max(cut.get(key, 0), position.value + 1)
    return cut


def positions_of(value: Position | Placed | Iterable[Position | Placed]) -> list[Position] | None:
    """The positions that a caller names: one, or several; each itself or by what stands there.

    Returns:
        None where it is something else, a cut too.
    """
    if isinstance(value, Mapping | str | bytes):
        return None
    several = value if isinstance(value, Iterable) else [value]
    items = [item if isinstance(item, Position) else getattr(item, "position", None) for item in several]
    positions = [item for item in items if isinstance(item, Position)]
    return positions if len(positions) == len(items) else None


def merge(*cuts: Cut) -> dict[tuple[str, int], int]:
    """The least cut that holds all given ones: the greatest position per topic and partition."""
    merged: dict[tuple[str, int], int] = {}
    for cut in cuts:
        for key, value in cut.items():
            merged[key] = max(merged.get(key, value), value)
    return merged


def shows(marks: Cut, wanted: Position) -> bool:
    """Whether marks (next positions) are beyond a position, so that its event is inside."""
    return marks.get((wanted.topic, wanted.partition), 0) > wanted.value


def behind(marks: Cut, wanted: Cut) -> dict[tuple[str, int], int]:
    """How many positions each partition lacks until marks reach the wanted marks; reached ones are left out."""
    lacking = {key: value - marks.get(key, epoch_of(value) << EPOCH_SHIFT) for key, value in wanted.items()}
    return {key: count for key, count in lacking.items() if count > 0}


def behind_text(lacking: Mapping[tuple[str, int], int]) -> str:
    """How far somebody is behind, for people: the partitions of `behind`."""
    return ", ".join(f"{topic}/{partition} by {count:,}" for (topic, partition), count in sorted(lacking.items()))


def cut_to_json(cut: Cut) -> dict[str, dict[str, int]]:
    """JSON form of a cut: `{topic: {partition: position}}`, sorted."""
    result: dict[str, dict[str, int]] = {}
    for (topic, partition), value in sorted(cut.items()):
        result.setdefault(topic, {})[str(partition)] = value
    return result


def cut_from_json(data: Any) -> dict[tuple[str, int], int]:
    """Read the JSON form of a cut.

    Raises:
        InvalidPositionError: the data has another shape.
    """
    try:
        return {
            (str(topic), int(partition)): int(value)
            for topic, partitions in data.items()
            for partition, value in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise InvalidPositionError(f"{data!r} is not a valid cut.") from None
