"""All that is published of a partition's changes: each entity's state, and what the domains make of the changes.

A domain's part stands in the file `documents` of its folder: `records_of_change` for each new row of an entity, in the
domain that owns the annotations; `add_documents` for what follows from a whole batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from ..lake.spelling import spelled
from ..rules.documents import state_document
from ..rules.entity import EntityRow
from ..schemas.registry import domains_in, has_documents, owner_of_undeclared, role
from ..schemas.topics import TopicNames
from .documents import DocumentColumns, Documents, Outgoing, row_key
from .folded import Folded


class DocumentsFile(Protocol):
    """The file `documents` of a domain: what follows from a whole batch."""

    def add_documents(self, documents: Documents, folded: Folded, names: TopicNames) -> None:
        """Add the domain's change records, in the order of the batch's rows."""


class AnnotationsFile(Protocol):
    """The same of the domain that owns the annotations of every entity."""

    def records_of_change(
        self, before: EntityRow | None, after: EntityRow, names: TopicNames
    ) -> Iterator[tuple[str, str, Any]]:
        """Topic, type and content of each record that a new row of an entity gives."""


class ColumnDocumentsFile(Protocol):
    """The file `columns/documents` of a domain, where what it publishes is made column by column."""

    def blocks_of_rows(
        self, folded: Folded, names: TopicNames, entities: pa.Table
    ) -> Iterator[Documents | DocumentColumns]:
        """The same as `documents`, without headers, in blocks."""


STATE_TYPE: Final = "metajournal.state.Entity"


class _Adding(NamedTuple):
    """What the domains of one journal topic add.

    Attributes:
        of_change: records of one new row of an entity.
        of_batch: each adds the records that follow from a batch's changes.
    """

    of_change: Callable[..., Iterator[tuple[str, str, Any]]]
    of_batch: tuple[Callable[[Documents, Folded, TopicNames], None], ...]


@lru_cache(maxsize=64)
def _adding(topic_domain: str) -> _Adding:
    owner = role(owner_of_undeclared(), "documents")
    assert owner is not None
    modules = [role(domain.name, "documents") for domain in domains_in(topic_domain)]
    adding = [module.add_documents for module in modules if module is not None and hasattr(module, "add_documents")]
    return _Adding(owner.records_of_change, tuple(adding))


def documents(folded: Folded, names: TopicNames) -> Documents:
    """Change and state records of a partition's changes, without their headers."""
    made = Documents(folded.place)
    add_annotations(made, folded, names)
    add_others(made, folded, names)
    return made


def add_annotations(documents: Documents, folded: Folded, names: TopicNames) -> None:
    """Add, of each changed row, the change records of its annotations and its state."""
    place = folded.place
    if not has_documents(place.domain):
        return
    state, of_change = names.state(place.domain), _adding(place.domain).of_change
    for before, after in folded.changes:
        key, time_ms = row_key(after.tenant, after.urn), after.system_time
        identity = documents.identity(after.logical_timestamp, after.seq)
        for topic, kind, record in of_change(before, after, names):
            documents.add(topic, kind, key, spelled(record), identity, time_ms)
        documents.add(state, STATE_TYPE, key, spelled(state_document(after, place.partition)), identity, time_ms)


def add_others(documents: Documents, folded: Folded, names: TopicNames) -> None:
    """Add what the domains of the topic make of a batch's changes besides."""
    for add in _adding(folded.place.domain).of_batch:
        add(documents, folded, names)


def outgoing(folded: Folded, names: TopicNames) -> Iterator[Outgoing]:
    """The same, ready for the producer."""
    return documents(folded, names).outgoing()


def blocks(folded: Folded, names: TopicNames, entities: pa.Table | None) -> Iterator[Documents | DocumentColumns]:
    """The same without headers, in blocks; in order within each topic, with what can be so column by column.

    Args:
        entities: the rows of all changes, in their order, as the `entities` table has them; None where some are not
            to be written.
    """
    module = role(folded.place.domain, "columns.documents")
    in_blocks = getattr(module, "blocks_of_rows", None)
    if in_blocks is None or entities is None or entities.num_rows != len(folded.changes):
        yield documents(folded, names)
    else:
        yield from in_blocks(folded, names, entities)
