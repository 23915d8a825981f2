"""What the comparison of two folds sees, and what it passes over; and how offsets without a record are found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.upgrades.archive import HERE, Archive, Index, Partition, Record, Topic
from tests.upgrades.equality import compare_index, compare_tables, compare_topic
from tests.upgrades.restore import stretches

VERDICT = {"from": 1, "to": 2, "verdicts": [[1, "unchanged"]], "system_time": 5, "written": 900}


def topic(*records: Record, name: str = "p.changes.catalog") -> Topic:
    return Topic(name, {}, (Partition(records, len(records)),))


def record(value: Any, offset: int = 0, **fields: Any) -> Record:
    whole = {"time_ms": 7, "key": b"k", "headers": (("ce_id", b"1"),), **fields}
    return Record(offset, value=json.dumps(value).encode(), **whole)


def test_a_record_that_is_changed_missing_added_or_at_another_time_differs() -> None:
    one, other = record({"a": 1}), record({"a": 2}, 1)
    assert not compare_topic(topic(one, other), topic(one, other), ()).differing
    for changed in (
        topic(one),
        topic(one, other, record({}, 2)),
        topic(one, other._replace(key=b"K")),
        topic(one, other._replace(time_ms=8)),
        topic(one, other._replace(headers=())),
        topic(one, record({"a": 3}, 1)),
    ):
        assert len(compare_topic(topic(one, other), changed, ("new",)).differing) == 1


def test_only_a_header_that_is_named_as_new_may_be_there_more() -> None:
    old, new = record({}), record({}, headers=(("ce_id", b"1"), ("new", b"x")))
    assert not compare_topic(topic(old), topic(new), ("new",)).differing
    assert compare_topic(topic(old), topic(new), ()).differing
    assert compare_topic(topic(new), topic(old), ("new",)).differing


def test_of_an_outcome_record_only_the_clock_is_passed_over() -> None:
    def outcomes(said: Any, time_ms: int) -> Topic:
        return topic(record(said, time_ms=time_ms), name="p.outcomes.files")

    was = outcomes(VERDICT, 900)
    assert not compare_topic(was, outcomes(VERDICT | {"written": 950}, 950), ()).differing
    assert compare_topic(was, outcomes(VERDICT | {"to": 3}, 900), ()).differing
    assert compare_topic(was, outcomes(VERDICT, 5), ()).differing
    assert compare_topic(topic(record(VERDICT)), topic(record(VERDICT | {"written": 950})), ()).differing


def test_tables_and_documents_are_held_against_each_other_by_name() -> None:
    found = compare_tables({"a": "1", "b": "2"}, {"a": "1", "c": "3"})
    assert [(one.name, bool(one.differing)) for one in found] == [
        ("table a", False),
        ("table b", True),
        ("table c", True),
    ]
    index = Index("i", {}, {}, {}, [("x", 1, {"urn": "u"})], {})
    assert not compare_index(index, index).differing
    assert compare_index(index, index._replace(documents=[("x", 2, {"urn": "u"})])).differing
    assert compare_index(index, index._replace(documents=[])).differing
    assert compare_index(index, index._replace(mappings={"dynamic": "true"})).differing


@pytest.mark.thorough
def test_stretches_give_every_record_and_every_offset_without_one() -> None:
    topics = Archive(HERE / "0.1.0").topics()
    gaps = set()
    for partition in (one for each in topics for one in each.partitions):
        found = list(stretches(partition))
        assert tuple(one for records, _ in found for one in records) == partition.records
        free = 0
        for records, gap in found:
            assert [one.offset for one in records] == list(range(free, free + len(records)))
            free += len(records) + gap
            gaps.add(gap)
        assert free == partition.end
    assert {0, 1, 2} <= gaps
