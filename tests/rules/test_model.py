"""The model itself: each verdict by an example, since every other test trusts it."""

from __future__ import annotations

from typing import Any

import pytest

from metajournal.domains.catalog.events import EntityDeleted, EntityRegistered, TagsAdded, TagsRemoved
from metajournal.domains.catalog.urns import app, dataset, program
from metajournal.schemas.encoding import codec
from metajournal.schemas.errors import UnknownSchemaError
from metajournal.schemas.hashing import digest
from metajournal.schemas.limits import MAX_EVENT_BYTES
from metajournal.schemas.positions import position
from metajournal.schemas.urn import urn
from tests.builders import NOON, header_for, raw_record, record_of
from tests.model import JournalRecord, Model, Verdict

PURCHASES = dataset("default", "purchases")
ORDERS = dataset("default", "orders")
REGISTERED = EntityRegistered(PURCHASES)
TAGGED = TagsAdded(PURCHASES, ["pii"])
VALUE = codec.encode(REGISTERED, header_for(REGISTERED))
UNKNOWN = b"\xc3\x01" + b"\x11" * 8 + VALUE[10:]


def verdicts(*records: JournalRecord) -> list[Verdict]:
    """Verdicts in the order of the records."""
    model = Model.of(records)
    assert model.verdicts.keys() == {(record.partition, record.position) for record in records}
    return [model.verdicts[record.partition, record.position] for record in records]


def shelved(reason: str) -> Verdict:
    return Verdict("shelved", {"reason": reason})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "not-single-object"),
        (b"", "not-single-object"),
        (b"\xc3\x02" + VALUE[2:], "not-single-object"),
        (VALUE[:9], "not-single-object"),
        (VALUE[:-1], "undecodable"),
        (VALUE + b"\0", "undecodable"),
        (b"\0" * (MAX_EVENT_BYTES + 1), "too-large"),
        (UNKNOWN + b"\0" * MAX_EVENT_BYTES, "too-large"),
        (b"\0" * MAX_EVENT_BYTES, "not-single-object"),
    ],
)
def test_bytes_that_are_no_event_are_shelved(value: bytes | None, reason: str) -> None:
    assert verdicts(raw_record(value, 0)) == [shelved(reason)]


@pytest.mark.parametrize("value", [None, VALUE, UNKNOWN, VALUE[:-1], b"\0" * (MAX_EVENT_BYTES + 1)])
def test_the_digest_is_looked_at_first(value: bytes | None) -> None:
    assert verdicts(raw_record(value, 0, digest=None)) == [shelved("no-digest")]
    assert verdicts(raw_record(value, 0, digest=digest(b"other"))) == [shelved("bad-digest")]
    assert verdicts(raw_record(value, 0, digest=digest(value or b"")[:15])) == [shelved("bad-digest")]


@pytest.mark.parametrize(
    "key", [None, b"", b"dataset:default/purchases", b"acme/dataset:default/purchases", b"default/x"]
)
def test_a_key_that_is_not_the_aggregates_is_shelved(key: bytes | None) -> None:
    """Such a record could stand in another partition than its aggregate."""
    assert verdicts(record_of(REGISTERED, 0, key=key)) == [shelved("wrong-key")]


def test_the_rules_judge_the_rest() -> None:
    records = [record_of(event, offset) for offset, event in enumerate([TAGGED, REGISTERED, TAGGED, TAGGED])]
    assert verdicts(*records) == [
        Verdict("rejected", {"reason": "unknown-entity", "detail": {"entity": str(PURCHASES)}}),
        Verdict("accepted"),
        Verdict("accepted"),
        Verdict("unchanged"),
    ]


def test_verdicts_have_the_form_of_outcome_records() -> None:
    assert Verdict("unchanged").as_json(5) == [5, "unchanged"]
    assert shelved("no-digest").as_json(6) == [6, "shelved", {"reason": "no-digest"}]


def test_an_unknown_schema_stops_its_partition_and_no_other() -> None:
    """'stops the stream ("upgrade") after folding what stands before it in each partition'."""
    model = Model(topic="t.journal.catalog")
    records = [
        record_of(REGISTERED, 0, partition=1),
        raw_record(UNKNOWN, 4, partition=1),
        record_of(TAGGED, 5, partition=1),
        raw_record(UNKNOWN, 2, partition=2),
        record_of(EntityRegistered(dataset("default", "other")), 9, partition=3),
    ]
    with pytest.raises(UnknownSchemaError) as caught:
        model.fold(records)
    assert (caught.value.topic, caught.value.partition) == ("t.journal.catalog", 1)
    assert caught.value.position == position(1, 4)
    assert caught.value.fingerprint == int.from_bytes(b"\x11" * 8, "little")
    assert model.verdicts.keys() == {(1, position(1, 0)), (3, position(1, 9))}
    model.fold([record_of(TAGGED, 5, partition=1)])
    assert model.verdicts[1, position(1, 5)] == Verdict("accepted")


# Duplicates: (event number, marked) in their order; what each becomes: None, or the place of its original


@pytest.mark.parametrize(
    ("sent", "originals"),
    [
        ([(1, False), (1, False)], [None, None]),
        ([(1, False), (1, True)], [None, 0]),
        ([(1, True), (1, False)], [None, 0]),
        ([(1, True), (1, True)], [None, 0]),
        ([(1, False), (1, True), (1, False)], [None, 0, 0]),
        ([(1, False), (1, False), (1, True)], [None, None, 0]),
        ([(1, True)], [None]),
        ([(1, False), (2, True)], [None, None]),
    ],
)
def test_a_duplicate_repeats_an_id_and_one_of_the_two_is_marked(sent: Any, originals: list[int | None]) -> None:
    """'the same tenant, aggregate and id stands at a lower position of its partition … one of the two is marked'."""
    records = [
        record_of(REGISTERED, offset, header=header_for(REGISTERED, number, repeat=marked))
        for offset, (number, marked) in enumerate(sent)
    ]
    found = [verdict.data.get("of") for verdict in verdicts(*records)]
    assert found == [None if original is None else position(1, original) for original in originals]


@pytest.mark.parametrize(
    "other",
    [
        record_of(REGISTERED, 1, header=header_for(REGISTERED, 1, repeat=True, tenant="acme")),
        record_of(REGISTERED, 1, header=header_for(REGISTERED, 1, repeat=True), partition=1),
        record_of(
            EntityDeleted(dataset("d", "x")), 1, header=header_for(EntityDeleted(dataset("d", "x")), 1, repeat=True)
        ),
    ],
)
def test_another_tenant_partition_or_aggregate_is_no_duplicate(other: JournalRecord) -> None:
    assert verdicts(record_of(REGISTERED, 0, header=header_for(REGISTERED, 1)), other)[1].outcome != "duplicate"


def test_a_rejected_record_has_duplicates_and_a_shelved_one_has_none() -> None:
    """A duplicate gets the original's outcome, whatever that is; what is shelved was never read."""
    again = record_of(TAGGED, 1, header=header_for(TAGGED, 1, repeat=True))
    rejected = record_of(TAGGED, 0, header=header_for(TAGGED, 1))
    assert [verdict.outcome for verdict in verdicts(rejected, again)] == ["rejected", "duplicate"]
    assert [verdict.outcome for verdict in verdicts(rejected._replace(key=b"x"), again)] == ["shelved", "rejected"]


def test_system_time_never_falls_within_a_partition() -> None:
    """'**system_time** is the broker's append time, made non-decreasing per journal partition by the fold'."""
    model = Model()
    times = [(0, 50), (1, 60), (0, 40), (0, 51), (1, 10)]
    for offset, (partition, moment) in enumerate(times):
        model.fold([raw_record(b"", offset, partition=partition, append_time=moment)])
    assert list(model.system_times.values()) == [50, 60, 50, 51, 60]
    model.fold([record_of(REGISTERED, 9, append_time=3)])
    assert model.tables["entities"][0].system_time == 51


def test_what_is_published() -> None:
    """One state document a row; change records where metadata changed; all at the row's place."""
    flow = program("default", "A", "flow", "F")
    events = [
        EntityRegistered(app("default", "A"), "text"),
        EntityRegistered(flow, tags=["t"]),
        TagsRemoved(flow, ["zz"]),
        EntityDeleted(app("default", "A")),
    ]
    model = Model.of(record_of(event, offset, partition=2) for offset, event in enumerate(events))
    places = [(one.partition, one.position - position(1, 0), one.seq, one.urn) for one in model.states]
    assert places == [(2, 0, 0, "app:default/A"), (2, 1, 0, flow), (2, 3, 0, "app:default/A"), (2, 3, 1, flow)]
    assert [(one.position - position(1, 0), one.seq) for one in model.user_changes] == [(1, 0), (3, 1)]
    assert [(one.position - position(1, 0), one.seq) for one in model.system_changes] == [(0, 0), (3, 0)]
    assert {one.tenant for one in model.states} == {"default"}
    assert [one.system_time for one in model.states] == [NOON, NOON + 1000, NOON + 3000, NOON + 3000]
    assert [row.urn for row in model.tables["entities"]] == [one.urn for one in model.states]
    assert model.documents["default", flow]["deleted"]
    assert model.documents.keys() == {("default", "app:default/A"), ("default", flow)}


def test_an_aggregate_of_another_domain_stands_in_the_wrong_topic() -> None:
    """'The topic follows the aggregate's kind'; an aggregate that is no URN at all is the rules' to refuse."""
    foreign = TagsAdded(urn("repo", "lake"), ["pii"])
    no_urn = record_of(TAGGED, 1, header=header_for(TAGGED, aggregate="no urn"))
    found = verdicts(record_of(foreign, 0), no_urn)
    assert (found[0], found[1].data["reason"]) == (shelved("wrong-topic"), "wrong-aggregate")
