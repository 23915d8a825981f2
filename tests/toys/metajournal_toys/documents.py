"""What toys publish on their change topic: each time that somebody played."""

from __future__ import annotations

from metajournal.fold.documents import Documents, row_key
from metajournal.fold.folded import Folded
from metajournal.lake.spelling import spelled
from metajournal.schemas.topics import TopicNames

from .rows import PlayKey

CHANGE_TYPE = "metajournal.toys.Played"


def add_documents(found: Documents, folded: Folded, names: TopicNames) -> None:
    """Add the change records of a batch, in the order of its rows."""
    topic = names.changes("toys")
    for before, after in folded.facts.get(PlayKey.TABLE, ()):
        record = {
            "toy": after.toy,
            "player": after.player,
            "minutes": after.minutes - (0 if before is None else before.minutes),
            "altogether": after.minutes,
        }
        key, identity = row_key(after.tenant, after.toy), found.identity(after.logical_timestamp, after.seq)
        found.add(topic, CHANGE_TYPE, key, spelled(record), identity, after.system_time)
