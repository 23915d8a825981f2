"""What rows that were folded in columns hold of metadata, and what changed, as JSON texts.

Each text is the inside of an object or a list: entries parted by commas. The entities' rows from before stand in front
of the new rows, so that `previous` and `updated` are taken out of the same columns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from ....fold.json_texts import joined, lists, quoted
from ....schemas.encoding.cursor import Numbers
from .columnar import Made
from .judging import (
    SPACES,
    SYSTEM_PROPERTIES,
    SYSTEM_TAGS,
    USER_PROPERTIES,
    USER_TAGS,
    Operations,
)
from .newest import METADATA

_SCOPES: Final = ((USER_PROPERTIES, USER_TAGS), (SYSTEM_PROPERTIES, SYSTEM_TAGS))
"""The spaces of USER and of SYSTEM: properties, then tags."""


class MetadataTexts:
    """The texts of one fold's rows.

    Attributes:
        changed: of each scope, the rows in which it changed.
    """

    def __init__(self, made: Made) -> None:
        self._numbered = numbered = made.numbered
        self._names, self._values = quoted(numbered.names), quoted(numbered.values)
        self._rows, self._entities = made.rows.num_rows, made.entities
        self._previous = _previous(made.entity, made.entities)
        before = self._by_space(numbered.held, made.entities)
        self._held: list[pa.Array] = []
        self._given: list[pa.Array] = []
        for space, (old, new) in enumerate(zip(before, made.judged.spaces, strict=True)):
            row = np.concatenate([old.at, new.row + self._entities])
            name, value = np.concatenate([old.name, new.name]), np.concatenate([old.value, new.value])
            self._add(space, Operations(row, name, value))
        begun, ended = (self._by_space(some, self._rows) for some in (made.judged.begun, made.judged.ended))
        self._begun, self._ended = (
            [self._lists(space, operations, self._rows) for space, operations in enumerate(some)]
            for some in (begun, ended)
        )
        self.changed = [self._touched([some[space] for some in (begun, ended) for space in scope]) for scope in _SCOPES]

    def _add(self, space: int, operations: Operations) -> None:
        """The texts of all that is held of a space, and of it without what the fold keeps."""
        count = self._entities + self._rows
        entries = self._entries(space, operations)
        whole = lists(operations.at, entries, count)
        self._held.append(whole)
        if space == SYSTEM_PROPERTIES:
            given = ~np.isin(operations.name, self._numbered.kept.names)
            whole = lists(operations.at[given], entries.filter(pa.array(given)), count)
        self._given.append(whole)

    def _by_space(self, some: Operations, rows: int) -> list[Operations]:
        """Operations of each space, by row and then by name.

        Args:
            rows: how many rows (or entities) there are.
        """
        space, rank = np.divmod(some.name, self._numbered.width)
        key = (space * rows + some.at) * self._numbered.width + rank
        order = np.argsort(key)
        row, name, value = some.at[order], some.name[order], some.value[order]
        bounds = np.searchsorted(space[order], np.arange(SPACES + 1)).tolist()
        return [Operations(row[start:stop], name[start:stop], value[start:stop]) for start, stop in pairwise(bounds)]

    def _entries(self, space: int, some: Operations) -> pa.Array:
        names = self._names.take(pa.array(some.name - space * self._numbered.width))
        if space in (USER_TAGS, SYSTEM_TAGS):
            return names
        return joined(names, ":", self._values.take(pa.array(some.value)))

    def _lists(self, space: int, some: Operations, rows: int) -> pa.Array:
        return lists(some.at, self._entries(space, some), rows)

    def _touched(self, some: list[Operations]) -> Numbers:
        touched = np.zeros(self._rows, np.bool_)
        for operations in some:
            touched[operations.at] = True
        return touched

    def states(self, rows: Numbers) -> dict[str, pa.Array]:
        """All that rows hold, by the names of the columns of `entities`."""
        places = pa.array(rows + self._entities)
        return {name: texts.take(places) for name, texts in zip(METADATA, self._held, strict=True)}

    def changes(self, scope: int, rows: Numbers) -> dict[str, pa.Array]:
        """What rows hold of a scope, what their entities held before, and the differences."""
        sides = {
            "previous": (self._given, self._previous[rows]),
            "updated": (self._given, rows + self._entities),
            "additions": (self._begun, rows),
            "deletions": (self._ended, rows),
        }
        return {
            f"{side}_{what}": columns[space].take(pa.array(places))
            for side, (columns, places) in sides.items()
            for what, space in zip(("properties", "tags"), _SCOPES[scope], strict=True)
        }


def _previous(entity: Numbers, entities: int) -> Numbers:
    """Of each row, the number of the one before it of the same entity: those from before come first."""
    order = np.argsort(entity, kind="stable")
    previous = entity.copy()
    again = entity[order[1:]] == entity[order[:-1]]
    previous[order[1:][again]] = order[:-1][again] + entities
    return previous
