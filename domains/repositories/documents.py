"""What repositories publish: one record for each accepted event, in the source's words.

It says which ref changed and how; of objects their paths, sizes and checksums, as far as they fit. Nothing is published
for each object. Everything is told by the rows that the event made and by its header.
Source: docs/concepts.md; the source text's "Indexing service".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ...fold.documents import Documents, row_key
from ...fold.folded import ACCEPTED, Folded, Judged
from ...lake.spelling import spelled
from ...rules.entity import EntityRow
from ...schemas.header import Header
from ...schemas.topics import TopicNames
from ...schemas.urn import Urn
from .domain import DOMAIN
from .rows import BranchRow, CommitRow, ObjectRow, ResetRow

CHANGE_TYPE: Final = "metajournal.repositories.Change"
MAX_OBJECT_BYTES: Final = 1024 * 1024
"""Bytes of objects in one record; how many more there are stands in `omitted`."""


class _Made(NamedTuple):
    """The rows that one event made."""

    branches: list[tuple[BranchRow | None, BranchRow]]
    commits: list[CommitRow]
    objects: list[ObjectRow]
    resets: list[ResetRow]
    entities: list[EntityRow]


def add_documents(documents: Documents, folded: Folded, names: TopicNames) -> None:
    """Add the change records of a partition's events, in their order."""
    events = [judged for judged in folded.judged if _is_change(judged)]
    if not events:
        return
    topic = names.changes(DOMAIN.name)
    made = _made(folded)
    for judged in events:
        position, header = judged.record.position, judged.header
        assert header is not None  # only events are accepted
        document = change_record(position, header, payload_of(header, made[position]))
        key, identity = row_key(header.tenant, header.entities[0]), documents.identity(position, 0)
        documents.add(topic, CHANGE_TYPE, key, spelled(document), identity, judged.system_time)


def _is_change(judged: Judged) -> bool:
    """Whether a record is an event of this domain that changed something; annotations are the catalog's."""
    header = judged.header
    return header is not None and judged.verdict.outcome == ACCEPTED and header.type in DOMAIN.event_types


def _made(folded: Folded) -> Mapping[int, _Made]:
    """The rows of a batch by the positions of their events."""
    made: Mapping[int, _Made] = defaultdict(lambda: _Made([], [], [], [], []))
    for change in folded.facts.get("branches", ()):
        made[change.after.logical_timestamp].branches.append((change.before, change.after))
    for table, of in (("commits", 1), ("objects", 2), ("resets", 3)):
        for change in folded.facts.get(table, ()):
            made[change.after.logical_timestamp][of].append(change.after)
    for _, entity in folded.changes:
        made[entity.logical_timestamp].entities.append(entity)
    return made


def change_record(position: int, header: Header, said: Mapping[str, Any]) -> dict[str, Any]:
    """The record of an accepted event.

    Args:
        position: of the event.
        said: what stands in its `event_payload`, besides the branch that the event is about.
    """
    first = Urn.parse(header.entities[0])
    branch = {"branch": first.parts[1]} if first.kind == "branch" else {}
    return {
        "logical_timestamp": position,
        "client_id": header.actor,
        "repo_id": Urn.parse(header.aggregate).name,
        "event_type": _name_of(header),
        "event_payload": {**branch, **said},
    }


def _name_of(header: Header) -> str:
    return header.type.split(".")[1]


def payload_of(header: Header, made: _Made) -> dict[str, Any]:
    """What stands in the source's `event_payload`: the names that the event is about, and what became of them."""
    payload: dict[str, Any] = {}
    name, first = _name_of(header), Urn.parse(header.entities[0])
    if name == "RepositoryCreated":
        record = made.entities[0].record or {}
        payload |= {"branch": record["default_branch"], "storage_namespace": record["storage_namespace"]}
    elif name in ("BranchCreated", "BranchReverted"):
        payload["head"] = _ref(made, first).head
    elif name in ("ObjectsWritten", "ObjectsDeleted"):
        payload |= _objects(made.objects)
    elif name in ("Committed", "Merged"):
        payload |= _commit(made.commits[0])
        if name == "Merged":
            payload["source"] = Urn.parse(header.entities[1]).parts[1]
    elif name == "BranchReset":
        reset = made.resets[0] if made.resets else None
        payload |= {
            "path": None if reset is None or reset.is_prefix else reset.path,
            "prefix": reset.path if reset is not None and reset.is_prefix else None,
        }
    elif name in ("ObjectsRegistered", "ObjectsUnregistered"):
        payload["paths"] = ["/".join(Urn.parse(row.urn).parts[1:]) for row in made.entities]
    return payload


def _ref(made: _Made, urn: Urn) -> BranchRow:
    return next(after for _, after in made.branches if after.urn == urn)


def _commit(row: CommitRow) -> dict[str, Any]:
    return {
        "commit": Urn.parse(row.commit).parts[1],
        "parents": row.parents,
        "strategy": row.strategy,
        "message": row.message,
        "metadata": row.metadata,
    }


def _objects(rows: Iterable[ObjectRow]) -> dict[str, Any]:
    """Path, size and checksum of the first objects that fit together, and how many do not."""
    shown: list[list[Any]] = []
    omitted, taken_bytes = 0, 0
    for row in rows:
        one = [row.path, row.size, row.checksum]
        taken_bytes += len(spelled(one)) + 1
        if omitted or taken_bytes > MAX_OBJECT_BYTES:
            omitted += 1
        else:
            shown.append(one)
    return {"objects": shown, "omitted": omitted}
