"""The journal that the benchmarks fold: catalog events of a realistic shape, the same at every run.

Every entity is registered, then changed; 10 % of all events change nothing and 2 % are rejected.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from metajournal.domains.catalog.events import (
    EntityRegistered,
    MetadataCleared,
    PropertiesRemoved,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
)
from metajournal.domains.catalog.urns import dataset
from metajournal.schemas.urn import Urn

_SCHEMA_TEXT: Final = (
    '{"type":"record","name":"purchase","fields":[{"name":"id","type":"long"},{"name":"customer","type":"string"},'
    '{"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}}]}'
)


def journal(events: int, entities: int, *, seed: int = 7) -> Iterator[tuple[str, Urn, Any]]:
    """Tenant, entity and event of each record: every entity is registered, then changed; 10 % of all change nothing
    and 2 % are rejected."""
    chance = random.Random(seed)
    known: list[tuple[str, Urn]] = []
    last: dict[tuple[str, Urn], Any] = {}
    for number in range(events):
        draw = chance.random()
        if known and draw < 0.02:
            yield (
                chance.choice(known)[0],
                dataset("lost", f"t{number}"),
                TagsAdded(dataset("lost", f"t{number}"), ["x"]),
            )
            continue
        again = chance.choice(known) if known else None
        if again in last and draw < 0.12:
            yield *again, last[again]
            continue
        if len(known) * events <= number * entities:
            named = (f"tenant-{number % 4}", dataset(f"space{number % 40}", f"orders_{number:07}"))
            known.append(named)
            event: Any = _registered(named[1], number)
        else:
            named = again or known[0]
            event = _changed(chance, named[1], number)
        if isinstance(event, PropertiesSet | TagsAdded):
            last[named] = event
        elif not isinstance(event, EntityRegistered):
            last.pop(named, None)
        yield *named, event


def _registered(entity: Urn, number: int) -> EntityRegistered:
    properties = {"owner": f"team-{number % 50}", "retention": "90 days", "location": f"s3://lake/{entity.name}"}
    return EntityRegistered(
        entity, f"Orders of day {number}.", _SCHEMA_TEXT, properties, ["daily", f"zone-{number % 9}"]
    )


def _changed(chance: random.Random, entity: Urn, number: int) -> Any:
    draw = chance.random()
    if draw < 0.55:
        return PropertiesSet(entity, {"rows": str(number), "checked_by": f"job-{number % 300}"})
    if draw < 0.85:
        return TagsAdded(entity, [f"batch-{number % 1000}", "checked"])
    if draw < 0.92:
        return PropertiesRemoved(entity, ["rows", "checked_by"])
    if draw < 0.98:
        return TagsRemoved(entity, ["checked", "daily"])
    return MetadataCleared(entity)
