"""The history tables by name: how their rows become Arrow and come back.

`entities` has a module of its own; every other table belongs to a domain, whose module registers it here. What a row
means stands in `rules`, the columns in `columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from . import entities, file_records, lineage


class History(NamedTuple):
    """One history table's rows.

    Attributes:
        to_arrow: rows as (row, domain, journal partition), in position order per partition, to a table of its schema.
        from_dict: the row of one table row as a dict.
    """

    to_arrow: Callable[[Iterable[tuple[Any, str, int]]], pa.Table]
    from_dict: Callable[[Mapping[str, Any]], Any]


HISTORIES: Final[Mapping[str, History]] = {
    "entities": History(entities.rows_to_arrow, entities.row_from_dict),
    **{table: History(*ways) for table, ways in lineage.HISTORIES.items()},
    "file_records": History(file_records.rows_to_arrow, file_records.row_from_dict),
}
