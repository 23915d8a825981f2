"""What the catalog publishes of each changed row: change records by scope, and the state document.

Entities of every domain are in the catalog, so every domain's rows pass here. The records' content stands in
`rules/documents.py`.
"""

from __future__ import annotations

from functools import lru_cache

from ..lake.spelling import spelled
from ..rules.documents import change_records, state_document
from ..schemas.topics import TopicNames
from .documents import Documents, row_key
from .folded import Folded

CHANGE_TYPE = "metajournal.catalog.MetadataChangeRecord"
STATE_TYPE = "metajournal.state.Entity"


def add_documents(found: Documents, folded: Folded, names: TopicNames) -> None:
    """Add the records of a partition's changed rows: of each row its change records, then its state document."""
    partition = folded.place.partition
    changes, changes_system, state = topics_of(names, folded.place.domain)
    for before, after in folded.changes:
        key, time_ms = row_key(after.tenant, after.urn), after.system_time
        identity = found.identity(after.logical_timestamp, after.seq)
        for scope, record in change_records(before, after):
            target = changes if scope == "USER" else changes_system
            found.add(target, CHANGE_TYPE, key, spelled(record), identity, time_ms)
        found.add(state, STATE_TYPE, key, spelled(state_document(after, partition)), identity, time_ms)


@lru_cache(maxsize=64)
def topics_of(names: TopicNames, domain: str) -> tuple[str, str, str]:
    """Topics of USER changes, SYSTEM changes and states."""
    return names.changes("catalog"), names.changes_system, names.state(domain)
