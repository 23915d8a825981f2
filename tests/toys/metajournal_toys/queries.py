"""Questions to the lake: who played with a toy."""

from __future__ import annotations

from typing import NamedTuple

from metajournal.lake.cuts import At
from metajournal.lake.derived import seen_of_derived
from metajournal.lake.queries import Queries
from metajournal.lake.selecting import select_rows
from metajournal.lake.views.views import asked_anew

from .rows import PlayKey
from .tables import BY_PLAYER


class Player(NamedTuple):
    """One who played with a toy, and for how many minutes altogether."""

    player: str
    minutes: int


class ToyQueries(Queries):
    """Reads toys from the lake; its arguments are those of `Queries`."""

    TOPIC = "toys"
    TABLES = (PlayKey.TABLE, BY_PLAYER.name)

    @asked_anew
    def players(self, tenant: str, toy: str, *, as_at: At | None = None) -> list[Player]:
        """Who played with a toy, the longest first; now, or as recorded in the journal at a point."""
        view, bounds = self._seen(as_at)
        newest = "row_number() over (partition by player order by logical_timestamp desc, seq desc) as age"
        statement = (
            f"select player, minutes from (select player, minutes, {newest} from rows where {bounds.sql()}) "
            "where age = 1 order by minutes desc, player"
        )
        return [Player(*row) for row in select_rows(view, PlayKey.TABLE, {"tenant": tenant, "toy": toy}, statement)]

    @asked_anew
    def toys_of(self, tenant: str, player: str, *, as_at: At | None = None) -> list[str]:
        """The toys that somebody has played with, as far as the derived table is; one that is not made yet is empty."""
        view, bounds = self._seen(as_at)
        if BY_PLAYER.name not in view.tables:
            return []
        seen = seen_of_derived(view, (BY_PLAYER.name,), bounds)
        statement = f"select distinct toy from rows where {seen.sql()} order by toy"
        key = {"tenant": tenant, "player": player}
        return [toy for (toy,) in select_rows(view, BY_PLAYER.name, key, statement)]
