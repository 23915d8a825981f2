"""The `entities` table: rows of the rules to Arrow and back.

The two directions are each other's inverse; what a row means stands in `rules/entity.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain, pairwise
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ..rules.entity import EntityRow
from .columns import ENTITIES, TIMESTAMP
from .rows import RowColumns, each_once
from .spelling import spelled_all

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
COLUMNS = ", ".join(name for name in ENTITIES.names if name not in ("domain", "journal_partition"))
"""What a look-up selects: all that `row_from_dict` needs."""


def rows_to_arrow(rows: Iterable[tuple[EntityRow, str, int]]) -> pa.Table:
    """Rows of the `entities` table. Built column by column: about a microsecond and a half a row.

    Args:
        rows: (row, domain, journal partition), in position order per partition.
    Returns:
        A table of schema ENTITIES.
    """
    given = list(rows)
    if not given:
        return ENTITIES.empty_table()
    row_columns = RowColumns(given, EntityRow._fields)
    made = {name: microseconds(row_columns.array(name, pa.int64())) for name in ("system_time", "event_time")}
    made["record"] = records(row_columns.values("record"))
    for name in ("user_properties", "system_properties"):
        made[name] = each_once(row_columns.values(name), _maps)
    for name in ("user_tags", "system_tags"):
        made[name] = lists(row_columns.values(name))
    columns = [
        made[field.name] if field.name in made else row_columns.array(field.name, field.type) for field in ENTITIES
    ]
    return pa.table(columns, schema=ENTITIES)


def microseconds(times_ms: Any) -> pa.Array:
    """A column of times from milliseconds UTC: numbers or None, or an array of numbers."""
    return pc.multiply_checked(pa.array(times_ms, pa.int64()), 1000).cast(TIMESTAMP)


def records(values: Sequence[Mapping[str, Any] | None]) -> pa.Array:
    """A column of JSON objects as canonical text; null where there is none."""
    texts = iter(spelled_all([value for value in values if value is not None]))
    return pa.array([None if value is None else next(texts) for value in values], pa.string())


def lists(values: Sequence[Sequence[str]]) -> pa.ListArray:
    """A column of lists of texts."""
    return pa.ListArray.from_arrays(_offsets(values), pa.array(list(chain.from_iterable(values)), pa.string()))


def _offsets(values: Sequence[Sized]) -> pa.Array:
    return pa.array(list(accumulate(map(len, values), initial=0)), pa.int32())


def _maps(values: Sequence[Mapping[str, str]]) -> pa.MapArray:
    """A column of maps, each sorted by key; the rules' maps are sorted already, which is cheaper to see than to do."""
    offsets, names = _offsets(values), pa.array(list(chain.from_iterable(values)), pa.string())
    if not _ascending(names, offsets):
        return _maps([dict(sorted(entries.items())) for entries in values])
    texts = pa.array(list(chain.from_iterable([entries.values() for entries in values])), pa.string())
    return pa.MapArray.from_arrays(offsets, names, texts)


def _ascending(names: pa.Array, offsets: pa.Array) -> bool:
    """Whether the names of each map ascend: wherever one does not, another map begins there."""
    falls = pc.indices_nonzero(pc.less_equal(names[1:], names[:-1]))
    return bool(pc.all(pc.is_in(pc.add(falls.cast(pa.int32()), 1), offsets), min_count=0).as_py())


def row_from_dict(row: Mapping[str, Any]) -> EntityRow:
    """The rules' row of one table row (as `Table.query` gives it)."""
    return EntityRow(
        tenant=row["tenant"],
        urn=row["urn"],
        kind=row["kind"],
        namespace=row["namespace"],
        name=row["name"],
        aggregate=row["aggregate"],
        logical_timestamp=row["logical_timestamp"],
        seq=row["seq"],
        system_time=milliseconds(row["system_time"]),
        event_time=milliseconds(row["event_time"]),
        event_id=row["event_id"],
        actor=row["actor"],
        deleted=row["deleted"],
        record=None if row["record"] is None else orjson.loads(row["record"]),
        user_properties=row["user_properties"] or {},
        user_tags=tuple(row["user_tags"] or ()),
        system_properties=row["system_properties"] or {},
        system_tags=tuple(row["system_tags"] or ()),
    )


def rows_from_arrow(table: pa.Table) -> list[EntityRow]:
    """The rules' rows of table rows, as `row_from_dict` gives them one by one.

    An entry of a list takes a quarter of what it takes `to_pylist`, which makes a scalar of each list first.

    Args:
        table: with the columns of EntityRow's fields, and any others.
    """
    columns = [_values(table[name].combine_chunks(), name) for name in EntityRow._fields]
    return list(map(EntityRow._make, zip(*columns, strict=True)))


def _values(column: pa.Array, name: str) -> list[Any]:
    """The values of a field."""
    if pa.types.is_map(column.type):
        entries = column.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
        names, texts = (part.to_pylist() for part in entries.flatten().flatten())
        maps = [dict(zip(names[first:end], texts[first:end], strict=True)) for first, end in _bounds(entries)]
        if sum(map(len, maps)) != len(names):
            raise ValueError(f"A map of {name} has a key twice.")
        return maps
    if pa.types.is_list(column.type):
        texts = column.flatten().to_pylist()
        return [tuple(texts[first:end]) for first, end in _bounds(column)]
    if pa.types.is_timestamp(column.type):
        return [moment // 1000 for moment in column.cast(TIMESTAMP).cast(pa.int64()).to_pylist()]
    values: list[Any] = column.to_pylist()
    return [None if value is None else orjson.loads(value) for value in values] if name == "record" else values


def _bounds(lists: pa.Array) -> Iterable[tuple[int, int]]:
    """Where the entries of each list begin and end among those of all; of none they are as of an empty one."""
    return pairwise(accumulate(pc.fill_null(pc.list_value_length(lists), 0).to_pylist(), initial=0))


def milliseconds(moment: datetime) -> int:
    """Milliseconds UTC of a time in a table, exactly."""
    return (moment - _EPOCH) // _MILLISECOND
