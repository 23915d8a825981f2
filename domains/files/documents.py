"""What the files domain publishes: what each record of a file was before, and what it is now.

Annotations of files are the catalog's records like those of any entity; an event that left the record as it was gives
none here. The records come in the order of the events' rows. Source: docs/concepts.md.
"""

from __future__ import annotations

from typing import Any

from ...fold.documents import Documents, row_key
from ...fold.folded import Folded
from ...lake.spelling import spelled
from ...rules.entity import EntityRow
from ...schemas.topics import TopicNames

CHANGE_TYPE = "metajournal.files.FileChangeRecord"


def change_record(before: EntityRow | None, after: EntityRow) -> dict[str, Any] | None:
    """What a new row says of its file's record; None where it says nothing new, or is no file's."""
    previous = None if before is None else before.record
    if after.kind != "file" or previous is after.record or previous == after.record:
        return None
    return {
        "file": after.urn,
        "previous": previous,
        "updated": after.record,
        "updateTime": after.system_time,
        "updater": after.actor,
    }


def add_documents(documents: Documents, folded: Folded, names: TopicNames) -> None:
    """Add the change records of a partition's files, in their order."""
    topic = names.changes("files")
    for before, after in folded.changes:
        record = change_record(before, after)
        if record is not None:
            key, identity = row_key(after.tenant, after.urn), documents.identity(after.logical_timestamp, after.seq)
            documents.add(topic, CHANGE_TYPE, key, spelled(record), identity, after.system_time)
