"""The JSON documents that leave the fold: change records for subscribers, state documents for the index.

They are functions of rows alone; topics, keys and Kafka headers are the stream's. The maps and tag lists in them are
sorted, and shared with the rows: serialise them, do not change them. The four properties that the fold keeps never
stand in a change record, so `previous` always equals the `updated` of the record before it. Source:
docs on the catalog domain, "Change record".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from ..schemas.kinds import domain_of_kind
from ..schemas.limits import RESERVED_PROPERTIES
from ..schemas.urn import Urn
from .entity import EntityRow

Scope = Literal["USER", "SYSTEM"]
Document = dict[str, Any]
Metadata = tuple[Mapping[str, str], tuple[str, ...]]

_Metadata = Callable[[EntityRow | None, EntityRow], tuple[Metadata, Metadata]]
"""The metadata of one scope before and after."""

_NONE: Final[Mapping[str, str]] = {}
_NOTHING: Final[Metadata] = (_NONE, ())
_FEW: Final = 8  # so many tags are sooner compared one by one than made a set


def change_records(before: EntityRow | None, after: EntityRow) -> list[tuple[Scope, Document]]:
    """The MetadataChangeRecords of one new row: one for each scope whose metadata changed, USER first.

    Args:
        before: the entity's row before it, None for its first.
        after: the new row.
    """
    records: list[tuple[Scope, Document]] = []
    for scope, metadata in _SCOPES:
        previous, updated = metadata(before, after)
        if previous is not updated and previous != updated:
            records.append((scope, _change_record(previous, updated, after)))
    return records


def _user(before: EntityRow | None, after: EntityRow) -> tuple[Metadata, Metadata]:
    updated = after.user_properties, after.user_tags
    if before is None:
        return _NOTHING, updated
    if before.user_properties is updated[0] and before.user_tags is updated[1]:
        return updated, updated
    return (before.user_properties, before.user_tags), updated


def _system(before: EntityRow | None, after: EntityRow) -> tuple[Metadata, Metadata]:
    previous = _NOTHING if before is None else (_given(before.system_properties), before.system_tags)
    return previous, (_given(after.system_properties), after.system_tags)


def _given(properties: Mapping[str, str]) -> Mapping[str, str]:
    """SYSTEM properties without those that the fold keeps: for most rows none."""
    if properties.keys() <= RESERVED_PROPERTIES:
        return _NONE
    return {name: value for name, value in properties.items() if name not in RESERVED_PROPERTIES}


_SCOPES: Final[tuple[tuple[Scope, _Metadata], ...]] = (("USER", _user), ("SYSTEM", _system))


def _change_record(previous: Metadata, updated: Metadata, after: EntityRow) -> Document:
    return {
        "previous": _record(*previous),
        "updated": _record(*updated),
        "changes": {"additions": _lacking(updated, previous), "deletions": _lacking(previous, updated)},
        "targetId": target_id(after),
        "updateTime": after.system_time,
        "updater": after.actor,
    }


def _record(properties: Mapping[str, str], tags: Sequence[str]) -> Document:
    return {"properties": properties, "tags": list(tags)}


def _lacking(here: Metadata, there: Metadata) -> Document:
    """What one side has and the other has not, or has otherwise."""
    properties, tags = here
    others, other_tags = there
    return _record(_lacking_properties(properties, others), _lacking_tags(tags, other_tags))


def _lacking_properties(properties: Mapping[str, str], others: Mapping[str, str]) -> Mapping[str, str]:
    if not others or properties is others:
        return properties if not others else _NONE
    return {name: value for name, value in properties.items() if others.get(name) != value}


def _lacking_tags(tags: tuple[str, ...], others: tuple[str, ...]) -> Sequence[str]:
    if not others or tags is others:
        return tags if not others else ()
    return [tag for tag in tags if tag not in others] if len(others) < _FEW else sorted(set(tags).difference(others))


def target_id(row: EntityRow) -> dict[str, str | None]:
    """How a change record names its entity.

    Names of datasets, streams, apps and programs are decoded. The `id` of any other kind is its URN's path as written:
    decoded, two different paths could read the same.
    """
    match row.kind:
        case "dataset" | "stream" | "app":
            return {"type": row.kind, "namespace": row.namespace, "id": row.name}
        case "program":
            _, application, program_type, name = Urn.parse(row.urn).parts
            return {"type": program_type, "namespace": row.namespace, "application": application, "id": name}
        case _:
            return {"type": row.kind, "id": row.urn.partition(":")[2]}


def state_document(row: EntityRow, partition: int) -> Document:
    """The whole current document of an entity, a deleted one included.

    Args:
        row: the entity's newest row.
        partition: the journal partition that the row's position counts in.
    """
    return {
        "tenant": row.tenant,
        "urn": row.urn,
        "kind": row.kind,
        "namespace": row.namespace,
        "name": row.name,
        "domain": domain_of_kind(row.kind),
        "aggregate": row.aggregate,
        "partition": partition,
        "position": row.logical_timestamp,
        "seq": row.seq,
        "logical_timestamp": row.logical_timestamp,
        "system_time": row.system_time,
        "event_time": row.event_time,
        "event_id": row.event_id,
        "actor": row.actor,
        "deleted": row.deleted,
        "user": _record(row.user_properties, row.user_tags),
        "system": _record(row.system_properties, row.system_tags),
    }
