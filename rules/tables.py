"""The history tables beside `entities`: which class of rows goes where, and by which columns a row is found.

Each domain says so of its own, in `ROWS` of its file `rows`. A row of any of them is a NamedTuple that begins with
`tenant` and its key, then has the fields of COMMON in their order, then its own. The newest row of a key is what
stands. A key column is never null.
"""

from __future__ import annotations

from typing import Final

from ..schemas.domain import Domain
from ..schemas.registry import for_each_domain, role

COMMON: Final = (
    "aggregate",
    "logical_timestamp",
    "seq",
    "system_time",
    "event_time",
    "event_id",
    "actor",
    "deleted",
)
"""Fields of every row: as those of `entity.EntityRow`."""

KEYS: Final[dict[str, tuple[str, ...]]] = {}
"""Key columns of each table, without the tenant."""

TABLE_OF: Final[dict[type, str]] = {}
"""The table of each class of rows."""


def _take(domain: Domain) -> None:
    module = role(domain.name, "rows") if domain.served else None
    for row, (table, key) in {} if module is None else module.ROWS.items():
        KEYS[table] = key
        TABLE_OF[row] = table


for_each_domain(_take)
