"""All that is published of a partition's changes: what each domain makes of them, one domain after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from ..schemas.topics import TopicNames
from . import catalog, catalog_documents, file_documents, files, lineage
from .columnar import Made
from .documents import DocumentColumns, Documents
from .folded import Folded
from .publish import Outgoing

_Adding = Callable[[Documents, Folded, TopicNames], None]
_DOMAINS: Final = (catalog.add_documents, lineage.add_documents, files.add_documents)


def documents(folded: Folded, names: TopicNames, domains: Sequence[_Adding] = _DOMAINS) -> Documents:
    """Change and state records of a partition's changes, without their headers."""
    found = Documents(folded.place)
    for add in domains:
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


def blocks_of_both(folded: Folded, made: Made, names: TopicNames) -> Iterator[Documents | DocumentColumns]:
    """The same where some of a partition's records were folded in columns.

    Args:
        folded: what was folded one by one.
        made: what was folded in columns.
    """
    yield from catalog_documents.blocks(folded, made, names)
    yield documents(folded, names, _DOMAINS[1:])
