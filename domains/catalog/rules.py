"""The catalog's rules: entities exist from their registration, and carry properties and tags in two scopes.

Annotations are one mechanism over entities of every domain; existence is decided here for the catalog's own kinds only
(the events refuse others by their form, so an entity of another domain is unknown until that domain is served). Form
and precondition are judged by `admission`, documents are made by `documents`.

Invariant: every live row carries `creation_time` and `last_update_time` in SYSTEM, set here and nowhere else, and its
metadata is at most MAX_ENTITY_BYTES. Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ...rules.admission import refusal, stale
from ...rules.entity import At, EntityRow, Reads, RowReader, excess
from ...rules.outcome import UNCHANGED, Accepted, Outcome, Rejected
from ...schemas.hashing import canonical_json
from ...schemas.header import Header
from ...schemas.ids import id_text
from ...schemas.limits import MAX_ENTITY_BYTES, RESERVED_PROPERTIES
from ...schemas.urn import Urn
from .events import (
    EntityDeleted,
    EntityRegistered,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesReplaced,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
)

Properties = Mapping[str, str]
Tags = tuple[str, ...]
Names = frozenset[str]
Record = Mapping[str, Any]

_NOTHING_KEPT: Final[Names] = frozenset()
_ENDS_WITH: Final[Mapping[str, tuple[str, ...]]] = {"app": ("program",)}
"""Kinds of entities that end with one of another kind, whose aggregate they belong to."""

Decision = Callable[[Header, Any, At, EntityRow | None, RowReader], Outcome]
"""What an event that is in order does to its entity: its live row is given, None where there is none."""


def _rule(decide: Decision) -> Callable[[Header, Any, At, RowReader], Outcome]:
    """The rule of an event about one entity: its form and its precondition come first."""

    def judged(header: Header, event: Any, at: At, rows: RowReader) -> Outcome:
        refused = refusal(header, event)
        if refused is not None:
            return refused
        entity = event.entity
        newest = rows.entity(entity)
        live = None if newest is None or newest.deleted else newest
        refused = stale(header, entity, live)
        return decide(header, event, at, live, rows) if refused is None else refused

    return judged


# Existence


def _registered(header: Header, event: EntityRegistered, at: At, live: EntityRow | None, _: RowReader) -> Outcome:
    """A new entity, or what the event adds to a known one (both update it: the event names no more than it knows)."""
    entity = event.entity
    row = live or _blank(header, entity, at)
    user_properties = _merged(row.user_properties, event.properties)
    user_tags = _with(row.user_tags, event.tags)
    system_properties = _merged(row.system_properties, _described(event))
    same = user_properties is row.user_properties and user_tags is row.user_tags
    if live is not None and same and system_properties is row.system_properties:
        return UNCHANGED
    return _accepted(header, at, row, user_properties, user_tags, system_properties, row.system_tags)


def _described(event: EntityRegistered) -> dict[str, str]:
    """The SYSTEM properties that a registration states."""
    stated = {}
    if event.description is not None:
        stated["description"] = event.description
    if event.schema is not None:
        stated["schema"] = _schema_text(event.schema)
    return stated


def _schema_text(schema: Any) -> str:
    """An Avro schema's text as it came; a list of (name, type) as canonical JSON of pairs."""
    return schema if isinstance(schema, str) else canonical_json([list(field) for field in schema]).decode()


def _blank(header: Header, entity: Urn, at: At) -> EntityRow:
    """The row before the first one: nothing but who made the entity, and when."""
    made = {"creation_time": str(at.system_time)}
    if header.actor is not None:
        made["created_by"] = header.actor
    return _row(header, at, 0, entity, entity.kind, entity.namespace, entity.name, False, None, {}, (), made, ())


def _deleted(header: Header, event: EntityDeleted, at: At, live: EntityRow | None, rows: RowReader) -> Outcome:
    """The end of an entity; an app's programs end with it, its runs and lineage do not."""
    if live is None:
        return UNCHANGED
    ended = [live]
    kinds = _ending_with(event)
    if kinds:
        members = [row for row in rows.members(live.urn, kinds) if not row.deleted]
        ended += sorted(members, key=lambda row: row.urn)
    return Accepted(tuple(_ended(header, at, seq, row) for seq, row in enumerate(ended)))


def _ending_with(event: EntityDeleted) -> tuple[str, ...]:
    return _ENDS_WITH.get(event.entity.kind, ())


def _reads_of_deleted(_: Header, event: EntityDeleted) -> Reads:
    return Reads(members=_ending_with(event))


def _ended(header: Header, at: At, seq: int, row: EntityRow) -> EntityRow:
    return _row(header, at, seq, row.urn, row.kind, row.namespace, row.name, True, None, {}, (), {}, ())


# Annotations: what each event does to one scope. `kept` are the names that stay whatever the event says. The very
# same objects come back where nothing changes, so that "unchanged" is a look at identity.

Change = Callable[[Any, Names, Properties, Tags], tuple[Properties, Tags]]


def _annotated_by(change: Change) -> Decision:
    """What an event does that changes the annotations of an entity."""

    def annotated(header: Header, event: Any, at: At, row: EntityRow | None, _: RowReader) -> Outcome:
        if row is None:
            return Rejected("unknown-entity", {"entity": str(event.entity)})
        user_properties, user_tags = row.user_properties, row.user_tags
        system_properties, system_tags = row.system_properties, row.system_tags
        if event.scope != "SYSTEM":
            user_properties, user_tags = change(event, _NOTHING_KEPT, user_properties, user_tags)
        if event.scope != "USER":
            system_properties, system_tags = change(event, RESERVED_PROPERTIES, system_properties, system_tags)
        same_properties = user_properties is row.user_properties and system_properties is row.system_properties
        if same_properties and user_tags is row.user_tags and system_tags is row.system_tags:
            return UNCHANGED
        return _accepted(header, at, row, user_properties, user_tags, system_properties, system_tags)

    return annotated


def _set(event: PropertiesSet, _: Names, properties: Properties, tags: Tags) -> tuple[Properties, Tags]:
    return _merged(properties, event.properties), tags


def _replaced(event: PropertiesReplaced, kept: Names, properties: Properties, tags: Tags) -> tuple[Properties, Tags]:
    wanted = {**{name: value for name, value in properties.items() if name in kept}, **event.properties}
    return properties if wanted == properties else dict(sorted(wanted.items())), tags


def _unset(event: PropertiesRemoved, kept: Names, properties: Properties, tags: Tags) -> tuple[Properties, Tags]:
    going = properties.keys() if event.all else event.keys
    return _without(properties, going, kept), tags


def _tagged(event: TagsAdded, _: Names, properties: Properties, tags: Tags) -> tuple[Properties, Tags]:
    return properties, _with(tags, event.tags)


def _untagged(event: TagsRemoved, _: Names, properties: Properties, tags: Tags) -> tuple[Properties, Tags]:
    going = frozenset(tags if event.all else event.tags)
    left = tuple([tag for tag in tags if tag not in going])
    return properties, tags if len(left) == len(tags) else left


def _cleared(_: MetadataCleared, kept: Names, properties: Properties, tags: Tags) -> tuple[Properties, Tags]:
    return _without(properties, properties.keys(), kept), tags and ()


def _merged(held: Properties, new: Properties) -> Properties:
    """Held properties with new ones over them, sorted by key; `held` itself where they say nothing new."""
    if new.items() <= held.items():
        return held
    merged = {**held, **new}
    return merged if len(merged) == len(held) else dict(sorted(merged.items()))


def _without(held: Properties, going: Iterable[str], kept: Names) -> Properties:
    """Held properties but those that go (and are not kept); `held` itself where none goes."""
    gone = frozenset(going) - kept
    left = {name: value for name, value in held.items() if name not in gone}
    return held if len(left) == len(held) else left


def _with(held: Tags, new: Iterable[str]) -> Tags:
    """Held tags and new ones, sorted; `held` itself where they are held already."""
    added = set(new).difference(held)
    return tuple(sorted(added.union(held))) if added else held


# Rows


def _accepted(
    header: Header, at: At, row: EntityRow,
    user_properties: Properties, user_tags: Tags, system_properties: Properties, system_tags: Tags,
) -> Outcome:  # fmt: skip
    """The row after a change, unless it would exceed the size of an entity."""
    stamped = _stamped(system_properties, header.actor, at)
    after = _row(
        header, at, 0, row.urn, row.kind, row.namespace, row.name, False, row.record,
        user_properties, user_tags, stamped, system_tags,
    )  # fmt: skip
    size_bytes = excess(after)
    if size_bytes is None:
        return Accepted((after,))
    detail = {"entity": str(row.urn), "size_bytes": size_bytes, "limit_bytes": MAX_ENTITY_BYTES}
    return Rejected("too-large", detail)


def _stamped(properties: Properties, actor: str | None, at: At) -> dict[str, str]:
    """SYSTEM properties with who changed the entity last, and when; sorted by key."""
    stamped = dict(properties)
    names = len(stamped)
    stamped["last_update_time"] = str(at.system_time)
    if actor is not None:
        stamped["last_updated_by"] = actor
    elif "last_updated_by" in stamped:
        del stamped["last_updated_by"]
        return stamped
    return stamped if len(stamped) == names else dict(sorted(stamped.items()))


def _row(
    header: Header, at: At, seq: int,
    urn: str, kind: str, namespace: str | None, name: str, deleted: bool, record: Record | None,
    user_properties: Properties, user_tags: Tags, system_properties: Properties, system_tags: Tags,
) -> EntityRow:  # fmt: skip
    """A row made by this event. (By place, and past the tuple's own constructor: this is the fold's hot loop.)"""
    return tuple.__new__(EntityRow, (
        header.tenant, urn, kind, namespace, name, header.aggregate, at.position, seq, at.system_time,
        header.event_time, id_text(header.event_id), header.actor, deleted, record,
        user_properties, user_tags, system_properties, system_tags,
    ))  # fmt: skip


RULES: Final = {
    EntityRegistered.TYPE: _rule(_registered),
    EntityDeleted.TYPE: _rule(_deleted),
    PropertiesSet.TYPE: _rule(_annotated_by(_set)),
    PropertiesRemoved.TYPE: _rule(_annotated_by(_unset)),
    TagsAdded.TYPE: _rule(_annotated_by(_tagged)),
    TagsRemoved.TYPE: _rule(_annotated_by(_untagged)),
    MetadataCleared.TYPE: _rule(_annotated_by(_cleared)),
    PropertiesReplaced.TYPE: _rule(_annotated_by(_replaced)),
}
"""What judges the events of each type."""

READS: Final = {EntityDeleted.TYPE: _reads_of_deleted}
"""What events of a type may ask for besides their entities."""
