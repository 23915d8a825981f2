"""Questions to the lake: who played with a toy."""

from __future__ import annotations

from typing import NamedTuple

from metajournal.lake.columns import JOURNAL_TABLE
from metajournal.lake.cuts import At, Cuts
from metajournal.lake.selecting import select_rows
from metajournal.lake.storage.damage import asked_again
from metajournal.lake.tables import Lake

from .rows import PlayKey


class Player(NamedTuple):
    """One who played with a toy, and for how many minutes altogether."""

    player: str
    minutes: int


class ToyQueries:
    """Reads toys from the lake.

    Args:
        lake: where the tables are.
        cuts: finds what a reading sees.
    """

    def __init__(self, lake: Lake, cuts: Cuts) -> None:
        self._lake = lake
        self._cuts = cuts

    @asked_again
    def players(self, tenant: str, toy: str, *, at: At | None = None) -> list[Player]:
        """Who played with a toy, the longest first; now, or as the journal told it at a point."""
        self._lake.refresh((JOURNAL_TABLE, PlayKey.TABLE))
        seen = self._cuts.bounds("toys", at).sql()
        newest = "row_number() over (partition by player order by logical_timestamp desc, seq desc) as age"
        statement = (
            f"select player, minutes from (select player, minutes, {newest} from rows where {seen}) "
            "where age = 1 order by minutes desc, player"
        )
        return [
            Player(*row) for row in select_rows(self._lake, PlayKey.TABLE, {"tenant": tenant, "toy": toy}, statement)
        ]
