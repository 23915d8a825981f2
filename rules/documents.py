"""The state document of an entity: the whole of its newest row as JSON, for the index and for new subscribers.

A function of the row alone; topic, key and Kafka headers are the stream's. The maps and tag lists in it are sorted, and
shared with the row: serialise them, do not change them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..schemas.kinds import domain_of_kind
from .entity import EntityRow

Document = dict[str, Any]


def metadata_record(properties: Mapping[str, str], tags: Sequence[str]) -> Document:
    """Properties and tags of one scope."""
    return {"properties": properties, "tags": list(tags)}


def state_document(row: EntityRow, partition: int, domain: str | None = None) -> Document:
    """The whole current document of an entity, a deleted one included.

    Args:
        row: the entity's newest row.
        partition: the journal partition that the row's position counts in.
        domain: the domain of its journal topic; None: the one that owns its kind now.
    """
    (
        tenant, urn, kind, namespace, name, aggregate, position, seq, system_time, event_time, event_id, actor, deleted,
        record, user_properties, user_tags, system_properties, system_tags,
    ) = row  # fmt: skip
    return {
        "tenant": tenant,
        "urn": urn,
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "domain": domain or domain_of_kind(kind),
        "aggregate": aggregate,
        "partition": partition,
        "position": position,
        "seq": seq,
        "logical_timestamp": position,
        "system_time": system_time,
        "event_time": event_time,
        "event_id": event_id,
        "actor": actor,
        "deleted": deleted,
        "record": record,
        "user": metadata_record(user_properties, user_tags),
        "system": metadata_record(system_properties, system_tags),
    }
