"""The newest rows of all entities, kept as columns: what a start or a backlog leaves is then looked up in memory.

A look-up of a few hundred random keys decodes nearly every row group of a table, several times a second. As long as
the table is not too large, one pass over it answers all of them, those of unknown entities included. Kept in columns,
a row takes a few hundred bytes; Python's values are made of those rows alone that are asked for.

Invariant: a snapshot speaks of the moment of its marks. Who folds on keeps the rows made since over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ..lake import scan
from ..lake.digest import below
from ..lake.entities import row_from_dict
from ..lake.table import PartitionKey
from ..lake.views.table import Readable, frozen
from ..rules.entity import EntityRow
from .hashes import hashes_of_rows

_HISTORY = 4
"""Most rows of the whole history for each row that may be kept: reading it must stay a matter of a second."""
RowKey = tuple[str, str]


class Snapshot:
    """Newest rows by key.

    Args:
        rows: one row a key, columns of the `entities` table.
    """

    def __init__(self, rows: pa.Table) -> None:
        hashes = hashes_of_rows(rows.select(["tenant", "urn"]))
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        self._rows = rows.take(pa.array(order)).combine_chunks()

    @classmethod
    def load(cls, table: Readable, marks: Mapping[PartitionKey, int], most_rows: int) -> Snapshot | None:
        """Read the newest rows below the marks.

        Args:
            table: a view of the `entities` table, or a handle, whose version is the one that is read.
            marks: next position per (journal topic, partition).
            most_rows: None is given where there are more, or where the history is much longer.
        """
        view = frozen(table)
        files, schema = view.files, view.schema
        if not files.num_rows:
            return cls(schema.empty_table())
        if sum(files["num_records"].to_pylist()) > _HISTORY * most_rows:
            return None
        with scan.cursor() as cursor:
            rows = scan.source(cursor, view, files["path"].to_pylist())
            statement = f"""
                with lake_rows as not materialized (select * from {rows} where {below(schema, marks)}),
                newest as (select tenant, urn, max((logical_timestamp, seq)) as place from lake_rows group by all)
                select {", ".join(f"lake_rows.{name}" for name in schema.names)} from lake_rows join newest
                on lake_rows.tenant = newest.tenant and lake_rows.urn = newest.urn
                and lake_rows.logical_timestamp = newest.place[1] and lake_rows.seq = newest.place[2]
            """
            newest = cursor.sql(statement).to_arrow_table().cast(schema)
        return cls(newest) if newest.num_rows <= most_rows else None

    def rows(self, keys: Iterable[RowKey]) -> dict[RowKey, EntityRow]:
        """The newest rows of some keys; a key that is missing had none."""
        wanted = sorted(keys)
        tenants = pa.array([tenant for tenant, _ in wanted], pa.string())
        hashes = hashes_of_rows(pa.table({"tenant": tenants, "urn": pa.array([urn for _, urn in wanted], pa.string())}))
        first = np.searchsorted(self._hashes, hashes, "left")
        last = np.searchsorted(self._hashes, hashes, "right")
        places = [place for begin, end in zip(first, last, strict=True) for place in range(begin, end)]
        asked = set(wanted)
        made = map(row_from_dict, self._taken(places))
        return {key: row for row in made if (key := (row.tenant, row.urn)) in asked}  # two keys may have one hash

    def _taken(self, places: list[int]) -> list[dict[str, Any]]:
        taken = self._rows.take(pa.array(places, pa.int64()))
        dicts: list[dict[str, Any]] = taken.to_pylist(maps_as_pydicts="strict")
        return dicts
