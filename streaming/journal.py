"""Judged records to rows of the journal table: verbatim bytes, decoded header, outcome."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa

from ..lake.columns import JOURNAL
from ..rules.admission import EARLIEST_MS, LATEST_MS
from ..schemas.header import Header
from ..schemas.ids import id_text
from .fold import Judged
from .records import Place

_DAY_MS = 86_400_000


def journal_rows(judged: Iterable[tuple[Place, Judged]]) -> pa.Table:
    """Rows of the journal table.

    Args:
        judged: each record with its verdict and the partition it stands in, in position order per partition.
    Returns:
        A table of schema JOURNAL.
    """
    rows = [_row(place, one) for place, one in judged]
    return pa.Table.from_pylist(rows, schema=JOURNAL)


def _row(place: Place, one: Judged) -> dict[str, Any]:
    record, verdict = one.record, one.verdict
    detail = verdict.detail
    return {
        "topic": place.topic,
        "journal_partition": place.partition,
        "logical_timestamp": record.position,
        "system_date": _day(one.system_time // _DAY_MS),
        "system_time": one.system_time * 1000,
        "append_time": record.append_time * 1000,
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "detail": None if detail is None else json.dumps(detail, ensure_ascii=False, sort_keys=True),
        "duplicate_of": verdict.duplicate_of,
        "key": record.key,
        "event_payload": record.value,
        "headers": [{"key": name, "value": value} for name, value in record.headers],
        **(_header(one.header) if one.header else {}),
    }


def _header(header: Header) -> dict[str, Any]:
    unit = header.unit
    return {
        "event_id": id_text(header.event_id),
        "tenant": header.tenant,
        "event_type": header.type,
        "aggregate": header.aggregate,
        "entities": list(header.entities),
        "actor": header.actor,
        "event_time": header.event_time * 1000 if EARLIEST_MS <= header.event_time <= LATEST_MS else None,
        "expected": header.expected,
        "unit_id": unit and id_text(unit.id),
        "unit_index": unit and unit.index,
        "unit_count": unit and unit.count,
        "cause": header.cause and id_text(header.cause),
        "repeat": header.repeat,
    }


@lru_cache(maxsize=64)
def _day(number: int) -> Any:
    return datetime.fromtimestamp(number * 86_400, UTC).date()
