"""Rows as most domains make them: an entity's row after an event, and what the rows of every table begin with.

A domain whose rules judge thousands of entities in one event makes its rows by itself (see `domains/files/rules.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..schemas.header import Header
from ..schemas.ids import id_text
from ..schemas.urn import Urn
from .entity import At, EntityRow


class Origin(NamedTuple):
    """What every row of a history table says of its event, in the order of `tables.COMMON`."""

    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool


def origin(header: Header, at: At, *, seq: int = 0, deleted: bool = False) -> Origin:
    """Where a row comes from.

    Args:
        header, at: the event's.
        seq: the row's place among the rows that the event adds to its table, from 0.
        deleted: what the key names ends here.
    """
    return Origin(
        header.aggregate, at.position, seq, at.system_time, header.event_time, id_text(header.event_id), header.actor,
        deleted,
    )  # fmt: skip


def live(row: EntityRow | None) -> EntityRow | None:
    """An entity's newest row, if the entity is there."""
    return None if row is None or row.deleted else row


def entity_row(
    header: Header, at: At, urn: Urn, before: EntityRow | None, *, record: Mapping[str, Any] | None, seq: int = 0
) -> EntityRow:
    """The row of an entity that an event begins or changes.

    Tags and properties stay as they were; the four SYSTEM properties that the fold keeps are brought up to date.

    Args:
        header, at: the event's.
        urn: one of the entities that the header names.
        before: its live row; None where it begins.
        record: what the domain says of it, as JSON values.
        seq: the row's place among the entities of the event, from 0.
    """
    system = {} if before is None else dict(before.system_properties)
    if before is None:
        system["creation_time"] = str(at.system_time)
        if header.actor is not None:
            system["created_by"] = header.actor
    system.pop("last_updated_by", None)
    system["last_update_time"] = str(at.system_time)
    if header.actor is not None:
        system["last_updated_by"] = header.actor
    where = origin(header, at, seq=seq)
    return EntityRow(
        header.tenant, urn, urn.kind, urn.namespace, urn.name, *where, record,
        {} if before is None else before.user_properties,
        () if before is None else before.user_tags,
        dict(sorted(system.items())),
        () if before is None else before.system_tags,
    )  # fmt: skip


def ended_row(header: Header, at: At, before: EntityRow, *, seq: int = 0) -> EntityRow:
    """The row of an entity that an event ends, with everything that it carried."""
    where = origin(header, at, seq=seq, deleted=True)
    return EntityRow(
        header.tenant, before.urn, before.kind, before.namespace, before.name, *where, None, {}, (), {}, ()
    )  # fmt: skip
