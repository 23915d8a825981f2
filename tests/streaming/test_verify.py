"""What `verify` says of units, over real tables."""

from __future__ import annotations

from pathlib import Path

from metajournal.commands.refolding import _mends
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.schemas.header import Unit
from metajournal.schemas.ids import id_text
from metajournal.streaming.verify import _units
from tests.builders import header_for, record_of
from tests.streaming.harness import TOPIC, Fold, placed
from tests.streaming.test_engine import PARTITIONS, PURCHASES

ORDERS = dataset("default", "orders")
UNIT = bytes(range(16))


def test_a_unit_is_whole_that_repeats_an_event_which_was_emitted_singly_before(tmp_path: Path) -> None:
    event = EntityRegistered(PURCHASES)
    single = header_for(event, 1)
    again = single._replace(repeat=True, unit=Unit(UNIT, 0, 2))
    other = TagsAdded(ORDERS, ["pii"])
    records = [
        record_of(event, 0, header=single),
        record_of(event, 1, header=again),
        record_of(other, 2, header=header_for(other, 2, unit=Unit(UNIT, 1, 2))),
    ]
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(placed(records, PARTITIONS))
    assert "duplicate" in [row["outcome"] for row in fold.journal()]
    assert _units(fold.lake.journal.delta, settled=True).ok


def test_a_unit_of_another_tenant_with_the_same_id_hides_no_missing_event(tmp_path: Path) -> None:
    event = TagsAdded(PURCHASES, ["pii"])
    records = [
        record_of(event, 0, header=header_for(event, 1, unit=Unit(UNIT, 0, 2))),
        record_of(event, 1, header=header_for(event, 2, unit=Unit(UNIT, 1, 2), tenant="acme")),
    ]
    fold = Fold(tmp_path, PARTITIONS)
    fold.batch(placed(records, PARTITIONS))
    found = _units(fold.lake.journal.delta, settled=True)
    assert not found.ok
    assert len(found.failures) == 2
    assert "rebuild lake --from kafka" in found.mend


def test_a_unit_id_that_was_used_again_is_told_with_its_places_and_no_rebuild(tmp_path: Path) -> None:
    records = []
    for number, tenant in enumerate(("lake_rows", "lake_rows", "other", "other")):
        event = TagsAdded(PURCHASES, [f"t{number}"])
        unit = Unit(UNIT, number % 2, 1)
        records.append(record_of(event, number, header=header_for(event, number + 1, unit=unit, tenant=tenant)))
    fold = Fold(tmp_path, PARTITIONS)
    where = [f"{TOPIC}/{one.partition}/{one.position}" for one in placed(records, PARTITIONS)]
    fold.batch(placed(records, PARTITIONS))
    found = _units(fold.lake.journal.delta, settled=True)
    unit_id = id_text(UNIT)
    assert found.failures == (
        f"tenant lake_rows, unit {unit_id} (2 of 1): {where[0]}, {where[1]}, by alice",
        f"tenant other, unit {unit_id} (2 of 1): {where[2]}, {where[3]}, by alice",
    )
    [advice] = _mends([found])
    assert "no rebuild changes it" in advice
    assert "rebuild lake" not in advice
