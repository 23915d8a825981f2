"""What every event must pass before its rule may read a row: form, agreement with its header, precondition.

Producers check the same before they send, but anybody can write to a topic, so the fold trusts none of it. That a
record's Kafka key names the header's tenant and aggregate is the stream's check. After `refusal` a rule may read every
entity of the event without meeting a row of another aggregate.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from ..schemas.errors import Fault
from ..schemas.events import Event
from ..schemas.header import TENANT_PATTERN, Header
from ..schemas.registry import has_documents
from ..schemas.urn import Urn
from .entity import EntityRow
from .outcome import Rejected

REASONS: Final = ("invalid", "wrong-aggregate", "stale-entity")
"""Why an event of any domain may be rejected, in the order in which is looked: `invalid` with {"field", "message"} of
each fault, `wrong-aggregate` with {"aggregate", "entities"} as they had to be, `stale-entity` with {"entity",
"expected", "found"}. A domain declares its own ones."""

EARLIEST_MS: Final = -62_135_596_800_000
"""0001-01-01T00:00:00Z. Tables and languages agree on the years 1 to 9999 only."""

LATEST_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z."""


@lru_cache(maxsize=4096)
def _is_tenant(text: str) -> bool:
    """Whether a tenant's name has its form: few names come in many events."""
    return TENANT_PATTERN.fullmatch(text) is not None


def refusal(header: Header, event: Event) -> Rejected | None:
    """Why an event is refused whatever the rows say, or None.

    Returns:
        Rejected("invalid") with every fault of the event and its header, or Rejected("wrong-aggregate") where the
        header's aggregate or entities are not those of the event.
    """
    faults = event.validate() or _unannotated_faults(event)
    if header.type != event.TYPE:
        faults.append(Fault("header.type", f"must be {event.TYPE}, as the record's schema says"))
    if not _is_tenant(header.tenant):
        faults.append(Fault("header.tenant", f"must match {TENANT_PATTERN.pattern}"))
    if not EARLIEST_MS <= header.event_time <= LATEST_MS:
        faults.append(Fault("header.event_time", f"must be between {EARLIEST_MS} and {LATEST_MS} ms, years 1 to 9999"))
    if faults:
        return Rejected("invalid", [{"field": fault.field, "message": fault.message} for fault in faults])
    return _disagreement(header, event)


def _unannotated_faults(event: Event) -> list[Fault]:
    """The fault of an event of another domain about an entity that takes no annotations; the event is valid."""
    for entity in event.entities[:1]:  # none, of an event about nothing: that disagrees with its header
        domain = entity.domain
        if not has_documents(domain) and not event.TYPE.startswith(f"{domain}."):
            why = f"{entity.kind} takes no annotations: only events of the domain {domain} are about it"
            return [Fault("entity", why)]
    return []


def _disagreement(header: Header, event: Event) -> Rejected | None:
    entities, aggregate = event.entities, header.aggregate
    if header.entities == entities and entities:
        for entity in entities:
            if entity.aggregate != aggregate:
                break
        else:
            return None
    detail = {"aggregate": str(event.aggregate), "entities": [str(entity) for entity in entities]}
    return Rejected("wrong-aggregate", detail)


def stale(header: Header, entity: Urn, live: EntityRow | None) -> Rejected | None:
    """The broken precondition of an event on one entity, or None.

    Args:
        live: the entity's newest row; None when it never had one or is deleted, which `expected` calls 0.
    """
    if header.expected is None:
        return None
    found = 0 if live is None else live.logical_timestamp
    if header.expected == found:
        return None
    return Rejected("stale-entity", {"entity": str(entity), "expected": header.expected, "found": found})
