"""Plain events to rows of the journal table, column by column: the same rows as `journal` makes of each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from ....fold.journal import DAY_MS, detail_text
from ....fold.records import Place
from ....fold.texts import chosen, id_texts
from ....lake.columns import JOURNAL
from ....lake.entities import microseconds
from ....schemas.encoding.cursor import Numbers
from .columnar import OUTCOMES, Made
from .judging import REJECTED
from .plain import TYPES, Plain

_TYPES: Final = pa.array(TYPES)
_OUTCOMES: Final = pa.array(OUTCOMES)


def journal_columns(place: Place, records: pa.Table, append_time: Numbers, made: Made) -> pa.Table:
    """Rows of the journal table.

    Args:
        place: the partition that the records stand in.
        records: of which some are plain, as `records.records_of` takes them.
        append_time: that of each, milliseconds UTC.
        made: what the plain ones gave.
    """
    plain, count = made.plain, len(made.plain.row)
    verbatim = records if count == records.num_rows else records.take(pa.array(plain.row))
    of_keys = {name: column.combine_chunks() for name, column in made.keys.columns(plain.key).items()}
    columns: dict[str, Any] = {
        "topic": pa.repeat(place.topic, count),
        "journal_partition": pa.repeat(pa.scalar(place.partition, pa.int32()), count),
        "logical_timestamp": pa.array(plain.position),
        "system_date": pa.array((made.system_time // DAY_MS).astype(np.int32)).cast(pa.date32()),
        "system_time": microseconds(made.system_time),
        "append_time": microseconds(append_time[plain.row]),
        "outcome": _OUTCOMES.take(pa.array(made.judged.outcome)),
        **_reasons(made),
        **_header_columns(plain),
        **of_keys,
        "key": verbatim["key"],
        "event_payload": verbatim["value"],
        "headers": verbatim["headers"].cast(JOURNAL.field("headers").type),
    }
    columns["entities"] = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), columns["urn"])
    empty = {field.name: pa.nulls(count, field.type) for field in JOURNAL if field.name not in columns}
    return pa.table([(columns | empty)[field.name] for field in JOURNAL], schema=JOURNAL)


def _reasons(made: Made) -> dict[str, pa.Array]:
    """Why events were rejected."""
    reason_pairs: list[tuple[str | None, str | None]] = [(None, None)] * len(made.judged.outcome)
    for number in np.flatnonzero(made.judged.outcome == REJECTED).tolist():
        verdict = made.verdict(number)
        reason_pairs[number] = verdict.reason, detail_text(verdict.detail)
    reasons, details = zip(*reason_pairs, strict=True)
    return {"reason": pa.array(reasons, pa.string()), "detail": pa.array(details, pa.string())}


def _header_columns(plain: Plain) -> dict[str, pa.Array]:
    """What the events' headers say, but for what follows from their keys."""
    count = len(plain.row)
    return {
        "event_id": id_texts(plain.event_id),
        "event_type": _TYPES.take(pa.array(plain.type)),
        "actor": chosen(plain.actors, plain.actor),
        "event_time": microseconds(plain.event_time),
        "unit_id": chosen(id_texts(plain.units.ids), plain.unit),
        "unit_index": chosen(pa.array(plain.units.places, pa.int32()), plain.unit),
        "unit_count": chosen(pa.array(plain.units.sizes, pa.int32()), plain.unit),
        "cause": chosen(id_texts(plain.causes), plain.cause),
        "repeat": pa.repeat(False, count),
    }
