"""Change and state records of files that were recorded for the first time, column by column.

Files come in events of up to a thousand, nearly all of them new, and the records of an event's new files differ in four
values only: the URN, the id, the place among the event's rows, and what is recorded. So each document is spelled once,
with a mark for each of the four, and the columns of the `entities` table go where the marks are. What the documents say
stands in `rules/documents` and `files` alone; whatever is not as simple as that is left to them, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from ....fold.documents import DocumentColumns, Documents
from ....fold.folded import Change, Folded
from ....fold.json_texts import Template, joined, mark, quoted, text
from ....fold.published import STATE_TYPE, documents
from ....fold.records import Place
from ....rules.documents import state_document
from ....rules.entity import EntityRow
from ....schemas.topics import TopicNames
from .. import documents as files

FEWEST: Final = 32
"""Fewer files of one event are sooner done one by one."""
_VARYING: Final = ("urn", "name", "seq", "record")
_MARKED: Final[Mapping[str, Any]] = {name: mark(name) for name in _VARYING}


def blocks_of_rows(folded: Folded, names: TopicNames, entities: pa.Table) -> Iterator[Documents | DocumentColumns]:
    """What is published of a partition's changes, with each event's new files column by column.

    Args:
        entities: the rows of all changes, in their order, as the `entities` table has them.
    """
    for simple, begin, end in runs(folded.changes):
        records = first_records(folded, begin, end, entities, names) if simple else None
        if records is None:
            yield documents(replace(folded, changes=folded.changes[begin:end]), names)
        else:
            yield from records


def runs(changes: Sequence[Change]) -> Iterator[tuple[bool, int, int]]:
    """Changes in runs of consecutive ones: whether it is one event's new files, its begin, and its end."""
    begin = end = 0
    for _, event in groupby(changes, key=_position):
        some = list(event)
        if _are_first(some):
            if begin < end:
                yield False, begin, end
            yield True, end, end + len(some)
            begin = end + len(some)
        end += len(some)
    if begin < end:
        yield False, begin, end


def _position(change: Change) -> int:
    return change[1].logical_timestamp


def _are_first(some: Sequence[Change]) -> bool:
    """Whether one event recorded enough files, all of them new, and nobody has said anything else of them."""
    first = some[0].after
    if len(some) < FEWEST or first.kind != "file" or first.user_properties or first.user_tags or first.system_tags:
        return False
    user, system = first.user_properties, first.system_properties
    for before, after in some:
        if before is not None or after.record is None or after.deleted:
            return False
        if after.user_properties is not user or after.system_properties is not system:
            return False
        if after.user_tags or after.system_tags:
            return False
    return True


def first_records(
    folded: Folded, begin: int, end: int, entities: pa.Table, names: TopicNames
) -> list[DocumentColumns] | None:
    """What is published of a run of new files: their states, and then what changed; None where it is not so simple.

    Args:
        begin, end: a run of `folded.changes`, as `runs` gives it.
        entities: the rows of all changes, in their order, as the table has them.
    """
    return records_of_new(folded.place, folded.changes[begin].after, entities.slice(begin, end - begin), names)


def records_of_new(place: Place, row: EntityRow, rows: pa.Table, names: TopicNames) -> list[DocumentColumns] | None:
    """The same of one event's new files.

    Args:
        row: that of the first of them.
        rows: the rows of all of them, as the `entities` table has them.
    """
    texts: dict[str, pa.Array] = {name: text(rows[name]) for name in _VARYING}
    keys = joined(f"{row.tenant}/", texts["urn"])
    ids = joined(f"{place.topic}/{place.partition}/{row.logical_timestamp}/", texts["seq"])
    texts |= {"urn": joined('"', texts["urn"], '"'), "name": quoted(texts["name"])}
    columns = []
    for topic, kind, document_of in (
        (names.state(place.domain), STATE_TYPE, lambda row: state_document(row, place.partition)),
        (names.changes("files"), files.CHANGE_TYPE, lambda row: files.change_record(None, row)),
    ):
        values = _filled(document_of, row, texts)
        if values is None:
            return None
        columns.append(DocumentColumns(place, topic, kind, row.system_time, keys, values, ids))
    return columns


def _filled(document_of: Callable[[EntityRow], Any], row: EntityRow, texts: Mapping[str, pa.Array]) -> pa.Array | None:
    """A document of many rows: that of one with marks, and each row's values in their place."""
    template = Template(document_of(row._replace(**_MARKED)))
    if len(template.marks) > len(texts.keys() & template.marks):
        return None  # some text of the event looks like a mark
    return template.filled(texts)
