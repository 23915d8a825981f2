"""What subscribers get: changes and states, read from the records of their topics.

Headers are read first, since they tell what to drop and what is not asked for; JSON is decoded for what is left.
What a record means is `rules/documents`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from confluent_kafka import Message

from ..producers.headers import headers_of
from ..schemas.errors import DecodeError
from ..schemas.positions import Position
from ..schemas.topics import DOMAIN_HEADER
from ..schemas.untrusted import UNREADABLE, json_object, whole_of
from .ledger import Place, Source

Scope = Literal["USER", "SYSTEM"]
Partition: TypeAlias = tuple[str, int]
"""A topic that the stream writes, and its partition."""
_HINT: Final = "Something else writes to this topic, which only the stream may do (docs/how-to/secure-connections.md)."


@dataclass(frozen=True, slots=True)
class Change:
    """One change record.

    Attributes:
        urn: the entity that changed.
        position: the event that changed it.
        seq: number of the row among those that the event changed.
        scope: whose metadata changed, USER or SYSTEM.
        type: CloudEvents type of the record.
        time: system_time of the event, milliseconds UTC.
        record: the change record itself.
        partition: partition of the change topic that it was read from.
        tenant: whose entity it is.
        domain: the domain whose change it is; of tags and properties of any entity the one that owns annotations.
    """

    urn: str
    position: Position
    seq: int
    scope: Scope
    type: str
    time: int
    record: dict[str, Any]
    partition: int
    tenant: str = "default"
    domain: str = ""

    @property
    def id(self) -> str:
        """Permanent id of this change; the same text means the same change."""
        return f"{self.position}/{self.seq}/{self.scope}"


@dataclass(frozen=True, slots=True)
class State:
    """The complete current metadata of one entity after one event.

    Attributes:
        urn: the entity.
        position: the last event that changed it.
        seq: number of the row among those that the event changed.
        deleted: it is gone.
        time: system_time of the event, milliseconds UTC.
        document: the state document itself.
        partition: partition of the state topic that it was read from.
        tenant: whose entity it is.
    """

    urn: str
    position: Position
    seq: int
    deleted: bool
    time: int
    document: dict[str, Any]
    partition: int
    tenant: str = "default"

    @property
    def id(self) -> str:
        """Permanent id of this state; the same text means the same state."""
        return f"{self.position}/{self.seq}/STATE"


class Identity(NamedTuple):
    """What key, headers and offset say of a record."""

    source: Source
    place: Place
    key: bytes
    offset: int
    urn: str
    type: str
    tenant: str
    domain: str | None = None
    """Of a change that says it; earlier versions wrote none."""


def identity(message: Message) -> Identity:
    """Read a record's key and headers.

    Raises:
        DecodeError: the stream has not written it.
    """
    try:
        headers: dict[str, Any] = dict(headers_of(message))
        source, position, seq = headers["ce_id"].decode().rsplit("/", 2)
        place = whole_of(position), whole_of(seq)
        key = message.key() or b""
        start, _, rest = key.partition(b"/")
        if rest != headers["ce_subject"]:
            raise ValueError("its key and its headers name two entities")
        urn, type_ = rest.decode(), headers["ce_type"].decode()
        domain = headers[DOMAIN_HEADER].decode() if DOMAIN_HEADER in headers else None
        return Identity(_source(source), place, key, message.offset() or 0, urn, type_, start.decode(), domain)
    except UNREADABLE as error:  # also a text that is not UTF-8, or a null
        raise unreadable(message, error) from error


@lru_cache(maxsize=4096)
def _source(text: str) -> Source:
    topic, partition = text.rsplit("/", 1)
    if not topic:
        raise ValueError("the source is not a journal partition")
    return topic, whole_of(partition)


def change_of(message: Message, identity: Identity, scope: Scope, topic_domain: str) -> Change:
    """A change, its record decoded.

    Args:
        topic_domain: whose changes its topic has, for a record that does not say its domain.
    Raises:
        DecodeError: its value is no change record.
    """
    position = Position(*identity.source, identity.place[0])
    time_ms, partition = message.timestamp()[1], message.partition() or 0
    try:
        record = json_object(message.value())
        _check_change(record)
    except UNREADABLE as error:
        raise unreadable(message, error) from error
    domain = identity.domain or topic_domain
    return Change(
        identity.urn,
        position,
        identity.place[1],
        scope,
        identity.type,
        time_ms,
        record,
        partition,
        identity.tenant,
        domain,
    )


def state_of(message: Message, identity: Identity) -> State:
    """A state, its document decoded.

    Raises:
        DecodeError: its value is no state document.
    """
    try:
        document = json_object(message.value())
        _check_state(document, identity)
    except UNREADABLE as error:
        raise unreadable(message, error) from error
    position = Position(*identity.source, identity.place[0])
    deleted, time_ms = document["deleted"], message.timestamp()[1]
    return State(
        identity.urn, position, identity.place[1], deleted, time_ms, document, message.partition() or 0, identity.tenant
    )  # fmt: skip


def _check_change(record: Mapping[str, Any]) -> None:
    """Whether a record is made as the changes of some domain are. Raises one of UNREADABLE: it is not."""
    if "changes" in record:
        for side in ("additions", "deletions"):
            _check_annotations(record["changes"][side])
    if "file" in record:
        for side in ("previous", "updated"):
            if record[side] is not None:
                {**record[side]["metadata"]}


def _check_state(document: Mapping[str, Any], identity: Identity) -> None:
    """Whether a document is made as a state is, and its key and headers are its own. Raises as `_check_change`."""
    own = document["tenant"], document["urn"], document["logical_timestamp"]
    if own != (identity.tenant, identity.urn, identity.place[0]):
        raise ValueError("its key or its headers are of another state")
    if not isinstance(document["deleted"], bool):
        raise TypeError("deleted is neither true nor false")
    for scope in ("user", "system"):
        _check_annotations(document[scope])


def _check_annotations(given: Mapping[str, Any]) -> None:
    tags, properties = given["tags"], given["properties"]
    if not isinstance(tags, list):
        raise TypeError("its tags are not a list")
    "".join(tags)
    "".join(properties.values())


def unreadable(message: Message, error: Exception) -> DecodeError:
    """The error of a record that the stream has not written."""
    place = f"{message.topic()}/{message.partition()} offset {message.offset()}"
    kind = "state" if ".state." in (message.topic() or "") else "change"
    return DecodeError(f"The record at {place} is no {kind} record: {error!r}.", hint=_HINT)
