"""Records read by the table are what they are read as one by one, and so are the journal's rows made of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.domains.catalog.events import EntityDeleted, EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import app, dataset, program, run
from metajournal.fold.folded import Prior
from metajournal.fold.journal import journal_rows, journal_table
from metajournal.fold.judging import PartitionRows, fold
from metajournal.fold.prior import KnownOriginals
from metajournal.fold.readings import Readings, read_all, read_table
from metajournal.fold.records import Place, UnknownSchema, records_of
from metajournal.lake.spelling import spelled, spelled_all
from metajournal.rules import At, EntityRow, ForeignRowError, Outcome, apply
from metajournal.schemas.encoding import bulk
from metajournal.schemas.hashing import canonical_json, digest
from metajournal.schemas.header import Header
from metajournal.schemas.positions import position
from tests.builders import NOON, header_for, record_of
from tests.model import JournalRecord
from tests.properties import examples
from tests.strategies import journals
from tests.streaming.harness import TOPIC, placed, table_of

PURCHASES = dataset("default", "purchases")
many = settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_FEWEST", 1)


def place(partition: int = 0, partitions: int = 1, *shelved: int) -> Place:
    return Place(TOPIC, partition, partitions, "catalog", frozenset(shelved))


class NoRows(dict[Any, Any]):
    """Prior rows of an empty lake."""

    def __missing__(self, key: Any) -> None:
        return None


def assert_same(table: pa.Table, where: Place) -> Readings:
    """Read both ways: equal readings, equal verdicts, equal rows of the journal table."""
    end = position(1, 1000)
    one_by_one = read_all(records_of(table, 1), where, position(1, 0), end)
    by_table = read_table(table, where, 1, position(1, 0), end)
    assert (by_table.start, by_table.end, by_table.stopped_by) == (
        one_by_one.start,
        one_by_one.end,
        one_by_one.stopped_by,
    )
    assert by_table.items == one_by_one.items
    assert by_table.needs() == one_by_one.needs()
    prior = Prior(NoRows(), dict.fromkeys(by_table.needs().members, ()), KnownOriginals({}, {}))
    plain, fast = fold(one_by_one, prior, 5), fold(by_table, prior, 5)
    assert (fast.judged, fast.changes, fast.system_time) == (plain.judged, plain.changes, plain.system_time)
    rows = journal_rows((where, one) for one in plain.judged)
    rows.validate(full=True)
    assert journal_table(fast).equals(rows)
    assert rows.to_pylist() == journal_table(plain).to_pylist()
    return by_table


@given(journals(partitions=2), st.integers(1, 5))
@many
def test_any_journal_is_read_by_the_table_as_one_by_one(journal: list[JournalRecord], rows_in_a_chunk: int) -> None:
    for partition in range(2):
        own = [one for one in journal if one.partition == partition]
        table = pa.Table.from_batches(table_of(own).to_batches(max_chunksize=rows_in_a_chunk), table_of([]).schema)
        assert_same(table, place(partition, 2))


def test_every_kind_of_bad_record_is_read_by_the_table_as_one_by_one() -> None:
    good = record_of(EntityRegistered(PURCHASES), 0)
    assert good.value is not None
    other, foreign = TagsAdded(dataset("default", "other"), ["a"]), TagsAdded("repo:one", ["a"])
    slashed = TagsAdded(PURCHASES, ["a"])
    bad = [
        good._replace(value=good.value + b"\0", digest=digest(good.value + b"\0")),
        good._replace(value=b"{}", digest=digest(b"{}")),
        good._replace(value=b"", digest=digest(b"")),
        good._replace(value=None, digest=digest(b"")),
        good._replace(value=None, digest=None),
        good._replace(digest=None),
        good._replace(digest=b"short"),
        good._replace(digest=digest(b"other")),
        good._replace(key=None),
        good._replace(key=b"default/other"),
        good._replace(value=b"x" * 1_100_000, digest=digest(b"x" * 1_100_000)),
        record_of(other, 0, key=good.key),
        record_of(foreign, 0),
        record_of(slashed, 0, header=header_for(slashed, aggregate="no urn"), key=b"default/no urn"),
        record_of(slashed, 0, header=header_for(slashed, tenant="a/b"), key=b"a/b/" + PURCHASES.encode()),
        record_of(slashed, 0, header=header_for(slashed, tenant="a", aggregate=f"b/{PURCHASES}"),
                  key=b"a/b/" + PURCHASES.encode()),
    ]  # fmt: skip
    records = [one._replace(position=position(1, 3 * n)) for n, one in enumerate([good, *bad, good])]
    readings = assert_same(table_of(records), place())
    assert len({type(reading).__name__ for _, reading in readings.items}) == 2
    assert_same(table_of(records), place(0, 1, records[0].position))
    assert_same(table_of(records), place(0, 7))


def test_the_table_is_read_up_to_an_unknown_schema() -> None:
    good = record_of(EntityRegistered(PURCHASES), 0)
    assert good.value is not None
    value = good.value[:2] + b"\x07" * 8 + good.value[10:]
    strange = good._replace(value=value, digest=digest(value))
    records = [one._replace(position=position(1, n)) for n, one in enumerate([good, good, strange, good])]
    readings = assert_same(table_of(records), place())
    assert (len(readings.items), readings.end) == (2, position(1, 2))
    assert readings.stopped_by == UnknownSchema(0x0707070707070707)


@pytest.mark.parametrize("headers", [None, [], [("mj-digest", None)], [("x", b"1"), ("mj-digest", b"2")],
                                     [("mj-digest", b"1"), ("mj-digest", b"1")], [("other", b"1")]])  # fmt: skip
def test_headers_of_every_shape_are_kept_verbatim(headers: Any) -> None:
    table = table_of([record_of(EntityRegistered(PURCHASES), n) for n in range(3)])
    plain = table["headers"].to_pylist()
    strange = headers and [{"key": name, "value": value} for name, value in headers]
    column = pa.array([plain[0], strange, plain[2]], table.schema.field("headers").type)
    readings = assert_same(table.set_column(6, table.schema.field("headers"), column), place())
    assert [reading.__class__.__name__ for _, reading in readings.items] == ["Decoded", "Shelved", "Decoded"]


@pytest.mark.parametrize("others", [(), (("a", b"1"),), (("a", None), ("b", b"2"))])
def test_rules_are_given_the_digest_of_each_record_whatever_other_headers_it_has(
    monkeypatch: pytest.MonkeyPatch, others: tuple[tuple[str, bytes | None], ...]
) -> None:
    given: list[At] = []

    def noting(header: Header, event: Any, at: At, rows: Any) -> Outcome:
        given.append(at)
        return apply(header, event, at, rows)

    monkeypatch.setattr("metajournal.fold.judging.apply", noting)
    journal = [record_of(TagsAdded(PURCHASES, [f"t{n}"]), n, append_time=NOON + n) for n in range(3)]
    records = [one._replace(headers=(*others, *one.headers)) for one in records_of(table_of(journal), 1)]
    readings = read_all(records, place(), position(1, 0), position(1, 9))
    fold(readings, Prior(NoRows(), {}, KnownOriginals({}, {})), 0)
    assert given == [At(position(1, n), NOON + n, digest(journal[n].value or b"")) for n in range(3)]


def test_a_rule_is_given_those_members_of_its_own_aggregate_that_were_announced() -> None:
    history, flow = app("default", "A"), program("default", "A", "flow", "F")
    before = EntityRow(
        "default", flow, "program", "default", "F", history, 1, 0, 1, 1, "", None, False, None, {}, (), {}, ()
    )
    prior = Prior(NoRows(), {("default", history, "program"): [before]}, KnownOriginals({}, {}))
    rows = PartitionRows(prior, {}).of(header_for(EntityDeleted(history)))
    assert rows.members(history, ["program"]) == [before]
    newer, other = before._replace(logical_timestamp=2), before._replace(urn=program("default", "A", "flow", "G"))
    assert rows.advance(newer) == before
    assert rows.advance(other) is None
    assert rows.advance(before._replace(urn=run("default", "A", "flow", "F", "1"), kind="run")) is None
    assert rows.members(history, ["program"]) == [newer, other]
    for aggregate, kinds in ((app("default", "B"), ["program"]), (history, ["run"]), (history, ["program", "run"])):
        with pytest.raises(ForeignRowError):
            rows.members(aggregate, kinds)


def test_a_slice_of_a_table_is_read_as_what_it_holds() -> None:
    records = placed([record_of(TagsAdded(PURCHASES, [f"t{n}"]), n) for n in range(9)], 1)
    readings = assert_same(table_of(records).slice(3, 4), place())
    assert [record.position for record, _ in readings.items] == [one.position for one in records[3:7]]


def test_a_table_without_records_is_read_as_nothing() -> None:
    assert assert_same(table_of([]), place()).items == []
    assert_same(
        pa.table([pa.chunked_array([], field.type) for field in table_of([]).schema], table_of([]).schema), place()
    )


texts = st.text(max_size=8)  # lone surrogates among them
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def spelling_of(spell: Any, value: Any) -> Any:
    try:
        return spell(value)
    except ValueError as error:
        return type(error)


@given(plain_values)
@settings(deadline=None, max_examples=examples(200))
def test_documents_are_spelled_as_canonical_json(value: Any) -> None:
    assert spelling_of(spelled, value) == spelling_of(canonical_json, value)


@given(st.lists(plain_values, max_size=5))
@settings(deadline=None)
def test_documents_that_are_spelled_together_are_spelled_as_each_alone(values: list[Any]) -> None:
    assert spelling_of(spelled_all, values) == spelling_of(lambda many: [canonical_json(one) for one in many], values)


def test_every_character_is_spelled_as_in_canonical_json() -> None:
    for start in range(0, 0x110000, 0x800):
        if start != 0xD800:
            text = "".join(map(chr, range(start, start + 0x800)))
            assert spelled({text: text}) == canonical_json({text: text})
    assert json.loads(spelled({"key": dataset("a", "b")})) == {"key": "dataset:a/b"}
    assert spelled({dataset("a", "b"): 1}) == canonical_json({dataset("a", "b"): 1})
