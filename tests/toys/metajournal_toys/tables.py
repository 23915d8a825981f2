"""The table of toys: one row for each time that a player played with a toy, with what adds up to then."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from metajournal.lake.columns import TIMESTAMP
from metajournal.lake.plain import plain_table

from .rows import PlayKey, PlayRow

TABLES: Final = (
    plain_table(
        PlayRow,
        PlayKey,
        {"toy": pa.string(), "player": pa.string(), "minutes": pa.int64(), "last_played": TIMESTAMP},
        few=("player",),
    ),
)
