"""Rows of the table `toy_plays`: how long each player has played with each toy."""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple


class PlayRow(NamedTuple):
    """What stands of one toy and player after one event.

    Attributes:
        minutes: of all times together.
        last_played: milliseconds UTC, the latest event time.
    """

    tenant: str
    toy: str
    player: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    minutes: int
    last_played: int


class PlayKey(NamedTuple("PlayKey", [("toy", str), ("player", str)])):
    """The key of a row, without the tenant."""

    __slots__ = ()
    TABLE: ClassVar[str] = "toy_plays"


ROWS: Final = {PlayRow: PlayKey}
