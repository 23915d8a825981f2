"""Names and values of plain events by number: told apart, put in order and chosen without an object for any.

A name's number is its rank among all names of a fold, and the width times its space; a value's number is its place
among all values, so that equal values may have several.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.texts import chosen
from ....lake.columns import ENTITIES
from ....schemas.encoding.cursor import Numbers
from .judging import REMOVED, SYSTEM_PROPERTIES, Held, Kept, Operations
from .newest import METADATA, NewestRows, flat_texts
from .plain import Plain

_KEPT: Final = ("creation_time", "created_by", "last_update_time", "last_updated_by")


class Numbered:
    """The names and values of plain events, of what their entities hold, and of what the fold keeps, by number.

    Attributes:
        width: how many names there are.
        names: by rank.
        values: by number.
        held, operations, kept: as `judge` takes them.
    """

    def __init__(self, plain: Plain, system_time: Numbers, newest: NewestRows, numbers: Numbers) -> None:
        newest_metadata = newest.metadata(numbers)
        flat = [flat_texts(column) for column in newest_metadata.columns]
        lengths = [len(_KEPT), len(plain.name), *(len(texts[0]) for texts in flat)]
        encoded = pa.concat_arrays([pa.array(_KEPT), plain.name, *(texts[0] for texts in flat)]).dictionary_encode()
        order = pc.array_sort_indices(encoded.dictionary)
        self.names = encoded.dictionary.take(order)
        self.width = len(self.names)
        rank = np.empty(self.width, np.int64)
        rank[order.to_numpy()] = np.arange(self.width)
        kept, own, *held_names = np.split(rank[encoded.indices.to_numpy()], np.cumsum(lengths)[:-1])
        times = pa.array(system_time).cast(pa.string())
        parts = [plain.values, times, plain.actors, *(texts[1] for texts in flat if len(texts) > 1)]
        self.values = pa.concat_arrays(parts)
        starts = np.cumsum([0, *map(len, parts)]).tolist()
        system = self.width * SYSTEM_PROPERTIES
        time_numbers = np.arange(starts[1], starts[2])
        actor_numbers = np.where(plain.actor < 0, REMOVED, plain.actor + starts[2])
        creation_time, created_by, update_time, updated_by = (kept + system).tolist()
        self.kept = Kept(creation_time, created_by, update_time, updated_by, time_numbers, actor_numbers)
        self.operations = Operations(plain.event, plain.space * self.width + own, plain.value)
        entity, name, value = [], [], []
        behind = iter(starts[3:])
        for space, (column, names) in enumerate(zip(newest_metadata.columns, held_names, strict=True)):
            entity.append(np.repeat(newest_metadata.which, np.diff(column.offsets.to_numpy())))
            name.append(names + space * self.width)
            is_map = len(flat[space]) > 1
            value.append(np.arange(len(names)) + next(behind) if is_map else np.zeros(len(names), np.int64))
        self.held = Operations(np.concatenate(entity), np.concatenate(name), np.concatenate(value))

    def same(self, some: Numbers, others: Numbers) -> Numbers:
        """Whether the values of these numbers are those of the others."""
        equal: Numbers = pc.equal(chosen(self.values, some), chosen(self.values, others)).to_numpy(zero_copy_only=False)
        return equal

    def column(self, space: int, entries: Held, rows: int) -> pa.Array:
        """What rows hold of one space."""
        bounds = np.zeros(rows + 1, np.int32)
        np.cumsum(np.bincount(entries.row, minlength=rows), out=bounds[1:])
        names = self.names.take(pa.array(entries.name - space * self.width))
        if pa.types.is_map(ENTITIES.field(METADATA[space]).type):
            return pa.MapArray.from_arrays(pa.array(bounds), names, self.values.take(pa.array(entries.value)))
        return pa.ListArray.from_arrays(pa.array(bounds), names)
