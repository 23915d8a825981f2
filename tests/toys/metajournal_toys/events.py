"""Events of toys. An event keeps what it was given; `validate` lists every fault of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from metajournal.schemas.errors import Fault, InvalidEventError
from metajournal.schemas.events.base import as_urn, text_fault
from metajournal.schemas.events.checks import urn_faults
from metajournal.schemas.urn import Urn

MAX_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class ToyEvent:
    """What the events of toys share: the one toy that they are about."""

    TYPE: ClassVar[str] = ""
    URN_FIELDS: ClassVar[frozenset[str]] = frozenset({"toy"})

    toy: Urn

    def __post_init__(self) -> None:
        object.__setattr__(self, "toy", as_urn(self.toy))

    @property
    def entities(self) -> tuple[Urn, ...]:
        """The toy. Raises: InvalidEventError: it is no toy's URN."""
        faults = self._toy_faults()
        if faults:
            raise InvalidEventError(faults)
        return (self.toy,)

    @property
    def aggregate(self) -> Urn:
        """The toy's box. Raises: InvalidEventError: it is no toy's URN."""
        return self.entities[0].aggregate

    def validate(self) -> list[Fault]:
        """Every fault of the event, with its field; empty for a valid one."""
        return self._toy_faults()

    def _toy_faults(self) -> list[Fault]:
        faults = urn_faults("toy", self.toy)
        if not faults and self.toy.kind != "toy":
            return [Fault("toy", f"must be a toy, not a {self.toy.kind}")]
        return faults


@dataclass(frozen=True, slots=True)
class ToyMade(ToyEvent):
    """A toy is there, or is made otherwise than it was."""

    TYPE: ClassVar[str] = "toys.ToyMade.1"

    material: str
    pieces: int = 1

    def validate(self) -> list[Fault]:
        why = text_fault(self.material, empty=False, limit_bytes=200)
        faults = self._toy_faults() + ([Fault("material", why)] if why else [])
        return faults + _number_faults("pieces", self.pieces, 1_000_000)


@dataclass(frozen=True, slots=True)
class ToyPlayed(ToyEvent):
    """Somebody played with a toy."""

    TYPE: ClassVar[str] = "toys.ToyPlayed.1"

    player: str
    minutes: int

    def validate(self) -> list[Fault]:
        why = text_fault(self.player, empty=False, limit_bytes=200)
        faults = self._toy_faults() + ([Fault("player", why)] if why else [])
        return faults + _number_faults("minutes", self.minutes, MAX_MINUTES)


@dataclass(frozen=True, slots=True)
class ToyLost(ToyEvent):
    """A toy is gone; who played with it stays known."""

    TYPE: ClassVar[str] = "toys.ToyLost.1"


EVENTS: Final = (ToyMade, ToyPlayed, ToyLost)


def _number_faults(field: str, value: Any, most: int) -> list[Fault]:
    if type(value) is int and 1 <= value <= most:
        return []
    return [Fault(field, f"must be a whole number from 1 to {most:,}, not {value!r:.40}")]
