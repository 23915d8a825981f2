"""Change records of objects that were written or deleted in bulk: one for each event, its objects as columns of texts.

What a record says stands in `documents`; here its list of objects, which may hold a thousand, is put where a mark
stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.documents import DocumentColumns, row_key
from ....fold.folded import Judged
from ....fold.json_texts import TEXT, Template, mark
from ....fold.records import Place
from ....schemas.encoding.cursor import Numbers
from ....schemas.topics import TopicNames
from .. import documents as repositories
from ..domain import DOMAIN

_LISTED: Final = "objects"
_COMMA: Final = pa.scalar(",", TEXT)


def records_of_written(
    place: Place, judged: Sequence[Judged], ends: Numbers, objects: pa.Array, names: TopicNames
) -> DocumentColumns:
    """The change records of accepted events.

    Args:
        judged: the events, each with a header that holds no mark.
        ends: where the objects of each end.
        objects: each object as JSON, of type TEXT.
    """
    lengths = pc.binary_length(objects).to_numpy() + 1
    keys, values, identities = [], [], []
    first = 0
    for event, end in zip(judged, ends.tolist(), strict=True):
        header, position = event.header, event.record.position
        assert header is not None  # it is an event
        shown = fitting(lengths[first:end])
        listed = pc.binary_join(_one_list(objects.slice(first, shown)), _COMMA)
        payload = {"objects": [mark(_LISTED)], "omitted": end - first - shown}
        document = repositories.change_record(position, header, payload)
        (value,) = Template(document).filled({_LISTED: listed})
        keys.append(row_key(header.tenant, header.entities[0]).decode())
        values.append(value)
        identities.append(f"{place.topic}/{place.partition}/{position}/0")
        first = end
    times = pa.array([event.system_time for event in judged], pa.int64())
    topic = names.changes(DOMAIN.name)
    columns = (pa.array(texts, TEXT) for texts in (keys, values, identities))
    return DocumentColumns(place, topic, repositories.CHANGE_TYPE, times, *columns)


def fitting(lengths: Numbers) -> int:
    """How many of the first objects, of so many bytes each with what parts them, fit into a record."""
    if lengths.sum() <= repositories.MAX_OBJECT_BYTES:
        return len(lengths)
    return int(np.searchsorted(np.cumsum(lengths), repositories.MAX_OBJECT_BYTES, side="right"))


def _one_list(entries: pa.Array) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array([0, len(entries)], pa.int64()), entries)
