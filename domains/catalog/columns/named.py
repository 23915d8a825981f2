"""What plain events say of their entities: names and values as columns, and which events are at fault.

The checks are those of the event classes' `validate`, which says what is wrong; here it is only told that something is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.texts import texts
from ....schemas.encoding.bulk import Spans
from ....schemas.encoding.cursor import Numbers, Source
from ....schemas.limits import MAX_KEY_BYTES, RESERVED_PROPERTIES
from .. import events as catalog
from .judging import (
    REMOVED,
    SYSTEM_PROPERTIES,
    SYSTEM_TAGS,
    USER_PROPERTIES,
    USER_TAGS,
)

_PROPERTIES: Final = np.array([USER_PROPERTIES, SYSTEM_PROPERTIES])
_TAGS: Final = np.array([USER_TAGS, SYSTEM_TAGS])
"""The space of a scope, by its number in the contracts."""
_USER, _SYSTEM = 0, 1
_RESERVED: Final = pa.array(sorted(RESERVED_PROPERTIES))


@dataclass
class Named:
    """Names that records set or remove, and spaces that they clear; told record type by record type.

    Attributes:
        faulty: of each record, whether it is at fault, or more than is known here.
        record: of each name, the number of its record.
        space: as in `rules.catalog_columns`.
        value: number of its value among `values`, 0 for tags, REMOVED.
        size: bytes of name and value.
        cleared_at, cleared: records and the space that they clear.
    """

    source: Source
    faulty: Numbers
    record: list[Numbers] = field(default_factory=list)
    space: list[Numbers] = field(default_factory=list)
    names: list[pa.Array] = field(default_factory=list)
    value: list[Numbers] = field(default_factory=list)
    values: list[pa.Array] = field(default_factory=list)
    size: list[Numbers] = field(default_factory=list)
    cleared_at: list[Numbers] = field(default_factory=list)
    cleared: list[Numbers] = field(default_factory=list)
    _values: int = 0

    def take(self, taken: Spans) -> None:
        """Add what the events of one type say. Raises: NotTextError."""
        _TAKEN[taken.event_type](self, taken.rows, taken.fields)

    def _registered(self, rows: Numbers, fields: Mapping[str, Any]) -> None:
        self.faulty[rows[fields["schema_fields"][0]]] = True
        user = np.zeros(len(rows), np.int64)
        self._listed(rows, fields["properties"], _PROPERTIES[user])
        self._listed(rows, fields["tags"], _TAGS[user])
        self._stated(rows, fields["description"], "description")
        self._stated(rows, fields["schema_text"], "schema")

    def _deleted(self, rows: Numbers, fields: Mapping[str, Any]) -> None:
        """Nothing: the rules end an entity by themselves."""

    def _set(self, rows: Numbers, fields: Mapping[str, Any]) -> None:
        self._some(rows, fields["properties"], _PROPERTIES[fields["scope"][0]])

    def _replaced(self, rows: Numbers, fields: Mapping[str, Any]) -> None:
        space = _PROPERTIES[fields["scope"][0]]
        self._clear(rows, space)
        self._listed(rows, fields["properties"], space)

    def _tagged(self, rows: Numbers, fields: Mapping[str, Any]) -> None:
        self._some(rows, fields["tags"], _TAGS[fields["scope"][0]])

    def _unset(self, rows: Numbers, fields: Mapping[str, Any]) -> None:
        self._some_or_all(rows, fields["keys"], fields["all"][0], _PROPERTIES[fields["scope"][0]])

    def _untagged(self, rows: Numbers, fields: Mapping[str, Any]) -> None:
        self._some_or_all(rows, fields["tags"], fields["all"][0], _TAGS[fields["scope"][0]])

    def _cleared(self, rows: Numbers, fields: Mapping[str, Any]) -> None:
        (scope,) = fields["scope"]
        for number, other in ((_USER, _SYSTEM), (_SYSTEM, _USER)):
            in_scope = rows[scope != other]
            for space in (_PROPERTIES[number], _TAGS[number]):
                self._clear(in_scope, np.full(len(in_scope), space))

    def _clear(self, records: Numbers, space: Numbers) -> None:
        self.cleared_at.append(records)
        self.cleared.append(space)

    def _some(self, rows: Numbers, state: Any, space: Numbers) -> None:
        """Names of which there must be one at least."""
        self.faulty[rows[np.diff(state[0], prepend=0) == 0]] = True
        self._listed(rows, state, space)

    def _some_or_all(self, rows: Numbers, state: Any, everything: Numbers, space: Numbers) -> None:
        self.faulty[rows[(np.diff(state[0], prepend=0) > 0) == everything]] = True
        self._clear(rows[everything], space[everything])
        self._listed(rows, state, space, removed=True)

    def _listed(self, rows: Numbers, state: Any, space: Numbers, *, removed: bool = False) -> None:
        """The names of a list, or names and values of a map."""
        stops, vectors = state
        counts = np.diff(stops, prepend=0)
        names = texts(self.source, *vectors[:2])
        values = texts(self.source, *vectors[2:]) if len(vectors) > 2 else None
        sizes = vectors[1] - vectors[0]
        records, spaces = np.repeat(rows, counts), np.repeat(space, counts)
        wrong = (sizes == 0) | (sizes > MAX_KEY_BYTES)
        of_system = np.flatnonzero(spaces == SYSTEM_PROPERTIES)
        if len(of_system):
            wrong[of_system] |= pc.is_in(names.take(pa.array(of_system)), _RESERVED).to_numpy(zero_copy_only=False)
        self.faulty[records[wrong]] = True
        self._add(records, spaces, names, values, sizes if values is None else sizes + vectors[3] - vectors[2], removed)

    def _stated(self, rows: Numbers, state: Any, name: str) -> None:
        """A SYSTEM property of a field's name, where the field is not null."""
        some, _, inner = state
        if len(some):
            sizes = inner[1] - inner[0] + len(name)
            names = pa.repeat(name, len(some))
            space = np.full(len(some), SYSTEM_PROPERTIES)
            self._add(rows[some], space, names, texts(self.source, *inner), sizes, removed=False)

    def _add(
        self, records: Numbers, space: Numbers, names: pa.Array, values: pa.Array | None, size: Numbers, removed: bool
    ) -> None:
        self.record.append(records)
        self.space.append(space)
        self.names.append(names)
        self.size.append(size)
        if values is None:
            self.value.append(np.full(len(records), REMOVED if removed else 0))
        else:
            self.value.append(np.arange(self._values, self._values + len(values)))
            self.values.append(values)
            self._values += len(values)


_TAKEN: Final[Mapping[str, Callable[[Named, Numbers, Mapping[str, Any]], None]]] = {
    catalog.EntityRegistered.TYPE: Named._registered,
    catalog.EntityDeleted.TYPE: Named._deleted,
    catalog.PropertiesSet.TYPE: Named._set,
    catalog.PropertiesRemoved.TYPE: Named._unset,
    catalog.TagsAdded.TYPE: Named._tagged,
    catalog.TagsRemoved.TYPE: Named._untagged,
    catalog.MetadataCleared.TYPE: Named._cleared,
    catalog.PropertiesReplaced.TYPE: Named._replaced,
}
