"""The history tables beside `entities`: which class of rows goes where, and by which columns a row is found.

Each domain says so of its own, in `ROWS` of its file `rows`: the class of each table's rows, and the class of their
keys. A row is a NamedTuple that begins with `tenant` and its key, then has the fields of COMMON in their order, then
its own. A key is a NamedTuple of the key columns without the tenant, with the table's name as `TABLE` (`FactKey`). The
newest row of a key is what stands. A key column is never null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, Protocol, cast

from ..schemas.domain import Domain
from ..schemas.registry import for_each_domain, role
from .entity import FactKey


class RowsFile(Protocol):
    """The file `rows` of a domain: pure."""

    @property
    def ROWS(self) -> Mapping[type[Any], type[Any]]:  # noqa: N802  (a constant of the module)
        """The class of each table's rows, and that of their keys."""


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

KEYS: Final[dict[str, type[Any]]] = {}
"""The class of each table's keys."""

TABLE_OF: Final[dict[type, str]] = {}
"""The table of each class of rows."""

_KEY_OF: Final[dict[type, Callable[[Any], Any]]] = {}


def key_of(row: Any) -> FactKey:
    """The key of a row."""
    key: FactKey = _KEY_OF[type(row)](row)
    return key


def _taking(key: type[Any]) -> Callable[[Any], Any]:
    """What takes a key out of a row, past the tuple's own slower constructor."""
    columns: tuple[str, ...] = key._fields
    if len(columns) == 1:
        only = attrgetter(*columns)
        return lambda row: tuple.__new__(key, (only(row),))
    several = attrgetter(*columns)
    return lambda row: tuple.__new__(key, several(row))


def _take(domain: Domain) -> None:
    module = role(domain.name, "rows") if domain.served else None
    for row, key in () if module is None else cast(RowsFile, module).ROWS.items():
        KEYS[key.TABLE] = key
        TABLE_OF[row] = key.TABLE
        _KEY_OF[row] = _taking(key)


for_each_domain(_take)
