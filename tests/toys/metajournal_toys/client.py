"""What `journal.domain("toys")` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metajournal import Journal, Urn
from metajournal.producers.receipts import Receipt

from .events import ToyMade, ToyPlayed

if TYPE_CHECKING:
    from metajournal.lake.reading import LakeReader

    from .queries import Player, ToyQueries


class ToysClient:
    """Toys of a journal.

    Args:
        journal: whose.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def make(self, toy: Urn | str, material: str, pieces: int = 1, **said: Any) -> Receipt:
        """Emit ToyMade; `said` are arguments of `Journal.emit`."""
        return self._journal.emit(ToyMade(toy, material, pieces), **said)  # type: ignore[arg-type]

    def play(self, toy: Urn | str, player: str, minutes: int, **said: Any) -> Receipt:
        """Emit ToyPlayed; `said` are arguments of `Journal.emit`."""
        return self._journal.emit(ToyPlayed(toy, player, minutes), **said)  # type: ignore[arg-type]

    def players(self, toy: Urn | str, *, tenant: str | None = None) -> list[Player]:
        """Who played with a toy, the longest first."""
        return self._queries.players(self._tenant(tenant), str(Urn.parse(toy)))

    def of_player(self, player: str, *, tenant: str | None = None) -> list[str]:
        """The toys that somebody has played with, a moment behind the last event."""
        return self._queries.toys_of(self._tenant(tenant), player)

    @property
    def _queries(self) -> ToyQueries:
        return self._journal.opened("toys", _opened)

    def _tenant(self, tenant: str | None) -> str:
        return tenant or self._journal.settings.journal.tenant


def _opened(lake: LakeReader) -> ToyQueries:
    from .queries import ToyQueries  # the light client never needs the lake's packages

    return lake.beside(ToyQueries)


CLIENT = ToysClient
