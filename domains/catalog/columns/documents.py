"""Change and state records of rows that were folded in columns, column by column.

The same records as `published.add_annotations` makes of each row. What they say stands in `catalog.documents` and
`rules.documents`, whose documents are filled in here. Only what is added and what is deleted is told otherwise, by what
began and what ended to be held (`judging`). The records of rows that were folded one by one are put among them, in
their order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....fold.documents import Document, DocumentColumns, Documents
from ....fold.folded import Folded
from ....fold.json_texts import TEXT, Template, joined, mark, marked_map, quoted, text
from ....fold.published import STATE_TYPE, add_annotations, add_others
from ....fold.records import Place
from ....rules.documents import state_document
from ....rules.entity import EntityRow
from ....schemas.encoding.cursor import Numbers
from ....schemas.topics import TopicNames
from ..documents import CHANGE_TYPE, change_records, target_id
from .columnar import Made
from .metadata_texts import MetadataTexts
from .newest import METADATA

_BLOCK_ROWS: Final = 4_096
_Part = tuple[Numbers, DocumentColumns]
"""Records of one kind, and the position of each."""
_QUOTED: Final = ("actor", "aggregate", "event_id", "kind", "name", "namespace", "tenant", "urn")
_MARKS: Final[Mapping[str, Any]] = {
    **{name: mark(name) for name in EntityRow._fields},
    **{name: marked_map(name) if name.endswith("properties") else (mark(name),) for name in METADATA},
    "seq": 0,
    "record": None,
}
_ROW: Final = EntityRow(**_MARKS)


def blocks(folded: Folded, made: Made, names: TopicNames) -> Iterator[DocumentColumns]:
    """What the catalog publishes of a bit of records, in order within each topic.

    Args:
        folded: what was folded one by one.
        made: what was folded in columns.
    """
    topics = names.annotations, names.annotations_system, names.state(folded.place.domain)
    columns = _ByColumn(made, folded.place, topics)
    positions = made.rows["logical_timestamp"].to_numpy()
    places = [after.logical_timestamp for _, after in folded.changes]
    begin = 0
    for start in range(0, max(1, len(positions)), _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, len(positions))
        end = bisect_left(places, positions[stop]) if stop < len(positions) else len(places)
        singly = Documents(folded.place)
        add_annotations(singly, replace(folded, changes=folded.changes[begin:end]), names)
        begin = end
        parts = columns.parts(start, stop)
        for topic in dict.fromkeys(topics):
            others = [record for record in singly.records if record.topic == topic]
            own = [part for part in parts if part[1].topic == topic]
            yield _merged([*own, *([_singly(folded.place, others)] if others else [])])


def blocks_of_both(folded: Folded, made: Made, names: TopicNames) -> Iterator[Documents | DocumentColumns]:
    """All that is published of a bit of records, in order within each topic.

    Args:
        folded, made: as of `blocks`.
    """
    yield from blocks(folded, made, names)
    others = Documents(folded.place)
    add_others(others, folded, names)
    yield others


def _singly(place: Place, records: Sequence[Document]) -> _Part:
    """Records of one topic that were made one by one."""
    topics, types, keys, values, ids, times = zip(*records, strict=True)
    positions = np.array([int(identity.rsplit(b"/", 2)[1]) for identity in ids], np.int64)
    texts = [pa.array(column, pa.large_binary()) for column in (keys, values, ids)]
    return positions, DocumentColumns(place, topics[0], pa.array(types), pa.array(times), *texts)


def _merged(parts: Sequence[_Part]) -> DocumentColumns:
    """Records of one topic, by position; of one position, those of the first part come first."""
    (_, first), *others = parts
    if not others:
        return first
    order = pa.array(np.argsort(np.concatenate([positions for positions, _ in parts]), kind="stable"))

    def both(columns: Sequence[Any], kind: pa.DataType) -> pa.Array:
        return pa.concat_arrays([column.cast(kind) for column in columns]).take(order)

    blocks_of_topic = [block for _, block in parts]
    types = [
        block.type if isinstance(block.type, pa.Array) else pa.repeat(block.type, len(block.keys))
        for block in blocks_of_topic
    ]
    texts = [
        both([getattr(block, name) for block in blocks_of_topic], pa.large_binary())
        for name in ("keys", "values", "identities")
    ]
    times = both([block.time_ms for block in blocks_of_topic], pa.int64())
    return DocumentColumns(first.place, first.topic, both(types, pa.string()), times, *texts)


class _ByColumn:
    """The records of the rows that were made in columns.

    Args:
        topics: of USER changes, SYSTEM changes and states.
    """

    def __init__(self, made: Made, place: Place, topics: Sequence[str]) -> None:
        self._made = made
        self._place = place
        self._topics = topics
        self._held = MetadataTexts(made)
        self._change = Template(_change_document())
        self._state = Template(state_document(_ROW, place.partition))

    def parts(self, start: int, stop: int) -> list[_Part]:
        """The USER changes, SYSTEM changes and states of some of the rows."""
        rows = np.arange(start, stop)
        columns = self._columns(rows)
        made_parts = []
        *annotated, states = self._topics
        for scope, topic in enumerate(annotated):
            chosen = np.flatnonzero(self._held.changed[scope][rows])
            some = {name: column.take(pa.array(chosen)) for name, column in columns.items()}
            some |= self._held.changes(scope, rows[chosen])
            made_parts.append(self._part(topic, CHANGE_TYPE, rows[chosen], some, self._change))
        made_parts.append(self._part(states, STATE_TYPE, rows, columns | self._held.states(rows), self._state))
        return made_parts

    def _columns(self, rows: Numbers) -> dict[str, pa.Array]:
        """What documents say of rows besides their metadata, and the keys and identities of records."""
        table = self._made.rows.slice(int(rows[0]) if len(rows) else 0, len(rows))
        events = self._made.accepted[rows]
        columns = {name: quoted(table[name]) for name in _QUOTED}
        position = text(table["logical_timestamp"])
        return columns | {
            "logical_timestamp": position,
            "system_time": text(pa.array(self._made.system_time[events])),
            "event_time": text(pa.array(self._made.plain.event_time[events])),
            "deleted": text(table["deleted"]),
            "target": _targets(table),
            "_key": joined(text(table["tenant"]), "/", text(table["urn"])),
            "_identity": joined(f"{self._place.topic}/{self._place.partition}/", position, "/0"),
        }

    def _part(self, topic: str, kind: str, rows: Numbers, columns: Mapping[str, pa.Array], template: Template) -> _Part:
        events, made = self._made.accepted[rows], self._made
        times, values = pa.array(made.system_time[events]), template.filled(columns)
        records = DocumentColumns(self._place, topic, kind, times, columns["_key"], values, columns["_identity"])
        return made.plain.position[events], records


def _change_document() -> dict[str, Any]:
    """A change record with marks for all that a row gives it."""
    (_, document), *_ = change_records(None, _ROW)
    sides = {
        side: {"properties": marked_map(f"{side}_properties"), "tags": [mark(f"{side}_tags")]}
        for side in ("previous", "updated", "additions", "deletions")
    }
    changes = {side: sides.pop(side) for side in ("additions", "deletions")}
    return {**document, **sides, "changes": changes, "targetId": mark("target")}


def _targets(table: pa.Table) -> pa.Array:
    """How the change records of rows name their entities: each kind in its own way."""
    kinds = table["kind"].combine_chunks().dictionary_encode()
    numbers = kinds.indices.to_numpy()
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(len(kinds.dictionary) + 1)).tolist()
    targets = [pa.array([], TEXT)]
    for number, kind in enumerate(kinds.dictionary.to_pylist()):
        some = table.take(pa.array(order[bounds[number] : bounds[number + 1]])) if len(kinds.dictionary) > 1 else table
        path = pc.utf8_slice_codeunits(text(some["urn"]), len(kind) + 1)
        columns = {"namespace": quoted(some["namespace"]), "name": quoted(some["name"]), "path": quoted(path)}
        row = _ROW._replace(kind=kind, urn=f"{kind}:{mark('path')}")
        targets.append(Template(target_id(row)).filled(columns))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(targets).take(pa.array(back))
