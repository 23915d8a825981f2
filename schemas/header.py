"""The header that stands first in every event: who, what, which aggregate, when, and under which condition.

It decodes without knowing the event's type, so tools can name any record. The client fills it; rules only read it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

TENANT_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Unit:
    """Membership in an all-or-nothing unit over several aggregates."""

    id: bytes
    """16 bytes, the same for every event of the unit."""
    index: int
    """Place of this event, from 0."""
    count: int
    """Events in the unit."""


class Header(NamedTuple):
    """What is common to all events; field order is the wire's."""

    event_id: bytes
    """UUIDv7, 16 bytes."""
    tenant: str
    type: str
    """`<domain>.<Name>.<version>`, for example `catalog.TagsAdded.1`."""
    aggregate: str
    """URN of the aggregate; with the tenant it is the Kafka key."""
    entities: tuple[str, ...]
    """URNs that the event reads or writes, all of this aggregate."""
    actor: str | None
    event_time: int
    """Milliseconds since the epoch, UTC; what the emitter says."""
    expected: int | None = None
    """Logical timestamp of the target's newest history row; 0: must not exist; None: unconditional."""
    unit: Unit | None = None
    cause: bytes | None = None
    """Id of the event that led to this one, 16 bytes."""
    repeat: bool = False
    """This event may stand in the log already."""
