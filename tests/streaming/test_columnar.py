"""What is folded in columns is what is folded one by one, whatever stands between, and most of a journal is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.workload import journal as workload
from metajournal.domains.catalog.columns import documents as catalog_documents
from metajournal.domains.catalog.columns import folder as column_folder
from metajournal.domains.catalog.columns.folder import ColumnFolder
from metajournal.domains.catalog.columns.journal_columns import journal_columns
from metajournal.domains.catalog.events import (
    EntityDeleted,
    EntityRegistered,
    MetadataCleared,
    PropertiesSet,
    TagsAdded,
)
from metajournal.domains.catalog.urns import dataset
from metajournal.fold.folded import ACCEPTED, Judged, Verdict
from metajournal.fold.journal import journal_rows
from metajournal.fold.records import Place, Record
from metajournal.fold.repeats import hashes_of
from metajournal.fold.steps import RowFolder
from metajournal.lake.table import Reached
from metajournal.lake.tables import Lake
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import record_key
from metajournal.schemas.positions import position
from metajournal.schemas.urn import urn
from tests.builders import NOON, header_for, raw_record, record_of
from tests.model import JournalRecord
from tests.properties import examples
from tests.strategies import journals, plain_journals
from tests.streaming.both_ways import END, NAMES, ONE_TOPIC, assert_same, folded, in_bits_of, offsets_folded_singly
from tests.streaming.harness import TOPIC

many = settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
PURCHASES, ORDERS = dataset("default", "purchases"), dataset("default", "orders")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(str(tmp_path_factory.mktemp("lake")))
    lake.create()
    return lake


MARKED = (2, 3, 5, 8, 13)
"""Numbers of ids that an earlier event about PURCHASES was marked with, in a lake of its own."""


@pytest.fixture(scope="module")
def lake_with_marks(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(str(tmp_path_factory.mktemp("marked")))
    lake.create()
    place = Place(TOPIC, 0, 1, "catalog", frozenset())
    event, judged = TagsAdded(PURCHASES, ["again"]), []
    for number in MARKED:
        header = header_for(event, number, repeat=True)
        record = Record(number, NOON, record_key("default", str(PURCHASES)), b"", ())
        judged.append((place, Judged(record, NOON, header, Verdict(ACCEPTED))))
    lake.journal.append(journal_rows(judged), Reached({(TOPIC, 0): position(1, 0)}, {}, {"catalog": "other rules"}))
    return lake


@pytest.mark.thorough
@given(st.one_of(journals(partitions=1), plain_journals(partitions=1), plain_journals(partitions=1)), st.data())
@many
def test_any_journal_in_any_slices_gives_in_columns_what_it_gives_one_by_one(
    lake: Lake, lake_with_marks: Lake, journal: list[JournalRecord], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(journal)), max_size=4)))
    fields: dict[str, Any] = {}
    if data.draw(st.booleans()) and journal:
        some = data.draw(st.sampled_from(journal))
        fields["marks"] = {"entities": some.position}
        fields["shelved"] = data.draw(st.sampled_from([frozenset(), frozenset({some.position})]))
    used = data.draw(st.sampled_from([lake, lake_with_marks]))
    fields["repeats"] = None  # they are looked up
    few_bits = data.draw(st.sampled_from([None, None, 0, 7]))
    fields["rebuild"] = data.draw(st.sampled_from([False, False, True]))
    fields["names"] = data.draw(st.sampled_from([NAMES, NAMES, ONE_TOPIC]))
    with pytest.MonkeyPatch.context() as patch:
        in_bits_of(patch, data.draw(st.sampled_from([1, 2, 3, 7, 1000])))
        patch.setattr(column_folder, "_BITS_UNASKED", data.draw(st.sampled_from([0, 0, 1, 7])))
        patch.setattr(catalog_documents, "_BLOCK_ROWS", data.draw(st.sampled_from([1, 2, 5, 1000])))
        patch.setattr("metajournal.domains.catalog.columns.newest._MOST_CHUNKS", data.draw(st.sampled_from([1, 64])))
        patch.setattr(
            "metajournal.domains.catalog.columns.newest.MOST_BYTES", data.draw(st.sampled_from([60, 200, 32 * 1024]))
        )
        patch.setattr("metajournal.fold.prior._KEYS_PER_QUERY", data.draw(st.sampled_from([1, 500])))
        if few_bits is not None:
            patch.setattr("metajournal.fold.repeats.hashes_of", lambda ids: hashes_of(ids) & few_bits)
        assert_same(used, journal, cuts, **fields)


@pytest.mark.thorough
@given(plain_journals(partitions=1), st.data())
@many
def test_a_record_of_an_unknown_schema_stops_both_ways_at_the_same_place(
    lake: Lake, journal: list[JournalRecord], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(journal)))
    unknown = raw_record(b"\xc3\x01" + b"\7" * 30, 0, key=data.draw(st.sampled_from([b"x", journal_key(journal)])))
    after = [one._replace(position=one.position + 1) for one in journal[at:]]
    place = after[0].position - 1 if after else END - 10
    both = [*journal[:at], unknown._replace(position=place), *after]
    part = folded(ColumnFolder, lake, both).part
    assert (part.end, part.stopped_by) == (place, int.from_bytes(b"\7" * 8, "little"))
    assert_same(lake, both, sorted(data.draw(st.sets(st.integers(0, len(both)), max_size=2))))


def journal_key(journal: Sequence[JournalRecord]) -> bytes:
    return next((one.key for one in journal if one.key is not None), b"x")


@pytest.fixture
def singly(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return offsets_folded_singly(monkeypatch)


@pytest.mark.thorough
def test_all_of_an_ordinary_journal_is_folded_in_columns(lake: Lake, singly: list[int]) -> None:
    events = enumerate(workload(3_000, 400))
    records = [
        record_of(one, n, header=header_for(one, n + 1, tenant=tenant), append_time=NOON + n // 7)
        for n, (tenant, _, one) in events
    ]
    rows = assert_same(lake, records, [1_000, 1_001])
    assert len(rows) > 2_000
    assert singly == []


def text(value: str) -> bytes:
    return codec.encode(EntityRegistered(ORDERS, value), header_for(EntityRegistered(ORDERS), 9))


ODD: dict[str, Any] = {
    "marked": record_of(TagsAdded(ORDERS, ["x"]), 2, header=header_for(TagsAdded(ORDERS, ["x"]), 3, repeat=True)),
    "expected": record_of(TagsAdded(ORDERS, ["x"]), 2, header=header_for(TagsAdded(ORDERS, ["x"]), 3, expected=0)),
    "a schema as a list": record_of(EntityRegistered(ORDERS, schema=[("a", "long")]), 2),
    "invalid": record_of(TagsAdded(ORDERS, []), 2),
    "no name": record_of(PropertiesSet(ORDERS, {"": "x"}), 2),
    "kept": record_of(PropertiesSet(ORDERS, {"created_by": "x"}, "SYSTEM"), 2),
    "too far away": record_of(
        TagsAdded(ORDERS, ["x"]), 2, header=header_for(TagsAdded(ORDERS, ["x"]), 3, event_time=1 << 62)
    ),
    "another entity": record_of(
        TagsAdded(PURCHASES, ["x"]), 2,
        header=header_for(TagsAdded(PURCHASES, ["x"]), 3, aggregate=str(ORDERS), entities=(str(ORDERS),)),
    ),
    "two entities": record_of(
        TagsAdded(ORDERS, ["x"]), 2,
        header=header_for(TagsAdded(ORDERS, ["x"]), 3, entities=(str(ORDERS), str(ORDERS))),
    ),
    "no entity": record_of(TagsAdded(ORDERS, ["x"]), 2, header=header_for(TagsAdded(ORDERS, ["x"]), 3, entities=())),
    "another type": record_of(
        TagsAdded(ORDERS, ["x"]), 2, header=header_for(TagsAdded(ORDERS, ["x"]), 3, type="catalog.TagsRemoved.1")
    ),
    "long": record_of(PropertiesSet(ORDERS, {"a": "v" * 5_000}), 2),
    "many": record_of(TagsAdded(ORDERS, [f"{n}" for n in range(70)]), 2),
    "damaged": record_of(TagsAdded(ORDERS, ["x"]), 2, digest=b"\0" * 16),
    "no digest": record_of(TagsAdded(ORDERS, ["x"]), 2, digest=None),
    "no value": raw_record(None, 2, key=record_key("default", str(ORDERS))),
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_what_is_not_plain_is_folded_one_by_one_with_all_of_its_aggregate_and_nothing_else(
    lake: Lake, singly: list[int], odd: JournalRecord
) -> None:
    journal = [
        record_of(EntityRegistered(PURCHASES, tags=["a"]), 0),
        record_of(EntityRegistered(ORDERS, tags=["a"]), 1),
        odd,
        record_of(TagsAdded(PURCHASES, ["b"]), 3),
        record_of(TagsAdded(ORDERS, ["b"]), 4),
        record_of(MetadataCleared(PURCHASES, "BOTH"), 5),
    ]
    rows = assert_same(lake, journal)
    assert [row["urn"] for row in rows].count(str(PURCHASES)) == 3
    assert sorted(singly) == [1, 2, 4]


def test_of_long_rows_fewer_are_made_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_folder, "_MADE_BYTES", 200_000)
    made: list[int] = []

    def noting(place: Place, records: pa.Table, *rest: Any) -> pa.Table:
        made.append(records.num_rows)
        return journal_columns(place, records, *rest)

    monkeypatch.setattr(column_folder, "journal_columns", noting)
    long = [record_of(PropertiesSet(PURCHASES, {f"{n}": "v" * 3_000}), n) for n in range(1, 11)]
    tags = [record_of(TagsAdded(PURCHASES, [f"{n}"]), n) for n in range(11, 100)]
    found = folded(ColumnFolder, lake, [record_of(EntityRegistered(PURCHASES), 0), *long, *tags], [11])
    assert made[0] == 11
    assert max(made[1:]) < 15
    wanted = folded(RowFolder, lake, [record_of(EntityRegistered(PURCHASES), 0), *long, *tags], [11])
    assert found[:3] == wanted[:3]


def test_where_nearly_nothing_is_plain_it_is_seldom_looked_for(
    lake: Lake, singly: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_bits_of(monkeypatch, 2)
    odd = [record_of(TagsAdded(ORDERS, []), n) for n in range(4)]
    plain = [record_of(TagsAdded(PURCHASES, [f"{n}"]), n) for n in range(4, 24)]
    assert_same(lake, [*odd, *plain])
    assert singly == list(range(16))


def test_what_may_be_a_copy_of_a_marked_event_is_folded_one_by_one_and_the_rest_of_the_journal_is_not(
    lake_with_marks: Lake, singly: list[int]
) -> None:
    events = [EntityRegistered(PURCHASES), EntityRegistered(ORDERS), TagsAdded(PURCHASES, ["a"])]
    events += [TagsAdded(ORDERS, ["a"]), TagsAdded(PURCHASES, ["b"])]
    numbered = enumerate(zip(events, (100, 101, MARKED[0], 102, 103), strict=True))
    journal = [record_of(one, n, header=header_for(one, number)) for n, (one, number) in numbered]
    rows = assert_same(lake_with_marks, journal, [2, 4], repeats=None)
    assert [row["urn"] for row in rows] == [PURCHASES, ORDERS, ORDERS, PURCHASES]
    assert singly == [2]
    part = folded(ColumnFolder, lake_with_marks, journal, [2, 4], repeats=None).part
    assert part.verdicts == {"accepted": 4, "duplicate": 1}


def test_a_name_that_comes_twice_in_a_map_has_its_last_value(lake: Lake, singly: list[int]) -> None:
    event = PropertiesSet(PURCHASES, {"aa": "1", "bb": "2", "cc": "0"})
    value = codec.encode(event, header_for(event, 2)).replace(b"bb", b"aa")
    twice = raw_record(value, 1, key=record_key("default", str(PURCHASES)))
    again = raw_record(value, 2, key=record_key("default", str(PURCHASES)))
    rows = assert_same(lake, [record_of(EntityRegistered(PURCHASES), 0), twice, again])
    assert [dict(row["user_properties"]) for row in rows] == [{}, {"aa": "2", "cc": "0"}]
    assert singly == []


def test_a_text_that_is_no_utf8_is_shelved_and_the_others_are_folded(lake: Lake) -> None:
    event = TagsAdded(PURCHASES, ["zzzz"])
    value = codec.encode(event, header_for(event, 2)).replace(b"zzzz", b"\xed\xa0\x80z")
    wrong = raw_record(value, 1, key=record_key("default", str(PURCHASES)))
    rows = assert_same(lake, [record_of(EntityRegistered(PURCHASES), 0), wrong, record_of(EntityRegistered(ORDERS), 2)])
    assert len(rows) == 2


def test_an_event_that_was_folded_in_columns_is_known_when_it_is_sent_again_with_a_mark(
    lake: Lake, singly: list[int]
) -> None:
    one = TagsAdded(PURCHASES, ["a"])
    lost = TagsAdded(urn("team", "nobody"), ["a"])
    journal = [
        record_of(EntityRegistered(PURCHASES), 0),
        record_of(one, 1),
        record_of(TagsAdded(PURCHASES, ["a"]), 2),
        record_of(lost, 3),
        *[record_of(event, at, header=header_for(event, number, repeat=True))
          for at, event, number in ((4, one, 1), (5, one, 2), (6, lost, 3))],
        record_of(one, 7, header=header_for(one, 1)),
    ]  # fmt: skip
    part = folded(ColumnFolder, lake, journal, [4]).part
    assert part.verdicts == {"accepted": 2, "unchanged": 1, "rejected": 1, "duplicate": 4}
    assert_same(lake, journal, [4])
    assert set(singly) == {4, 5, 6, 7}


def test_an_entity_ends_and_begins_anew(lake: Lake, singly: list[int]) -> None:
    events = [
        EntityRegistered(PURCHASES, "first", properties={"a": "1"}, tags=["a"]),
        EntityDeleted(PURCHASES),
        TagsAdded(PURCHASES, ["b"]),
        EntityDeleted(PURCHASES),
        EntityRegistered(PURCHASES),
        TagsAdded(PURCHASES, ["Ω", "a", "a"]),
    ]
    headers = [header_for(one, n + 1, actor=(None, "bob")[n % 2]) for n, one in enumerate(events)]
    journal = [record_of(one, n, header=header) for n, (one, header) in enumerate(zip(events, headers, strict=True))]
    rows = assert_same(lake, journal, [1, 4])
    assert [row["deleted"] for row in rows] == [False, True, False, False]
    assert [row["user_tags"] for row in rows] == [["a"], [], [], ["a", "Ω"]]
    assert singly == []
