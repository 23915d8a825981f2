"""All that is published of a partition's changes: what each domain makes of them, one domain after the other."""

from __future__ import annotations

from collections.abc import Iterator

from ..schemas.topics import TopicNames
from . import catalog, files, lineage
from .documents import Documents
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
