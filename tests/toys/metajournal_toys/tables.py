"""The tables of toys: how long each player has played with each toy, and the same rows by player, derived."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa

from metajournal.lake.columns import TIMESTAMP
from metajournal.lake.plain import plain_table

from .rows import PlayKey, PlayRow

PLAYS: Final = plain_table(
    PlayRow,
    PlayKey,
    {"toy": pa.string(), "player": pa.string(), "minutes": pa.int64(), "last_played": TIMESTAMP},
    few=("player",),
)
BY_PLAYER: Final = replace(
    PLAYS,
    name="toys_by_player",
    sorted_by=("tenant", "player", "toy", "logical_timestamp", "seq"),
    row=None,  # no event makes its rows: the function in `derived` does, of which this is version 1
    to_arrow=None,
    from_dict=None,
    version=1,
)

TABLES: Final = (PLAYS, BY_PLAYER)
