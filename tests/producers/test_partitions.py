"""An aggregate stays in its partition, whatever becomes of the topic while an emitter is connected."""

from __future__ import annotations

from typing import Any

import pytest

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset, program
from metajournal.producers.receipts import Receipt
from metajournal.schemas.hashing import partition_of, record_key
from metajournal.schemas.urn import Urn
from tests.producers.mocked import PARTITIONS, mocked_emitter

RECORDED = PARTITIONS - 1
"""The topic has got a partition more since it was recorded."""
ENTITIES = [dataset("default", f"orders_{number}") for number in range(40)] + [program("a", "app", "spark", "daily")]


def expected(tenant: str, partitions: int) -> list[int]:
    return [partition_of(record_key(tenant, entity.aggregate), partitions) for entity in ENTITIES]


def partitions_of(receipts: list[Receipt]) -> list[int]:
    return [receipt.position.partition for receipt in receipts]


@pytest.mark.parametrize("recorded", [RECORDED, PARTITIONS])
@pytest.mark.parametrize("tenant", ["default", "acme"])
def test_an_added_partition_moves_no_aggregate(recorded: int, tenant: str) -> None:
    emitter = mocked_emitter(recorded)
    receipts = [emitter.emit(TagsAdded(entity, ["pii"]), tenant=tenant) for entity in ENTITIES]
    assert partitions_of(receipts) == expected(tenant, recorded)
    emitter.close()


def test_no_event_that_waited_for_a_place_in_the_queue_is_moved() -> None:
    emitter = mocked_emitter(RECORDED, queue_events=1)
    receipts = [emitter.emit(TagsAdded(entity, ["pii"]), block_s=20) for entity in ENTITIES]
    assert partitions_of(receipts) == expected("default", RECORDED)
    emitter.close()


def test_no_event_of_a_unit_is_moved() -> None:
    emitter = mocked_emitter(RECORDED)
    said: dict[str, Any] = dict.fromkeys(("tenant", "actor", "event_time", "cause", "unit_id"))
    with emitter.unit(repeat=False, **said) as unit:
        for entity in ENTITIES:
            unit.emit(TagsAdded(entity, ["pii"]))
    assert partitions_of([*unit.receipts]) == expected("default", RECORDED)
    emitter.close()


def test_entities_of_one_aggregate_share_a_partition() -> None:
    emitter = mocked_emitter(RECORDED)
    members: list[Urn] = [program("a", "app", "spark", f"daily_{number}") for number in range(20)]
    assert len(set(partitions_of([emitter.emit(TagsAdded(one, ["pii"])) for one in members]))) == 1
    emitter.close()
