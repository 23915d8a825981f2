"""What became of an event: the verdicts that a receipt's `outcome` gives, and the record that carries them.

The rules decide (rules/), the stream writes one record for a range of positions of a journal partition, and everything
in that range that the record does not name was accepted. Values only; reading the topic is outcomes' job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

from ..schemas.errors import RejectedError
from ..schemas.positions import Position
from ..schemas.registry import role
from ..schemas.rejections import next_step
from ..schemas.untrusted import json_object, whole


class ErrorsFile(Protocol):
    """The file `errors` of a domain that has classes of its own for why its rules reject events."""

    def refusal(self, rejected: RejectedError) -> RejectedError:
        """The error of a rejection, by its reason; any other one as it is."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The event changed its entity."""

    word: ClassVar[str] = "accepted"
    position: Position

    def raise_if_rejected(self) -> Accepted:
        """This verdict itself: nothing was refused."""
        return self


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The event is valid and changed nothing."""

    word: ClassVar[str] = "unchanged"
    position: Position

    def raise_if_rejected(self) -> Unchanged:
        """This verdict itself: nothing was refused."""
        return self


@dataclass(frozen=True, slots=True)
class Rejected:
    """The rules refused the event; it stays in the log without effect."""

    word: ClassVar[str] = "rejected"
    position: Position
    reason: str
    """`unknown-entity`, `too-large`, `stale-entity`, `invalid` or `wrong-aggregate`."""
    detail: Any = None

    def raise_if_rejected(self) -> Rejected:
        """Raises: RejectedError: always; where the event's domain has a class of its own for the reason, that."""
        topic = self.position.topic
        error = RejectedError(self.reason, self.detail, self.position)
        file: ErrorsFile | Any = role(topic.rpartition(".")[2], "errors")
        if hasattr(file, "refusal"):
            error = file.refusal(error)
        error.advise(next_step(self.reason, topic))
        raise error


@dataclass(frozen=True, slots=True)
class Shelved:
    """The record could not be read; its bytes are kept and it has no effect."""

    word: ClassVar[str] = "shelved"
    position: Position
    reason: str

    def raise_if_rejected(self) -> Shelved:
        """Raises: RejectedError: always; a shelved event has no effect, as a rejected one."""
        raise RejectedError("shelved", self.reason, self.position)


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The event stands in the log already; the earlier one's verdict is this one's."""

    word: ClassVar[str] = "duplicate"
    position: Position
    of: Position
    """Where the earlier one stands."""
    original: Accepted | Unchanged | Rejected | Shelved
    """The earlier one's verdict."""

    def raise_if_rejected(self) -> Duplicate:
        """This verdict itself. Raises: RejectedError: the earlier event was rejected or shelved."""
        self.original.raise_if_rejected()
        return self


Outcome: TypeAlias = Accepted | Unchanged | Duplicate | Rejected | Shelved


@dataclass(frozen=True, slots=True)
class UnitOutcome:
    """The outcomes of a unit's events; each aggregate is accepted or rejected separately."""

    events: tuple[tuple[str, Outcome], ...]
    """Aggregate and verdict of each event, in the unit's order."""

    @property
    def aggregates(self) -> dict[str, tuple[Outcome, ...]]:
        """The verdicts by aggregate, each in order."""
        outcomes: dict[str, tuple[Outcome, ...]] = {}
        for aggregate, outcome in self.events:
            outcomes[aggregate] = (*outcomes.get(aggregate, ()), outcome)
        return outcomes

    def raise_if_rejected(self) -> UnitOutcome:
        """This verdict itself. Raises: RejectedError: of the first event without effect that was refused."""
        for _, outcome in self.events:
            outcome.raise_if_rejected()
        return self


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """One record of an outcomes topic: the verdicts of a range of positions of one journal partition."""

    topic: str
    partition: int
    start: int
    """First position of the range."""
    end: int
    """The mark: the position after the range."""
    verdicts: dict[int, list[Any]]
    """Wire form of every verdict that is not plainly accepted, by position."""
    system_time: int
    """Running system time at the end of the range, ms."""

    @classmethod
    def parse(cls, value: bytes) -> OutcomeRecord:
        """Read a record's JSON.

        Raises:
            one of UNREADABLE: the bytes are no outcome record.
        """
        record = json_object(value)
        start, end = whole(record["from"]), whole(record["to"])
        verdicts = {whole(verdict[0]): verdict for verdict in record["verdicts"]}
        if (verdicts and not start <= min(verdicts) <= max(verdicts) < end) or start > end:
            raise ValueError("it contains positions outside its range")
        topic, partition = str(record["topic"]), whole(record["partition"])
        for position, verdict in verdicts.items():
            outcome_of(Position(topic, partition, position), verdict)
        return cls(topic, partition, start, end, verdicts, whole(max(record["system_time"], 0)))


def outcome_of(position: Position, verdict: list[Any] | None) -> Outcome:
    """The verdict of a position from its wire form; None: not named in its record, so accepted."""
    if verdict is None:
        return Accepted(position)
    word, data = verdict[1], (verdict[2] if len(verdict) > 2 else {})
    if word == Duplicate.word:
        of = Position(position.topic, position.partition, whole(data["of"]))
        return Duplicate(position, of, _plain(of, data.get("outcome", Accepted.word), data))
    return _plain(position, word, data)


def _plain(position: Position, word: str, data: Mapping[str, Any]) -> Accepted | Unchanged | Rejected | Shelved:
    if word == Accepted.word:
        return Accepted(position)
    if word == Unchanged.word:
        return Unchanged(position)
    if word == Rejected.word:
        return Rejected(position, str(data["reason"]), data.get("detail"))
    if word == Shelved.word:
        return Shelved(position, str(data.get("reason", "")))
    raise ValueError(f"unknown verdict {word!r} at {position}")
