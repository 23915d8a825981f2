"""What the catalog publishes of each changed row: change records by scope, and the state document.

The records' content stands in `rules/documents.py`; here they become Kafka records: topic, key, headers, bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ..rules.documents import change_records, state_document
from ..schemas.hashing import canonical_json
from ..schemas.topics import TopicNames
from .fold import Change, Folded
from .publish import Outgoing

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHANGE_TYPE = "metajournal.catalog.MetadataChangeRecord"
STATE_TYPE = "metajournal.state.Entity"


def outgoing(folded: Folded, change: Change, names: TopicNames) -> Iterator[Outgoing]:
    """The records of one changed row: its change records, then its state document.

    Args:
        folded: the partition that the row came from.
        change: the row and the one before it.
        names: topic names.
    """
    after = change.after
    place = folded.place
    key = f"{after.tenant}/{after.urn}".encode()
    for scope, record in change_records(change.before, after):
        topic = names.changes(place.domain) if scope == "USER" else names.changes_system
        headers = _headers(folded, change, CHANGE_TYPE)
        yield Outgoing(topic, place.partition, key, canonical_json(record), headers, after.system_time)
    document = state_document(after, place.partition)
    headers = _headers(folded, change, STATE_TYPE)
    yield Outgoing(
        names.state(place.domain), place.partition, key, canonical_json(document), headers, after.system_time
    )


def _headers(folded: Folded, change: Change, kind: str) -> list[tuple[str, bytes]]:
    """CloudEvents in binary mode. Source: CloudEvents Kafka protocol binding 1.0.2, section 3.2."""
    after, place = change.after, folded.place
    identity = f"{place.topic}/{place.partition}/{after.logical_timestamp}/{after.seq}"
    return [
        ("ce_specversion", b"1.0"),
        ("ce_source", f"/{place.topic}/{place.partition}".encode()),
        ("ce_id", identity.encode()),
        ("ce_type", kind.encode()),
        ("ce_subject", after.urn.encode()),
        ("ce_time", rfc3339(after.system_time).encode()),
        ("content-type", b"application/json"),
    ]


def rfc3339(time_ms: int) -> str:
    """Milliseconds UTC as RFC 3339 text with three decimals."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
