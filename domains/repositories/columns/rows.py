"""What events of plain objects give, as columns: rows of the tables, and the records to publish.

What all objects of an event have in common comes from the rows that `rules` make of an event with one object; only what
differs from object to object is filled in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ....fold.documents import DocumentColumns
from ....fold.folded import Judged, KeyOfFact
from ....fold.json_texts import joined, quoted, text
from ....fold.records import Place, bytes_of_array
from ....lake.declared import made_arrow
from ....lake.rows import filled
from ....rules.tables import key_of
from ....schemas.encoding.cursor import Numbers
from ....schemas.topics import TopicNames
from ..rows import CONTENT_BYTES, BranchRow, ObjectRow
from ..tables import OBJECTS
from . import records
from .decoding import Objects

BRANCHES_TABLE: Final = "branches"
OBJECTS_TABLE: Final = "objects"


class Staged(NamedTuple):
    """What one event makes, but for its objects.

    Attributes:
        branch: the row of its branch.
        example: the row of any of its objects.
    """

    branch: BranchRow
    example: ObjectRow


@dataclass(frozen=True)
class PlainObjects:
    """Plain events of one type, behind each other, with the objects of all of them as columns.

    Attributes:
        judged: each event, accepted.
        ends: where in the columns each event's objects end.
        staged: what each event makes; empty as long as nobody has looked at the branches.
    """

    place: Place
    judged: Sequence[Judged]
    ends: Numbers
    objects: Objects
    staged: Sequence[Staged] = ()

    def only(self, begin: int, end: int) -> PlainObjects:
        """Some of the events."""
        first, last = (int(self.ends[stop - 1]) if stop else 0 for stop in (begin, end))
        objects = self.objects.slice(first, last - first)
        return PlainObjects(
            self.place, self.judged[begin:end], self.ends[begin:end] - first, objects, self.staged[begin:end]
        )

    def settled(self, staged: Sequence[Staged]) -> PlainObjects:
        """The first of the events, now that it is known what each of them makes."""
        return replace(self.only(0, len(staged)), staged=staged)

    @property
    def newest_facts(self) -> Mapping[KeyOfFact, Any]:
        """The newest row of each branch."""
        rows = [staged.branch for staged in self.staged]
        return {(BRANCHES_TABLE, row.tenant, key_of(row)): row for row in rows}

    @cached_property
    def counts(self) -> Numbers:
        """How many objects each event has."""
        return np.diff(self.ends, prepend=0)

    @cached_property
    def sizes(self) -> pa.Array:
        """The size of each object as JSON."""
        return text(self.objects.size).fill_null("null")

    @cached_property
    def checksums(self) -> pa.Array:
        """The checksum of each object as JSON."""
        return quoted(self.objects.checksum)

    def rows(self, table: str) -> pa.Table | None:
        """The rows of a history table; None for none."""
        place = self.place
        if table == BRANCHES_TABLE:
            return made_arrow(table, ((staged.branch, place.domain, place.partition) for staged in self.staged))
        return self._object_rows() if table == OBJECTS_TABLE else None

    def _object_rows(self) -> pa.Table:
        place, objects = self.place, self.objects
        shared = made_arrow(OBJECTS_TABLE, ((staged.example, place.domain, place.partition) for staged in self.staged))
        event = np.repeat(np.arange(len(self.ends)), self.counts)
        seq = np.arange(len(event)) - np.repeat(self.ends - self.counts, self.counts)
        made = {
            "path": objects.path.cast(pa.string()),
            "seq": pa.array(seq, pa.int32()),
            "size": objects.size,
            "checksum": objects.checksum.cast(pa.string()),
            "address": objects.address.cast(pa.string()),
            "blocks": objects.blocks.cast(pa.string()),
            "content_type": objects.content_type.cast(pa.string()),
            "metadata": objects.metadata.cast(pa.string()),
            "mtime_ms": objects.mtime,
            "content": self._contents(),
        }
        return filled(OBJECTS, shared, event, made)

    def _contents(self) -> pa.Array:
        """What each object is; null of a deleted path. Source: `rows.content_of`."""
        objects = self.objects
        if objects.checksum.null_count:
            return pa.nulls(len(objects.path), pa.binary())
        content_types = quoted(objects.content_type)
        texts = joined("[", self.checksums, ",", self.sizes, ",", content_types, ",", objects.metadata, "]")
        hashes = [blake2b(text, digest_size=CONTENT_BYTES).digest() for text in _values(texts)]
        bounds = np.arange(0, CONTENT_BYTES * len(hashes) + 1, CONTENT_BYTES, dtype=np.int32)
        return pa.Array.from_buffers(
            pa.binary(), len(hashes), [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(hashes))]
        )

    def documents(self, _: Mapping[str, pa.Table], names: TopicNames) -> Iterator[DocumentColumns]:
        """What is published of the events: a record for each."""
        shown = joined("[", quoted(self.objects.path), ",", self.sizes, ",", self.checksums, "]")
        yield records.records_of_written(self.place, self.judged, self.ends, shown, names)

    def named(self) -> None:
        """The headers say which entities the events name."""


def _values(texts: pa.Array) -> list[Any]:
    return bytes_of_array(texts.cast(pa.large_binary()))
