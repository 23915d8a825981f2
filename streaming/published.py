"""All that is published of a partition's changes: what each domain makes of them, one domain after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from ..schemas.topics import TopicNames
from . import catalog, file_documents, files, lineage
from .documents import DocumentColumns, Documents
from .folded import Folded
from .publish import Outgoing

_DOMAINS = (catalog.add_documents, lineage.add_documents, files.add_documents)


def documents(folded: Folded, names: TopicNames) -> Documents:
    """Change and state records of a partition's changes, without their headers."""
    found = Documents(folded.place)
    for add in _DOMAINS:
        add(found, folded, names)
    return found


def outgoing(folded: Folded, names: TopicNames) -> Iterator[Outgoing]:
    """The same, ready for the producer."""
    return documents(folded, names).outgoing()


def blocks(folded: Folded, names: TopicNames, entities: pa.Table | None) -> Iterator[Documents | DocumentColumns]:
    """The same without headers, in blocks; in order within each topic, with what can be so column by column.

    Args:
        entities: the rows of all changes, in their order, as the `entities` table has them; None where some are not
            to be written.
    """
    if folded.place.domain != "files" or entities is None or entities.num_rows != len(folded.changes):
        yield documents(folded, names)
        return
    for simple, begin, end in file_documents.runs(folded.changes):
        found = file_documents.first_records(folded, begin, end, entities, names) if simple else None
        if found is None:
            yield documents(replace(folded, changes=folded.changes[begin:end]), names)
        else:
            yield from found
