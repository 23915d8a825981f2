"""The derived table of toys: plays by player, so that what somebody played with is one small piece to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from metajournal.fold.derived import Derived, Earlier, File, Piece, Rows

from .rows import PlayKey
from .tables import BY_PLAYER


def _by_player(piece: Piece, _: Earlier) -> Iterator[Rows | File]:
    yield Rows(BY_PLAYER.name, piece.rows[PlayKey.TABLE].select(BY_PLAYER.schema.names))


DERIVED: Final = (
    Derived("toys_by_player", (BY_PLAYER.name,), {PlayKey.TABLE: tuple(BY_PLAYER.schema.names)}, _by_player),
)
