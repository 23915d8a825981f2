"""What the catalog publishes of each changed row: change records by scope, and the state document.

The records' content stands in `rules/documents.py`; here they become Kafka records: topic, key, headers, bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from ..rules.documents import change_records, state_document
from ..schemas.topics import TopicNames
from .fold import Change, Folded
from .publish import Outgoing
from .spelling import spelled

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHANGE_TYPE = "metajournal.catalog.MetadataChangeRecord"
STATE_TYPE = "metajournal.state.Entity"
_VERSION = ("ce_specversion", b"1.0")
_IS_CHANGE = ("ce_type", CHANGE_TYPE.encode())
_IS_STATE = ("ce_type", STATE_TYPE.encode())
_IS_JSON = ("content-type", b"application/json")
Header = tuple[str, bytes]


def outgoing(folded: Folded, change: Change, names: TopicNames) -> Iterator[Outgoing]:
    """The records of one changed row: its change records, then its state document.

    Args:
        folded: the partition that the row came from.
        change: the row and the one before it.
        names: topic names.
    """
    before, after = change
    place, time_ms = folded.place, after.system_time
    changes, changes_system, state = _topics(names, place.domain)
    partition = place.partition
    key = f"{after.tenant}/{after.urn}".encode()
    # CloudEvents in binary mode. Source: CloudEvents Kafka protocol binding 1.0.2, section 3.2.
    source, start = _source(place.topic, partition)
    identity = ("ce_id", f"{start}{after.logical_timestamp}/{after.seq}".encode())
    subject, moment = ("ce_subject", after.urn.encode()), _time(time_ms)
    for scope, record in change_records(before, after):
        headers = [_VERSION, source, identity, _IS_CHANGE, subject, moment, _IS_JSON]
        topic = changes if scope == "USER" else changes_system
        yield Outgoing(topic, partition, key, spelled(record), headers, time_ms)
    headers = [_VERSION, source, identity, _IS_STATE, subject, moment, _IS_JSON]
    yield Outgoing(state, partition, key, spelled(state_document(after, partition)), headers, time_ms)


@lru_cache(maxsize=64)
def _topics(names: TopicNames, domain: str) -> tuple[str, str, str]:
    """Topics of USER changes, SYSTEM changes and states."""
    return names.changes(domain), names.changes_system, names.state(domain)


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
