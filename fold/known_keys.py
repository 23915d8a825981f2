"""Which keys of a table have a row at all: their hashes in memory, so that most new ones need not be looked for.

Facts are new nearly always (a run starts once), and to ask the lake for a key that it does not have costs what it
costs for one that it has. Two keys may have one hash, and a row may stand ahead of the marks: whoever finds a key here
still has to look it up.

Invariant: a key that has a row is found; whoever makes rows adds their keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from ..lake import scan
from ..lake.views.table import Readable, TableView, frozen
from ..schemas.encoding.cursor import Numbers
from .hashes import Hashes, hashes_of_rows

_BATCH_ROWS: Final = 100_000


class KnownKeys:
    """The keys of one table. A value never changes.

    Args:
        hashes: of the keys (`hashes_of_rows`).
        most: how many keys are kept.
    """

    __slots__ = ("_hashes", "_most")

    def __init__(self, hashes: Hashes, most: int) -> None:
        self._hashes = hashes
        self._most = most

    @classmethod
    def load(cls, table: Readable, names: list[str], most: int) -> KnownKeys | None:
        """Read the keys of all rows in one pass over their columns.

        Args:
            table: a view of it, or a handle, whose version is the one that is read.
            names: the key columns.
            most: None is given where the table has more rows, old ones included.
        """
        view = frozen(table)
        if sum(view.files["num_records"].to_pylist()) > most:
            return None
        parts = [np.unique(hashes_of_rows(keys)) for keys in _read(view, names)]
        return cls(Hashes().plus(np.concatenate(parts)) if parts else Hashes(), most)

    def hits(self, keys: pa.Table) -> Numbers:
        """Which of some keys (the columns and types that were loaded) may have a row; the others have none."""
        return self._hashes.hits(hashes_of_rows(keys))

    def plus(self, keys: pa.Table) -> KnownKeys | None:
        """The same with more keys; None where they are too many."""
        hashes = self._hashes.plus(hashes_of_rows(keys))
        return KnownKeys(hashes, self._most) if len(hashes) <= self._most else None


def _read(table: TableView, names: list[str]) -> Iterator[pa.Table]:
    """The key columns of all rows, in the table's types."""
    if not table.files.num_rows:
        return
    schema = pa.schema([table.schema.field(name) for name in names])
    with scan.cursor() as cursor:
        rows = scan.source(cursor, table, table.files["path"].to_pylist())
        for batch in cursor.sql(f"select {', '.join(names)} from {rows}").to_arrow_reader(_BATCH_ROWS):
            yield pa.Table.from_batches([batch]).cast(schema)
