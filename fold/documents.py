"""Change and state records of many rows in the order of publishing, and the headers that they get.

A domain adds its records here (`catalog`, `lineage`, `files`), each under the type that it names. What their content is
stands with the domain; here they become Kafka records: topic, key, headers, bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..schemas.registry import change_domains
from ..schemas.topics import DOMAIN_HEADER
from .records import Place

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VERSION = ("ce_specversion", b"1.0")
_IS_JSON = ("content-type", b"application/json")
Header = tuple[str, bytes]
_new: Final = tuple.__new__  # past the class's own slower constructor: there are two records for every event


class Outgoing(NamedTuple):
    """One record to publish. (A tuple: there are two for every event.)

    Attributes:
        journal_partition: the partition that it came from; it goes to this one modulo the topic's number.
        time_ms: record timestamp, milliseconds UTC.
    """

    topic: str
    journal_partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, Any]]
    time_ms: int


class Document(NamedTuple):
    """A record without its headers.

    Attributes:
        topic, key, value: as in Outgoing.
        type: its `ce_type`.
        identity: its `ce_id`.
        time_ms: milliseconds UTC.
    """

    topic: str
    type: str
    key: bytes
    value: bytes
    identity: bytes
    time_ms: int


class DocumentColumns(NamedTuple):
    """Records of one topic, side by side.

    Attributes:
        place: the journal partition that they come from.
        topic: as in Document.
        type, time_ms: as in Document, the same for all; or an Arrow array with an entry for each.
        keys, values, identities: Arrow arrays of texts, an entry for each record, in the order of publishing.
    """

    place: Place
    topic: str
    type: Any
    time_ms: Any
    keys: Any
    values: Any
    identities: Any


class Documents:
    """Records of one journal partition, in the order of publishing.

    Attributes:
        place: the journal partition.
        records: what the domains have added.
    """

    __slots__ = ("_start", "place", "records")

    def __init__(self, place: Place) -> None:
        self.place = place
        self._start = f"{place.topic}/{place.partition}/"
        self.records: list[Document] = []

    def identity(self, position: int, seq: int) -> bytes:
        """The id of the records of one row."""
        return f"{self._start}{position}/{seq}".encode()

    def add(self, topic: str, kind: str, key: bytes, value: bytes, identity: bytes, time_ms: int) -> None:
        """Add a record of a type."""
        self.records.append(_new(Document, (topic, kind, key, value, identity, time_ms)))

    def outgoing(self) -> Iterator[Outgoing]:
        """The records with their headers."""
        topic, partition = self.place.topic, self.place.partition
        for target, kind, key, value, identity, time_ms in self.records:
            headers = headers_of(topic, partition, identity, kind, key, time_ms)
            yield Outgoing(target, partition, key, value, headers, time_ms)


def row_key(tenant: str, urn: str) -> bytes:
    """The key of what is published of an entity."""
    return f"{tenant}/{urn}".encode()


def headers_of(topic: str, partition: int, identity: bytes, kind: str, key: bytes, time_ms: int) -> list[Header]:
    """The headers of a record of a journal partition: CloudEvents in binary mode.

    Source: CloudEvents Kafka protocol binding 1.0.2, section 3.2; of extension attributes CloudEvents 1.0.2,
    section "Extension Context Attributes".
    """
    source, type_header, others = _shared(topic, partition, kind, time_ms)
    subject = key[key.index(b"/") + 1 :]
    return [_VERSION, source, ("ce_id", identity), type_header, ("ce_subject", subject), *others]


def headers_of_many(
    topic: str, partition: int, identities: Sequence[bytes], kind: str, keys: Sequence[bytes], time_ms: int
) -> list[list[Header]]:
    """The same of records of one type and time."""
    source, type_header, others = _shared(topic, partition, kind, time_ms)
    return [
        [_VERSION, source, ("ce_id", identity), type_header, ("ce_subject", key[key.index(b"/") + 1 :]), *others]
        for identity, key in zip(identities, keys, strict=True)
    ]


@lru_cache(maxsize=1024)
def _shared(topic: str, partition: int, kind: str, time_ms: int) -> tuple[Header, Header, tuple[Header, ...]]:
    """The headers that many records have: source, type and what stands behind the subject: time, domain of a change,
    form. (A backlog has many events of one millisecond.)"""
    source = f"/{topic}/{partition}".encode()
    time_header, domain = ("ce_time", rfc3339(time_ms).encode()), domain_of_type(kind)
    others = [time_header, (DOMAIN_HEADER, domain.encode()), _IS_JSON] if domain else [time_header, _IS_JSON]
    return ("ce_source", source), ("ce_type", kind.encode()), tuple(others)


@lru_cache(maxsize=64)
def domain_of_type(kind: str) -> str | None:
    """The domain that the changes of a type are of, `metajournal.<domain>.<name>`; None of what is no change."""
    domain = kind.removeprefix("metajournal.").partition(".")[0]
    return domain if domain in change_domains() else None


def rfc3339(time_ms: int) -> str:
    """Milliseconds UTC as RFC 3339 text with three decimals."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
