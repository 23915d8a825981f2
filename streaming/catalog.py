"""What the catalog publishes of each changed row: change records by scope, and the state document.

The records' content stands in `rules/documents.py`; here they become Kafka records: topic, key, headers, bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from ..lake.spelling import spelled
from ..rules.documents import change_records, state_document
from ..schemas.topics import TopicNames
from . import files, lineage
from .fold import Folded
from .publish import Outgoing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHANGE_TYPE = "metajournal.catalog.MetadataChangeRecord"
STATE_TYPE = "metajournal.state.Entity"
_VERSION = ("ce_specversion", b"1.0")
_IS_CHANGE = ("ce_type", CHANGE_TYPE.encode())
_IS_STATE = ("ce_type", STATE_TYPE.encode())
_CHANGES = {
    "files": ("ce_type", files.CHANGE_TYPE.encode()),
    "lineage": ("ce_type", lineage.FACT_TYPE.encode()),
}
"""What the records of a domain's change topic are; all others are the catalog's."""
_IS_JSON = ("content-type", b"application/json")
Header = tuple[str, bytes]


def outgoing(folded: Folded, names: TopicNames) -> Iterator[Outgoing]:
    """The records of a partition's changed rows: of each row its change records, then its state document.

    Args:
        folded: the partition.
        names: topic names.
    """
    found, place = documents(folded, names), folded.place
    columns = (found.topics, found.keys, found.values, found.ids, found.states, found.times)
    for topic, key, value, identity, state, time_ms in zip(*columns, strict=True):
        headers = headers_of(place.topic, place.partition, identity, state, key, time_ms, topic)
        yield Outgoing(topic, place.partition, key, value, headers, time_ms)


class Documents:
    """Change and state records of many rows column by column, in the order of publishing: no headers yet.

    Attributes:
        topics, keys, values: as in Outgoing.
        ids: `ce_id` of each.
        states: whether it is a state document; else a change record.
        times: milliseconds UTC.
    """

    __slots__ = ("ids", "keys", "states", "times", "topics", "values")

    def __init__(self) -> None:
        self.topics: list[str] = []
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.ids: list[bytes] = []
        self.states: list[bool] = []
        self.times: list[int] = []

    def add(self, topic: str, key: bytes, value: bytes, identity: bytes, time_ms: int) -> None:
        """Add one change record."""
        self.topics.append(topic)
        self.keys.append(key)
        self.values.append(value)
        self.ids.append(identity)
        self.states.append(False)
        self.times.append(time_ms)


def documents(folded: Folded, names: TopicNames) -> Documents:
    """All change and state records of a partition's changes."""
    place, found = folded.place, Documents()
    partition = place.partition
    changes, changes_system, state = _topics(names, place.domain)
    _, start = _source(place.topic, partition)
    topics, keys, values = found.topics.append, found.keys.append, found.values.append
    ids, states, times = found.ids.append, found.states.append, found.times.append
    for before, after in folded.changes:
        key = f"{after.tenant}/{after.urn}".encode()
        identity = f"{start}{after.logical_timestamp}/{after.seq}".encode()
        for scope, record in change_records(before, after):
            topics(changes if scope == "USER" else changes_system)
            keys(key)
            values(spelled(record))
            ids(identity)
            states(False)
            times(after.system_time)
        topics(state)
        keys(key)
        values(spelled(state_document(after, partition)))
        ids(identity)
        states(True)
        times(after.system_time)
    lineage.add_documents(found, folded, names)
    files.add_documents(found, folded, names)
    return found


def headers_of(
    topic: str, partition: int, identity: bytes, state: bool, key: bytes, time_ms: int, target: str = ""
) -> list[Header]:
    """The headers of a record of a journal partition: CloudEvents in binary mode.

    Args:
        target: the topic that it goes to, which says what a change record is.

    Source: CloudEvents Kafka protocol binding 1.0.2, section 3.2.
    """
    return [
        _VERSION,
        _source(topic, partition)[0],
        ("ce_id", identity),
        _IS_STATE if state else _CHANGES.get(target.rpartition(".changes.")[2], _IS_CHANGE),
        ("ce_subject", key[key.index(b"/") + 1 :]),
        _time(time_ms),
        _IS_JSON,
    ]


@lru_cache(maxsize=64)
def _topics(names: TopicNames, domain: str) -> tuple[str, str, str]:
    """Topics of USER changes, SYSTEM changes and states."""
    return names.changes("catalog"), names.changes_system, names.state(domain)


@lru_cache(maxsize=1024)
def _source(topic: str, partition: int) -> tuple[Header, str]:
    """The source's header, and how the ids of its records begin."""
    return ("ce_source", f"/{topic}/{partition}".encode()), f"{topic}/{partition}/"


@lru_cache(maxsize=1024)
def _time(time_ms: int) -> Header:
    """The time's header. (A backlog has many events of one millisecond.)"""
    return "ce_time", rfc3339(time_ms).encode()


def rfc3339(time_ms: int) -> str:
    """Milliseconds UTC as RFC 3339 text with three decimals."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
