"""What holds for every journal, however hostile. Journals are those of tests/strategies.py."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.rules.documents import state_document
from metajournal.schemas.hashing import canonical_json
from metajournal.schemas.limits import MAX_ENTITY_BYTES, RESERVED_PROPERTIES
from tests.model import JournalRecord, Model, Published
from tests.strategies import journals

Journal = list[JournalRecord]
thorough = settings(
    max_examples=settings().max_examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def silenced(record: JournalRecord) -> JournalRecord:
    """A record in the same place and of the same time that says nothing."""
    return record._replace(value=b"", digest=b"")


def results(model: Model) -> tuple[Any, ...]:
    """All that leaves the fold but the verdicts."""
    return model.tables, model.user_changes, model.system_changes, model.states, model.newest


@thorough
@given(journals(), st.data())
def test_where_the_log_is_cut_makes_no_difference(journal: Journal, data: st.DataObject) -> None:
    """'The result depends on the journal's content alone: not on batch boundaries … or the number of runs.'"""
    whole = Model.of(journal)
    assert Model.of(journal) == whole
    parts = Model()
    while journal:
        cut = data.draw(st.integers(1, len(journal)), label="records of the next batch")
        parts.fold(journal[:cut])
        journal = journal[cut:]
    assert parts.verdicts == whole.verdicts
    assert parts.newest == whole.newest
    assert parts.documents == whole.documents
    assert sorted(parts.tables["entities"], key=place) == sorted(whole.tables["entities"], key=place)


def place(row: Any) -> tuple[Any, ...]:
    return row.tenant, row.urn, row.logical_timestamp, row.seq


@thorough
@given(journals())
def test_partitions_know_nothing_of_each_other(journal: Journal) -> None:
    whole = Model.of(journal)
    alone = [Model.of(record for record in journal if record.partition == number) for number in range(3)]
    assert whole.tables["entities"] == [row for model in alone for row in model.tables["entities"]]
    assert whole.verdicts == {at: verdict for model in alone for at, verdict in model.verdicts.items()}


@thorough
@given(journals(partitions=1))
def test_other_aggregates_change_nothing(journal: Journal) -> None:
    """The records of one key give the same rows and verdicts when all others fall silent."""
    whole = Model.of(journal)
    for key in {record.key for record in journal}:
        alone = Model.of([record if record.key == key else silenced(record) for record in journal])
        own = {(record.partition, record.position) for record in journal if record.key == key}
        assert {at: alone.verdicts[at] for at in own} == {at: whole.verdicts[at] for at in own}
        rows = whole.tables["entities"]
        assert alone.tables["entities"] == [row for row in rows if (0, row.logical_timestamp) in own]


@thorough
@given(journals())
def test_only_accepted_records_leave_a_trace(journal: Journal) -> None:
    """Rejected, unchanged, duplicate and shelved ones could as well not be there, and the accepted ones all show."""
    model = Model.of(journal)
    accepted = {at for at, verdict in model.verdicts.items() if verdict.outcome == "accepted"}
    kept = [record if (record.partition, record.position) in accepted else silenced(record) for record in journal]
    assert results(Model.of(kept)) == results(model)
    assert {(one.partition, one.position) for one in model.states} == accepted


@thorough
@given(journals())
def test_what_holds_for_every_journal(journal: Journal) -> None:
    """Each of the claims below, of one fold."""
    model = Model.of(journal)
    assert len(model.verdicts) == len(journal)
    every_record_has_one_verdict_and_a_time(model, journal)
    records_chain_and_add_up(model)
    change_topics_end_where_the_rows_are(model)
    kept_properties_tell_first_and_last(model)
    rows_keep_their_form(model)
    documents_are_those_of_the_newest_rows(model)


def chains(published: list[Published]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Documents of a topic by target, in order."""
    found = defaultdict(list)
    for one in published:
        found[one.tenant, one.urn].append(one.document)
    return found


def records_chain_and_add_up(model: Model) -> None:
    """'`previous` of a record equals `updated` of the one before it'; the changes lead from one to the other."""
    for topic in (model.user_changes, model.system_changes):
        for records in chains(topic).values():
            held: dict[str, Any] = {"properties": {}, "tags": []}
            for record in records:
                assert record["previous"] == held
                assert record["previous"] != record["updated"]
                assert applied(record) == record["updated"]
                assert list(record["updated"]["properties"]) == sorted(record["updated"]["properties"])
                held = record["updated"]


def applied(record: dict[str, Any]) -> dict[str, Any]:
    """What the changes make of `previous`; each of them must be needed."""
    additions, deletions = record["changes"]["additions"], record["changes"]["deletions"]
    properties = dict(record["previous"]["properties"])
    for name, value in deletions["properties"].items():
        assert properties.pop(name) == value
    assert not additions["properties"].keys() & properties.keys()
    tags = set(record["previous"]["tags"])
    assert set(deletions["tags"]) <= tags
    assert not set(additions["tags"]) & tags
    assert additions["tags"] == sorted(additions["tags"])
    assert deletions["tags"] == sorted(deletions["tags"])
    left = tags - set(deletions["tags"]) | set(additions["tags"])
    return {"properties": properties | additions["properties"], "tags": sorted(left)}


def change_topics_end_where_the_rows_are(model: Model) -> None:
    """The last `updated` of a target is its current metadata, without the kept properties in SYSTEM."""
    user, system = chains(model.user_changes), chains(model.system_changes)
    for key, row in model.newest.items():
        last = user[key][-1]["updated"] if key in user else {"properties": {}, "tags": []}
        assert last == {"properties": row.user_properties, "tags": list(row.user_tags)}
        last = system[key][-1]["updated"] if key in system else {"properties": {}, "tags": []}
        stated = {name: text for name, text in row.system_properties.items() if name not in RESERVED_PROPERTIES}
        assert last == {"properties": stated, "tags": list(row.system_tags)}


def kept_properties_tell_first_and_last(model: Model) -> None:
    """Of each life of an entity: who began it and when, who changed it last and when."""
    first: dict[tuple[str, str], Any] = {}
    for row in model.tables["entities"]:
        key = (row.tenant, row.urn)
        if row.deleted:
            assert row[-4:] == ({}, (), {}, ())
            del first[key]
            continue
        begun = first.setdefault(key, row)
        wanted = {
            "creation_time": str(begun.system_time),
            "created_by": begun.actor,
            "last_update_time": str(row.system_time),
            "last_updated_by": row.actor,
        }
        assert {name: row.system_properties.get(name) for name in RESERVED_PROPERTIES} == wanted


def rows_keep_their_form(model: Model) -> None:
    """Sorted, within the size, numbered from 0 in each event, of the event's aggregate."""
    seqs: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for row in model.tables["entities"]:
        assert list(row.user_properties) == sorted(row.user_properties)
        assert list(row.system_properties) == sorted(row.system_properties)
        assert list(row.user_tags) == sorted(set(row.user_tags))
        assert list(row.system_tags) == sorted(set(row.system_tags))
        document = state_document(row, 0)
        assert len(canonical_json({"user": document["user"], "system": document["system"]})) <= MAX_ENTITY_BYTES
        seqs[row.tenant, row.aggregate, row.logical_timestamp].append(row.seq)
    assert all(held == list(range(len(held))) for held in seqs.values())


def every_record_has_one_verdict_and_a_time(model: Model, journal: Journal) -> None:
    clock: dict[int, int] = {}
    for record in journal:
        at = (record.partition, record.position)
        clock[record.partition] = max(record.append_time, clock.get(record.partition, 0))
        assert model.system_times[at] == clock[record.partition]
        assert model.verdicts[at].outcome in {"accepted", "unchanged", "rejected", "duplicate", "shelved"}
    assert len(model.verdicts) == len(journal)


def documents_are_those_of_the_newest_rows(model: Model) -> None:
    assert model.documents.keys() == model.newest.keys()
    for key, row in model.newest.items():
        assert model.documents[key] == state_document(row, model.documents[key]["partition"])
