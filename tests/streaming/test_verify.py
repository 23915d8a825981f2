"""What `verify` says of units, over real tables."""

from __future__ import annotations

from pathlib import Path

from metajournal.schemas.events.catalog import EntityRegistered, TagsAdded
from metajournal.schemas.header import Unit
from metajournal.schemas.urn import dataset
from metajournal.streaming.verify import _units
from tests.builders import header_for, record_of
from tests.streaming.harness import Fold, placed
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
    assert len(found.found) == 2
