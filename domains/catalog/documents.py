"""The change records of annotations, of entities of every domain: what changed in each scope.

They are functions of rows alone. The maps and tag lists in them are sorted, and shared with the rows: serialise them,
do not change them. The four properties that the fold keeps never stand in a change record, so `previous` always equals
the `updated` of the record before it. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

from ...rules.documents import Document, metadata_record
from ...rules.entity import EntityRow
from ...schemas.limits import RESERVED_PROPERTIES
from ...schemas.topics import TopicNames
from ...schemas.urn import Urn

CHANGE_TYPE: Final = "metajournal.catalog.MetadataChangeRecord"
Scope = Literal["USER", "SYSTEM"]
Metadata = tuple[Mapping[str, str], tuple[str, ...]]

_NONE: Final[Mapping[str, str]] = {}
_NOTHING: Final[Metadata] = (_NONE, ())
_FEW: Final = 8  # so many tags are sooner compared one by one than made a set


def records_of_change(
    before: EntityRow | None, after: EntityRow, names: TopicNames
) -> Iterator[tuple[str, str, Document]]:
    """Topic, type and content of each record that a new row of an entity gives."""
    for scope, record in change_records(before, after):
        yield _topics(names)[scope], CHANGE_TYPE, record


@lru_cache(maxsize=16)
def _topics(names: TopicNames) -> Mapping[Scope, str]:
    return {"USER": names.annotations, "SYSTEM": names.annotations_system}


def change_records(before: EntityRow | None, after: EntityRow) -> list[tuple[Scope, Document]]:
    """The MetadataChangeRecords of one new row: one for each scope whose metadata changed, USER first.

    Args:
        before: the entity's row before it, None for its first.
        after: the new row.
    """
    records: list[tuple[Scope, Document]] = []
    previous, updated = _user(before, after)
    if previous is not updated and previous != updated:
        records.append(("USER", _change_record(previous, updated, after)))
    if before is None or not _system_is_same(before, after):
        previous, updated = _system(before, after)
        if previous != updated:
            records.append(("SYSTEM", _change_record(previous, updated, after)))
    return records


def _user(before: EntityRow | None, after: EntityRow) -> tuple[Metadata, Metadata]:
    updated = after.user_properties, after.user_tags
    if before is None:
        return _NOTHING, updated
    if before.user_properties is updated[0] and before.user_tags is updated[1]:
        return updated, updated
    return (before.user_properties, before.user_tags), updated


def _system(before: EntityRow | None, after: EntityRow) -> tuple[Metadata, Metadata]:
    updated = _given(after.system_properties), after.system_tags
    if before is None:
        return _NOTHING, updated
    return (_given(before.system_properties), before.system_tags), updated


def _system_is_same(before: EntityRow, after: EntityRow) -> bool:
    """Whether SYSTEM is as it was but for what the fold keeps: a cheap look; False decides nothing."""
    held_properties, properties = before.system_properties, after.system_properties
    if before.system_tags != after.system_tags or held_properties.keys() != properties.keys():
        return False
    for name, value in properties.items():  # a loop: half the time of all() over a generator
        if held_properties[name] != value and name not in RESERVED_PROPERTIES:
            return False
    return True


def _given(properties: Mapping[str, str]) -> Mapping[str, str]:
    """SYSTEM properties without those that the fold keeps: for most rows none."""
    if properties.keys() <= RESERVED_PROPERTIES:
        return _NONE
    return {name: value for name, value in properties.items() if name not in RESERVED_PROPERTIES}


def _change_record(previous: Metadata, updated: Metadata, after: EntityRow) -> Document:
    added = _lacking_properties(updated[0], previous[0])
    deleted = _lost_properties(previous[0], updated[0], added)
    return {
        "previous": metadata_record(*previous),
        "updated": metadata_record(*updated),
        "changes": {
            "additions": metadata_record(added, _lacking_tags(updated[1], previous[1])),
            "deletions": metadata_record(deleted, _lacking_tags(previous[1], updated[1])),
        },
        "targetId": target_id(after),
        "updateTime": after.system_time,
        "updater": after.actor,
    }


def _lacking_properties(properties: Mapping[str, str], others: Mapping[str, str]) -> Mapping[str, str]:
    """Those that the others have not, or have otherwise."""
    if not others or properties is others:
        return properties if not others else _NONE
    return {name: value for name, value in properties.items() if others.get(name) != value}


def _lost_properties(
    previous: Mapping[str, str], updated: Mapping[str, str], added: Mapping[str, str]
) -> Mapping[str, str]:
    """`_lacking_properties` of the previous ones: where no name is gone, only added ones can have been otherwise."""
    otherwise = {name: previous[name] for name in added if name in previous}
    if len(previous) + len(added) - len(otherwise) == len(updated):
        return otherwise
    return _lacking_properties(previous, updated)


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
