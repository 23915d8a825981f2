"""Judged records to rows of the journal table: verbatim bytes, decoded header, outcome."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..lake.columns import JOURNAL
from ..lake.entities import lists, microseconds
from ..rules.admission import EARLIEST_MS, LATEST_MS
from ..schemas.header import Header
from ..schemas.ids import id_text
from .folded import Folded, Judged
from .records import Place, Record

DAY_MS: Final = 86_400_000


def journal_rows(judged: Iterable[tuple[Place, Judged]]) -> pa.Table:
    """Rows of the journal table.

    Args:
        judged: each record with its verdict and the partition it stands in, in position order per partition.
    Returns:
        A table of schema JOURNAL.
    """
    given = list(judged)
    places = [place for place, _ in given]
    records = [judgement.record for _, judgement in given]
    verbatim = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "event_payload": pa.array([record.value for record in records], pa.binary()),
        "headers": pa.array([_header_dicts(record) for record in records], JOURNAL.field("headers").type),
    }
    return _table(places, [judgement for _, judgement in given], verbatim)


def _header_dicts(record: Record) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in record.headers]


def journal_table(folded: Folded) -> pa.Table:
    """The same rows of one partition's records; what is verbatim goes from column to column where there are columns."""
    given, columns = folded.judged, folded.columns
    if columns is None:
        return journal_rows((folded.place, judgement) for judgement in given)
    headers = columns["headers"].cast(JOURNAL.field("headers").type)
    verbatim = {
        "key": columns["key"],
        "event_payload": columns["value"],
        "headers": pc.fill_null(headers, pa.scalar([], headers.type)) if headers.null_count else headers,
    }
    return _table([folded.place] * len(given), given, verbatim)


def _table(places: Sequence[Place], judged: Sequence[Judged], verbatim: Mapping[str, Any]) -> pa.Table:
    """The columns of the journal table, those about the event from its header."""
    records = [judgement.record for judgement in judged]
    verdicts = [judgement.verdict for judgement in judged]
    made = {
        "topic": pa.array([place.topic for place in places], pa.string()),
        "journal_partition": pa.array([place.partition for place in places], pa.int32()),
        "logical_timestamp": pa.array([record.position for record in records], pa.int64()),
        "system_date": pa.array([judgement.system_time // DAY_MS for judgement in judged], pa.int32()).cast(
            pa.date32()
        ),
        "system_time": microseconds([judgement.system_time for judgement in judged]),
        "append_time": microseconds([record.append_time for record in records]),
        "outcome": pa.array([verdict.outcome for verdict in verdicts], pa.string()),
        "reason": pa.array([verdict.reason for verdict in verdicts], pa.string()),
        "detail": pa.array([detail_text(verdict.detail) for verdict in verdicts], pa.string()),
        "duplicate_of": pa.array([verdict.duplicate_of for verdict in verdicts], pa.int64()),
        **_header_columns([judgement.header for judgement in judged]),
        **verbatim,
    }
    return pa.table([made[field.name] for field in JOURNAL], schema=JOURNAL)


def detail_text(detail: Any) -> str | None:
    """A verdict's detail as the table has it."""
    return None if detail is None else json.dumps(detail, ensure_ascii=False, sort_keys=True)


def _header_columns(headers: Sequence[Header | None]) -> dict[str, pa.Array]:
    """The columns of the events' headers; all null where a record is no event."""
    columns = zip(*[_NO_HEADER if header is None else header for header in headers], strict=True)
    by_field = dict(zip(Header._fields, columns, strict=True)) if headers else dict.fromkeys(Header._fields, ())
    units: Any = by_field["unit"]
    return {
        "event_id": _ids(by_field["event_id"]),
        "tenant": pa.array(by_field["tenant"], pa.string()),
        "event_type": pa.array(by_field["type"], pa.string()),
        "aggregate": pa.array(by_field["aggregate"], pa.string()),
        "entities": _entities(by_field["entities"]),
        "actor": pa.array(by_field["actor"], pa.string()),
        "event_time": microseconds([_in_range(time_ms) for time_ms in by_field["event_time"]]),
        "expected": pa.array(by_field["expected"], pa.int64()),
        "unit_id": _ids([unit and unit.id for unit in units]),
        "unit_index": pa.array([unit and unit.index for unit in units], pa.int32()),
        "unit_count": pa.array([unit and unit.count for unit in units], pa.int32()),
        "cause": _ids(by_field["cause"]),
        "repeat": pa.array(by_field["repeat"], pa.bool_()),
    }


_NO_HEADER: Final = (None,) * len(Header._fields)


def _in_range(time_ms: int | None) -> int | None:
    return time_ms if time_ms is not None and EARLIEST_MS <= time_ms <= LATEST_MS else None


def _ids(ids: Sequence[bytes | None]) -> pa.Array:
    """A column of ids as text."""
    return pa.array([identity and id_text(identity) for identity in ids], pa.string())


def _entities(values: Sequence[Sequence[str] | None]) -> pa.Array:
    """A column of lists; a record that is no event has none, which is not an empty one."""
    column = lists([value or () for value in values])
    if None not in values:
        return column
    missing = pa.array([value is None for value in values])
    return pc.if_else(missing, pa.scalar(None, column.type), column)
