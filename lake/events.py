"""One event in the lake: its rows in the journal table by its id, and the rows that it made in the history tables.

An id's range stands in the statistics of every file, and ids grow with time, so a look-up opens the few files (and of
them the few row groups) that were written near the event's time, however long the journal is.
A shelved record has no id in the table, since nothing vouches for what stands in it; where its header can be read, its
id is looked for there, in the shelved rows from the event's time on.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

from ..schemas.encoding.codec import PREFIX_BYTES, decode_header_only
from ..schemas.errors import DecodeError
from ..schemas.ids import id_text
from ..schemas.positions import Position
from . import scan
from .declared import SPECS, histories_in
from .entities import milliseconds
from .lookup import rows_of_key
from .table import from_json
from .views.views import View

_MOST_SHELVED: Final = 100
_OF_MADE: Final = ("logical_timestamp", "seq", "deleted")
_FIRST_DAY: Final = date(1970, 1, 1)
_LAST_MS: Final = 253_402_214_400_000
"""Of the last day that the calendar has; an id may name a later time."""


class Made(NamedTuple):
    """A row that an event made.

    Attributes:
        table: name of the history table.
        key: the row's key columns.
        deleted: the row says that the key is gone.
    """

    table: str
    key: dict[str, Any]
    logical_timestamp: int
    seq: int
    deleted: bool


class Judged(NamedTuple):
    """An event as the journal table holds it. Times are milliseconds UTC."""

    position: Position
    tenant: str
    type: str
    aggregate: str
    entities: tuple[str, ...]
    actor: str | None
    append_time: int
    system_time: int
    event_time: int | None
    unit_id: str | None
    outcome: str
    reason: str | None
    detail: Any
    duplicate_of: Position | None


def judged_events(view: View, event_id: str) -> list[Judged]:
    """Every record of an id below the view's marks, oldest first; several where it was sent more than once.

    Args:
        event_id: as receipts print it.
    """
    order = "order by append_time, logical_timestamp"
    records = [_judged(row) for row in rows_of_key(view.journal, {"event_id": event_id}, order).to_pylist()]
    return [record for record in records if _is_below_mark(view, record)]


def event_at(view: View, position: Position) -> tuple[str | None, Judged] | None:
    """The record at a position below the view's marks, with its event's id; None where none stands there.

    The id of a shelved one is what its own header says, which is not checked, and None where that cannot be read.
    """
    key = {"topic": position.topic, "journal_partition": position.partition, "logical_timestamp": position.value}
    for row in rows_of_key(view.journal, key, "").to_pylist():
        judged = _judged(row)
        if not _is_below_mark(view, judged):
            return None
        named = _shelved(row) if row["event_id"] is None else None
        return (row["event_id"], judged) if named is None else (_id_of(row), named)
    return None


def payload_at(view: View, position: Position) -> bytes | None:
    """The bytes of the record at a position below the view's marks; None where none stands there."""
    key = {"topic": position.topic, "journal_partition": position.partition, "logical_timestamp": position.value}
    for row in rows_of_key(view.journal, key, "").to_pylist():
        if _is_below_mark(view, _judged(row)):
            return bytes(row["event_payload"])
    return None


def _id_of(row: dict[str, Any]) -> str:
    return id_text(decode_header_only(row["event_payload"]).event_id)


def shelved_events(view: View, identity: bytes, since_ms: int) -> list[Judged]:
    """Shelved records whose own header names an id, oldest first, at most 100; what the header says is not checked.

    Args:
        identity: the event's 16 bytes.
        since_ms: records from that day on are looked at, milliseconds UTC.
    """
    since = datetime.fromtimestamp(min(since_ms, _LAST_MS) / 1000, UTC).date() if since_ms > 0 else _FIRST_DAY
    table = view.journal
    paths = [file["path"] for file in table.listed if (file.get("partition.system_date") or since) >= since]
    if not paths:
        return []
    with scan.cursor() as cursor:
        result = cursor.sql(
            f"select * from {scan.source(cursor, table, paths)} where outcome = 'shelved' and system_date >= $since "
            f"and substr(hex(event_payload), {2 * PREFIX_BYTES + 1}, 32) = $id "
            f"order by append_time, logical_timestamp limit {_MOST_SHELVED}",
            params={"since": since, "id": identity.hex().upper()},
        )
        rows = result.to_arrow_table().to_pylist()
    return [record for record in map(_shelved, rows) if record is not None and _is_below_mark(view, record)]


class Refused(NamedTuple):
    """What was not taken of late.

    Attributes:
        events: the newest rejected events of a tenant, newest first.
        shelved: how many records were shelved, of whichever tenant: nobody knows theirs.
    """

    events: list[tuple[str, Judged]]
    shelved: int


def refused_events(view: View, tenant: str, since_ms: int, limit: int) -> Refused:
    """What the rules refused since a day, below the view's marks.

    Args:
        since_ms: records from that day on are looked at, milliseconds UTC.
        limit: most events.
    """
    since = datetime.fromtimestamp(since_ms / 1000, UTC).date()
    table = view.journal
    paths = [file["path"] for file in table.listed if (file.get("partition.system_date") or since) >= since]
    if not paths:
        return Refused([], 0)
    with scan.cursor() as cursor:
        source = scan.source(cursor, table, paths)
        rows = cursor.sql(
            f"select * from {source} where outcome = 'rejected' and tenant = $tenant and system_date >= $since "
            f"order by system_time desc, logical_timestamp desc limit {limit:d}",
            params={"since": since, "tenant": tenant},
        )
        found = [(row["event_id"], _judged(row)) for row in rows.to_arrow_table().to_pylist()]
        counted = cursor.sql(
            f"select count(*) as n from {source} where outcome = 'shelved' and system_date >= $since",
            params={"since": since},
        )
        shelved = counted.to_arrow_table().to_pylist()[0]["n"]
    return Refused([(name, judged) for name, judged in found if _is_below_mark(view, judged)], shelved)


def _shelved(row: dict[str, Any]) -> Judged | None:
    try:
        header = decode_header_only(row["event_payload"])
    except DecodeError:
        return None
    return _judged(row)._replace(
        tenant=header.tenant,
        type=header.type,
        aggregate=header.aggregate,
        entities=tuple(header.entities),
        actor=header.actor,
        event_time=header.event_time,
        unit_id=None if header.unit is None else id_text(header.unit.id),
    )


def _is_below_mark(view: View, record: Judged) -> bool:
    """Whether an event stands below the view's marks."""
    return record.position.value < view.journal.mark((record.position.topic, record.position.partition))


def rows_made(view: View, event: Judged, domain: str) -> list[Made]:
    """The rows that an event made in the history tables of its topic, by table in their order.

    Args:
        domain: that of the event's journal topic.
    """
    tables = [name for name in histories_in(domain) if name in view.tables]
    return [made for name in tables for made in _made(view, name, event, domain)]


def key_columns(table: str) -> list[str]:
    """The columns that name what a row of a history table is about: those between its tenant and its aggregate."""
    names = SPECS[table].schema.names
    return list(names[1 : names.index("aggregate")])


def _made(view: View, name: str, event: Judged, domain: str) -> Iterator[Made]:
    """Rows of one table; the statistics of place, tenant and aggregate leave out the files that cannot hold any."""
    place = {"journal_partition": event.position.partition, "logical_timestamp": event.position.value}
    named_by = {"tenant": event.tenant, "aggregate": event.aggregate, "domain": domain, **place}
    names = key_columns(name)
    order = ", ".join(("seq", *names))
    columns = [*names, *_OF_MADE]
    for row in rows_of_key(view.tables[name], named_by, f"order by {order}", columns=columns).to_pylist():
        named = {column: row[column] for column in names}
        yield Made(name, named, row["logical_timestamp"], row["seq"], row["deleted"])


def _judged(row: dict[str, Any]) -> Judged:
    topic, partition = row["topic"], row["journal_partition"]
    original = row["duplicate_of"]
    return Judged(
        Position(topic, partition, row["logical_timestamp"]),
        row["tenant"],
        row["event_type"],
        row["aggregate"],
        tuple(row["entities"] or ()),
        row["actor"],
        milliseconds(row["append_time"]),
        milliseconds(row["system_time"]),
        None if row["event_time"] is None else milliseconds(row["event_time"]),
        row["unit_id"],
        row["outcome"],
        row["reason"],
        from_json(row["detail"]),
        None if original is None else Position(topic, partition, original),
    )
