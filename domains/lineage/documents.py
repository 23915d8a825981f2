"""What lineage publishes: each fact that stands, as JSON, on a topic of its own.

A fact that does not stand made no row, so it is not here either; what merely follows from others (a run's first access,
a program's relation to data) is no fact. The records of one event come in the order of its rows.
Source: docs/concepts.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...fold.documents import Documents, row_key
from ...fold.folded import Folded
from ...lake.spelling import spelled
from ...schemas.topics import TopicNames
from .rows import AccessRow, ExternalWriteRow, RunRow

FACT_TYPE = "metajournal.lineage.Fact"


class Fact(NamedTuple):
    """One fact: where it stands in the journal partition, whom it is about, and what it says."""

    position: int
    seq: int
    tenant: str
    urn: str
    system_time: int
    document: dict[str, Any]


def add_documents(documents: Documents, folded: Folded, names: TopicNames) -> None:
    """Add the lineage facts of a partition's changes, in their order."""
    if not folded.facts:
        return
    topic = names.changes("lineage")
    for fact in sorted(_facts(folded), key=lambda fact: (fact.position, fact.seq)):
        key, identity = row_key(fact.tenant, fact.urn), documents.identity(fact.position, fact.seq)
        documents.add(topic, FACT_TYPE, key, spelled(fact.document), identity, fact.system_time)


def _facts(folded: Folded) -> Iterator[Fact]:
    """The facts of each table. No event has facts of more than one: accesses, or times of runs, or outside writes."""
    for before, after in folded.facts.get("runs", ()):
        document = _of_run(before, after)
        if document is not None:
            yield _fact(after, after.run, document)
    for _, after in folded.facts.get("accesses", ()):
        yield _fact(after, after.run, _of_access(after))
    for _, after in folded.facts.get("external_writes", ()):
        yield _fact(after, after.stream, _of_write(after))


def _fact(row: Any, urn: str, document: dict[str, Any]) -> Fact:
    return Fact(row.logical_timestamp, row.seq, row.tenant, urn, row.system_time, document)


def _of_run(before: RunRow | None, after: RunRow) -> dict[str, Any] | None:
    """A new start, or a new stop; None where only the first access is another."""
    if after.start is not None and (before is None or before.start != after.start):
        return {"type": "RunStarted", "run": after.run, "at": after.start}
    if after.stop is None or (before is not None and (before.stop, before.status) == (after.stop, after.status)):
        return None
    return {"type": "RunStopped", "run": after.run, "at": after.stop, "status": after.status}


def _of_access(row: AccessRow) -> dict[str, Any]:
    document = {"type": "AccessRecorded", "run": row.run, "data": row.data, "access": row.access, "at": row.happened_at}
    return {**document, "component": row.component or None, "metadata": row.metadata}


def _of_write(row: ExternalWriteRow) -> dict[str, Any]:
    return {"type": "ExternalWrite", "stream": row.stream, "source": row.source, "at": row.happened_at}
