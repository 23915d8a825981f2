"""The row of the `entities` history, and what the rules may read: rows of the event's own aggregate.

Rows are values. They share their maps and tuples with the rows before them, so nobody may change one in place.
Property maps are sorted by key and tags are sorted, so equal metadata has one form in every table and topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from ..schemas.limits import MAX_ENTITY_BYTES, MAX_KEY_BYTES


class At(NamedTuple):
    """An event's place in the log.

    Attributes:
        position: epoch * 2**40 + offset, the event's logical_timestamp.
        system_time: running append time of its journal partition, milliseconds UTC.
        digest: the 16 bytes that its record's Kafka header has, checked against the record's value.
    """

    position: int
    system_time: int
    digest: bytes


class EntityRow(NamedTuple):
    """One entity after one event. (A tuple, because a frozen dataclass of this size costs eight times as much to make.)

    Attributes:
        namespace: first part of the URN's path, decoded; None where the path has one part only.
        name: last part of the URN's path, decoded.
        logical_timestamp: position of the event that made this row.
        seq: 0, or the place among the rows of one event.
        system_time: milliseconds UTC, never falling within a journal partition.
        event_time: milliseconds UTC, as the emitter said.
        event_id: UUID as text of 36 characters.
        deleted: the entity ended here; its metadata is empty.
        record: what the entity's own domain says of it, as JSON values: a file's record, a run's times; None for
            kinds of which no domain says more than their annotations.
    """

    tenant: str
    urn: str
    kind: str
    namespace: str | None
    name: str
    aggregate: str
    logical_timestamp: int
    seq: int
    system_time: int
    event_time: int
    event_id: str
    actor: str | None
    deleted: bool
    record: Mapping[str, Any] | None
    user_properties: Mapping[str, str]
    user_tags: tuple[str, ...]
    system_properties: Mapping[str, str]
    system_tags: tuple[str, ...]


class ForeignRowError(LookupError):
    """A rule asked for a row outside the aggregate of its event. Never the producer's fault: a defect in `rules`."""


class FactKey(Protocol):
    """The key of a row of another history table, without the tenant: a tuple of its key columns that knows its table.

    Attributes:
        TABLE: the table's name (see `tables`).
    """

    TABLE: ClassVar[str]

    def __iter__(self) -> Iterator[Any]: ...

    def __hash__(self) -> int: ...


class Reads(NamedTuple):
    """What a rule may ask for, besides the entities that the header names.

    Attributes:
        facts: keys of rows of other tables; one value of each is an entity that the header names.
        members: kinds of the entities of the event's aggregate whose rows it may ask for.
    """

    facts: tuple[FactKey, ...] = ()
    members: tuple[str, ...] = ()


class RowReader(Protocol):
    """Newest rows of one tenant's aggregate, as they stand before the event."""

    def entity(self, urn: str) -> EntityRow | None:
        """The newest row of an entity, a deleted one included; None when it never had one.

        Raises:
            ForeignRowError: the entity belongs to another aggregate than the event.
        """
        ...

    def members(self, aggregate: str, kinds: Collection[str]) -> Iterable[EntityRow]:
        """The newest rows of an aggregate's entities of some kinds, in any order, deleted ones included or not.

        Raises:
            ForeignRowError: it is not the aggregate of the event, or the event's `reads` names not all of the kinds.
        """
        ...

    def fact(self, key: FactKey) -> Any:
        """The newest row of another history table; None when there is none.

        Raises:
            ForeignRowError: it is not among the rows that the event's `reads` names.
        """
        ...


_SKELETON_BYTES: Final = len('{"system":{"properties":{},"tags":[]},"user":{"properties":{},"tags":[]}}')
_WORST_BYTES_PER_CHARACTER: Final = 6  # a control character as \\u001f; four at most for anything else
_WORST_BYTES_PER_NAME: Final = 6 * MAX_KEY_BYTES + 6  # two quotes and a colon or comma, of a key and of its value


def metadata_size(row: EntityRow) -> int:
    """Bytes of an entity's metadata as canonical JSON.

    Args:
        row: the entity; both scopes count, the kept properties included.
    Returns:
        Length of {"system":{"properties":{},"tags":[]},"user":{...}} with sorted keys, no spaces, UTF-8 unescaped.
    """
    return _exact_size(row, _strings(row))


def excess(row: EntityRow) -> int | None:
    """The size of an entity's metadata in bytes when it is beyond MAX_ENTITY_BYTES, else None.

    Nearly every row ends at an upper bound that needs the number of its names and the length of its values only: no
    key and no tag that passed its event's validation is longer than MAX_KEY_BYTES.
    """
    user, system = row.user_properties, row.system_properties
    names = len(user) + len(row.user_tags) + len(system) + len(row.system_tags)
    values = len("".join(user.values())) + len("".join(system.values()))
    if _WORST_BYTES_PER_CHARACTER * values + _WORST_BYTES_PER_NAME * names + _SKELETON_BYTES <= MAX_ENTITY_BYTES:
        return None
    size_bytes = _exact_size(row, _strings(row))
    return size_bytes if size_bytes > MAX_ENTITY_BYTES else None


def _strings(row: EntityRow) -> list[str]:
    user, system = row.user_properties, row.system_properties
    return [*user, *user.values(), *row.user_tags, *system, *system.values(), *row.system_tags]


def _exact_size(row: EntityRow, strings: list[str]) -> int:
    """Sizes of JSON strings add up, so all of them are escaped as one (without the quotes of that one)."""
    text_bytes = len(encode_basestring("".join(strings)).encode()) - 2
    colons = len(row.user_properties) + len(row.system_properties)
    lists = (row.user_properties, row.user_tags, row.system_properties, row.system_tags)
    commas = sum(len(held) - 1 for held in lists if held)
    return _SKELETON_BYTES + text_bytes + 2 * len(strings) + colons + commas
