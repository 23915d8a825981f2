"""Units against a real broker: all or nothing, in order, and everything that is refused before anything is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from metajournal.client import Journal
from metajournal.domains.catalog.events import EntityRegistered, PropertiesSet, TagsAdded
from metajournal.domains.catalog.urns import app, dataset, program
from metajournal.producers import transactions
from metajournal.producers.topics import ensure_topics
from metajournal.producers.transactions import CommitUnknown
from metajournal.producers.verdicts import Accepted, Rejected
from metajournal.schemas.encoding.codec import decode
from metajournal.schemas.errors import (
    Fault,
    InputError,
    InvalidUnitError,
    KafkaUnavailableError,
    OutcomeUnknownError,
    QueueFullError,
    RejectedError,
)
from metajournal.schemas.header import Header, Unit
from metajournal.schemas.ids import id_bytes
from metajournal.schemas.limits import MAX_EVENT_BYTES, MAX_UNIT_BYTES, MAX_UNIT_EVENTS
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn, urn
from tests.model import Model
from tests.producers.published import publish_outcome
from tests.topics import journal_records, read

Connect = Callable[..., Journal]
SOME = [dataset("default", f"table_{number}") for number in range(12)]


@pytest.fixture
def connect(settings: Settings) -> Iterator[Connect]:
    """Connects with settings of the client changed; closed at the end."""
    made = []
    epochs = ensure_topics(settings)

    def connecting(**client: Any) -> Journal:
        made.append(Journal(replace(settings, client=replace(settings.client, **client)), epochs))
        return made[-1]

    yield connecting
    for one in made:
        one.close()


@pytest.fixture
def journal(connect: Connect) -> Journal:
    return connect()


def headers(settings: Settings) -> list[Header]:
    """The headers of all committed events, in position order for each partition."""
    return [decode(one.value() or b"").header for one in read(settings, settings.journal.topics.journal("catalog"))]


def test_a_unit_stands_in_the_log_whole_and_as_it_was_emitted(journal: Journal, settings: Settings) -> None:
    with journal.unit(actor="alice", event_time=1_600_000_000_000) as unit:
        for entity in SOME:
            unit.emit(TagsAdded(entity, ["a"]))
        unit.emit(EntityRegistered(program("default", "shop", "spark", "daily")), actor="bob", expected=0)
    found = sorted(headers(settings), key=lambda header: header.unit.index if header.unit else -1)
    count = len(SOME) + 1
    assert [one.unit for one in found] == [Unit(id_bytes(unit.id), index, count) for index in range(count)]
    assert [one.event_id for one in found] == [id_bytes(text) for text in unit.event_ids]
    assert [one.aggregate for one in found] == [*map(str, SOME), "app:default/shop"]
    assert {(one.actor, one.expected) for one in found} == {("alice", None), ("bob", 0)}
    assert {one.event_time for one in found} == {1_600_000_000_000}
    assert len({position.partition for position in unit.positions}) == 4
    by_place = {
        (one.partition(), one.offset()): decode(one.value() or b"").header.event_id
        for one in read(settings, settings.journal.topics.journal("catalog"))
    }
    assert [by_place[one.partition, one.offset] for one in unit.positions] == [one.event_id for one in found]


def test_a_list_is_a_unit_too(journal: Journal, settings: Settings) -> None:
    unit = journal.emit_unit(
        [TagsAdded(SOME[0], ["a"]), (TagsAdded(SOME[1], ["b"]), {"expected": 7})], actor="carol", tenant="acme"
    )
    assert unit.committed
    found = sorted(headers(settings), key=lambda header: header.aggregate)
    assert [(one.tenant, one.actor, one.expected) for one in found] == [("acme", "carol", None), ("acme", "carol", 7)]


def test_events_of_one_aggregate_keep_their_order_behind_those_emitted_singly(
    connect: Connect, settings: Settings
) -> None:
    """The single events linger for 20 s: the unit sends them on and waits for them."""
    journal = connect(linger_ms=20_000.0)
    for number in range(50):
        journal.emit(TagsAdded(SOME[number % 2], [f"t{number}"]))
    with journal.unit() as unit:
        for number in range(50, 90):
            unit.emit(TagsAdded(SOME[number % 2], [f"t{number}"]))
    journal.emit(TagsAdded(SOME[0], ["t90"]))
    journal.flush()
    for parity, entity in enumerate(SOME[:2]):
        tags = [
            one.event.tags[0]
            for one in map(decode, (m.value() or b"" for m in read(settings, unit.receipts[0].topic)))
            if one.header.aggregate == entity
        ]
        assert tags == [f"t{number}" for number in range(parity, 91, 2)]


def test_every_fault_of_every_event_is_listed_and_nothing_is_sent(journal: Journal, settings: Settings) -> None:
    before = journal.emit(TagsAdded(SOME[0], ["before"]))
    before.position  # noqa: B018  (acknowledged: what the topic holds is read below)
    twice = before.event_id
    wrong: Any = "no event"
    unit = journal.unit(actor="")
    unit.emit(TagsAdded(SOME[0], ["fine"]), event_id=twice)
    unit.emit(wrong)
    unit.emit(TagsAdded("no-urn", ["", "x"], scope="OURS"), expected=-1)
    unit.emit(TagsAdded(urn("table", "warehouse", "orders"), ["x"]))
    unit.emit(PropertiesSet(SOME[1], {"notes": "x" * MAX_EVENT_BYTES}))
    unit.emit(TagsAdded(SOME[0], ["again"]), event_id=twice)
    unit.emit(TagsAdded(SOME[0], ["x"]), tenant="another")
    with pytest.raises(InvalidUnitError) as caught:
        unit.commit()
    assert [fault.field for fault in caught.value.faults] == [
        "actor",
        "events[1].event",
        "events[2].entity",
        "events[2].scope",
        "events[2].tags[0]",
        "events[2].expected",
        "events[3].entity",
        "events[5].event_id",
        "events[6].tenant",
        "events[4].properties",
    ]
    assert [decode(one.value() or b"").event.tags for one in read(settings, unit.receipts[0].topic)] == [("before",)]
    with pytest.raises(InvalidUnitError):
        unit.receipts[0].position  # noqa: B018


def test_a_class_in_the_place_of_its_event_is_a_fault(journal: Journal) -> None:
    wrong: Any = TagsAdded
    with pytest.raises(InvalidUnitError, match="not the class TagsAdded"):
        journal.emit_unit([wrong])


def test_sending_again_needs_the_ids(journal: Journal) -> None:
    with pytest.raises(InvalidUnitError) as caught:
        journal.emit_unit([TagsAdded(SOME[0], ["x"])], repeat=True)
    assert [fault.field for fault in caught.value.faults] == ["repeat", "events[0].repeat"]


def test_a_unit_has_a_greatest_number_of_events_and_bytes(journal: Journal, settings: Settings) -> None:
    with pytest.raises(InvalidUnitError) as many:
        journal.emit_unit(TagsAdded(SOME[0], [f"t{number}"]) for number in range(MAX_UNIT_EVENTS + 200))
    assert many.value.faults == (Fault("events", "are 1,200, a unit has at most 1,000"),)
    large = {f"k{number}": "x" * 1000 for number in range(1000)}
    with pytest.raises(InvalidUnitError, match=f"limit is {MAX_UNIT_BYTES:,}"):
        journal.emit_unit([PropertiesSet(SOME[0], large)] * 17)
    assert headers(settings) == []
    unit = journal.emit_unit([TagsAdded(SOME[number % 12], [f"t{number}"]) for number in range(MAX_UNIT_EVENTS)])
    assert len(set(unit.positions)) == len(headers(settings)) == MAX_UNIT_EVENTS
    assert journal.emit_unit([PropertiesSet(one, large) for one in SOME]).committed


def test_an_exception_in_the_block_sends_nothing(journal: Journal, settings: Settings) -> None:
    def fails() -> None:
        with unit:
            unit.emit(TagsAdded(SOME[0], ["a"]))
            raise ZeroDivisionError

    unit = journal.unit()
    with pytest.raises(ZeroDivisionError):
        fails()
    assert not unit.committed
    with pytest.raises(InputError, match="is not committed"):
        unit.receipts[0].position  # noqa: B018
    assert headers(settings) == []


def test_a_receipt_is_not_waited_for_before_the_commit(journal: Journal) -> None:
    with journal.unit() as unit:
        receipt = unit.emit(TagsAdded(SOME[0], ["a"]))
        with pytest.raises(InputError, match="is not committed"):
            receipt.position  # noqa: B018
    assert receipt.position == unit.positions[0]


def test_a_committed_unit_takes_nothing_more_and_an_empty_one_sends_nothing(
    journal: Journal, settings: Settings
) -> None:
    with journal.unit() as unit:
        pass
    assert unit.committed
    assert (unit.positions, unit.outcome().events) == ((), ())
    for more in (lambda: unit.emit(TagsAdded(SOME[0], ["a"])), unit.commit):
        with pytest.raises(InputError, match="has already been committed"):
            more()
    assert headers(settings) == []


def test_a_closed_journal_commits_nothing(connect: Connect) -> None:
    journal = connect()
    unit = journal.unit()
    unit.emit(TagsAdded(SOME[0], ["a"]))
    journal.close()
    with pytest.raises(InputError, match="closed"):
        unit.commit()


def test_units_count_in_the_bounded_queue(connect: Connect, settings: Settings) -> None:
    journal = connect(queue_events=5, linger_ms=20_000.0)
    with pytest.raises(QueueFullError) as caught:
        journal.emit_unit([TagsAdded(SOME[0], ["a"])] * 6)
    assert caught.value.data["limit"] == 5
    waiting = [journal.emit(TagsAdded(SOME[1], ["a"])) for _ in range(3)]
    unit = journal.unit()
    for _ in range(3):
        unit.emit(TagsAdded(SOME[0], ["a"]))
    with pytest.raises(QueueFullError):
        unit.commit()
    assert all(one.pending for one in waiting)
    journal.flush()
    unit.commit()
    assert len(headers(settings)) == 6
    assert not any(header.repeat for header in headers(settings))


def test_the_outcome_lists_each_aggregate(journal: Journal, settings: Settings) -> None:
    unit = journal.emit_unit([TagsAdded(SOME[0], ["a"]), TagsAdded(SOME[1], ["a"]), TagsAdded(SOME[0], ["b"])])
    refused = unit.positions[1]
    for receipt in unit.receipts:
        position = receipt.position
        said = [[position.value, "rejected", {"reason": "unknown-entity"}]] if position == refused else []
        publish_outcome(settings, position, position.value + 1, receipt.system_time, said)
    outcome = unit.outcome(timeout_s=10)
    assert outcome.aggregates == {
        str(SOME[0]): (Accepted(unit.positions[0]), Accepted(unit.positions[2])),
        str(SOME[1]): (Rejected(refused, "unknown-entity"),),
    }
    with pytest.raises(RejectedError) as caught:
        outcome.raise_if_rejected()
    assert caught.value.position == refused


def test_threads_commit_units_and_emit_beside_each_other(journal: Journal, settings: Settings) -> None:
    """More threads than transactions; each has aggregates of its own and mixes both ways of emitting."""

    def work(number: int) -> None:
        mine = [dataset(f"space{number}", name) for name in "ab"]
        for turn in range(0, 30, 3):
            journal.emit(TagsAdded(mine[0], [f"{turn}"]))
            journal.emit_unit([TagsAdded(one, [f"{turn + 1}"]) for one in mine])
            journal.emit(TagsAdded(mine[0], [f"{turn + 2}"]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(transactions.POOL + 2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    journal.flush()
    found: dict[Urn, list[str]] = {}
    for message in read(settings, settings.journal.topics.journal("catalog")):
        event = decode(message.value() or b"").event
        found.setdefault(event.entity, []).append(event.tags[0])
    for number in range(transactions.POOL + 2):
        assert found[dataset(f"space{number}", "a")] == [str(turn) for turn in range(30)]
        assert found[dataset(f"space{number}", "b")] == [str(turn) for turn in range(1, 30, 3)]


def test_a_commit_without_an_answer_is_unknown_and_sent_again_counts_once(
    journal: Journal, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker commits and its answer is lost: both copies are in the log, the fold counts the first."""
    committed = transactions._Sender._committed

    def lost(self: Any, producer: Producer, deadline: float) -> None:
        committed(self, producer, deadline)
        raise CommitUnknown("the answer is lost")

    unit = journal.unit()
    unit.emit(EntityRegistered(SOME[0]))
    unit.emit(TagsAdded(SOME[1], ["a"]))
    unit.emit(EntityRegistered(program("default", "shop", "spark", "daily")))
    monkeypatch.setattr(transactions._Sender, "_committed", lost)
    with pytest.raises(OutcomeUnknownError, match="answer is lost") as caught:
        unit.commit()
    monkeypatch.undo()
    assert caught.value.data == {"unit_id": unit.id, "event_ids": unit.event_ids}
    with pytest.raises(OutcomeUnknownError):
        unit.positions  # noqa: B018
    unit.commit()
    records = journal_records(settings)
    said = [decode(one.value or b"").header for one in records]
    assert sorted(one.repeat for one in said) == [False] * 3 + [True] * 3
    assert {one.unit.id for one in said if one.unit} == {id_bytes(unit.id)}
    judged = ["accepted", "rejected", "accepted"]  # tags of an entity that is not registered are refused
    model = Model.of(records, settings.journal.topics.journal("catalog"))
    again = [model.verdicts[one.partition, one.value] for one in unit.positions]
    assert [one.outcome for one in again] == ["duplicate"] * 3
    originals = [
        model.verdicts[place.partition, said.data["of"]] for place, said in zip(unit.positions, again, strict=True)
    ]
    assert [one.outcome for one in originals] == judged
    assert len(model.tables["entities"]) == judged.count("accepted")


def test_another_process_sends_a_unit_again_by_its_ids(connect: Connect, settings: Settings) -> None:
    first = connect().emit_unit([TagsAdded(SOME[0], ["a"]), TagsAdded(app("default", "shop"), ["a"])], cause=None)
    again = [
        (TagsAdded(SOME[0], ["a"]), first.event_ids[0]),
        (TagsAdded(app("default", "shop"), ["a"]), first.event_ids[1]),
    ]
    second = connect().emit_unit(
        [(event, {"event_id": known}) for event, known in again], unit_id=first.id, repeat=True
    )
    assert (second.id, second.event_ids) == (first.id, first.event_ids)
    model = Model.of(journal_records(settings), settings.journal.topics.journal("catalog"))
    for one, other in zip(first.positions, second.positions, strict=True):
        assert model.verdicts[other.partition, other.value] == ("duplicate", {"of": one.value})


def test_a_transaction_that_was_ended_by_others_is_made_anew_and_counts_once(
    journal: Journal, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zombie: while it slept, its id got a new epoch. Its late commit fails, and the next attempt is a fresh one."""
    committed = transactions._Sender._committed
    names: list[str] = []

    def slept(self: Any, producer: Producer, deadline: float) -> None:
        names.append(self._name)
        if len(names) == 1:
            transactions._Sender(settings, self._name)._ready(deadline)
        committed(self, producer, deadline)

    monkeypatch.setattr(transactions._Sender, "_committed", slept)
    unit = journal.emit_unit([TagsAdded(one, ["a"]) for one in SOME])
    assert len(names) == 2
    assert sorted(one.event_id for one in headers(settings)) == sorted(map(id_bytes, unit.event_ids))


def test_what_never_reaches_the_commit_is_known_to_be_absent(
    connect: Connect, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = connect(delivery_timeout_s=1.0)

    def never(self: Any, producer: Producer, deadline: float) -> None:
        self._abort(producer)
        raise transactions.NotCommitted("ended before")

    unit = journal.unit()
    unit.emit(TagsAdded(SOME[0], ["a"]))
    monkeypatch.setattr(transactions._Sender, "_committed", never)
    with pytest.raises(KafkaUnavailableError, match="None of its 1 events") as caught:
        unit.commit()
    monkeypatch.undo()
    assert caught.value.data == {"unit_id": unit.id, "event_ids": unit.event_ids}
    assert headers(settings) == []
    unit.commit()
    assert [one.repeat for one in headers(settings)] == [False]


def test_an_interrupted_commit_is_unknown_too(
    journal: Journal, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed = transactions._Sender._committed

    def interrupted(self: Any, producer: Producer, deadline: float) -> None:
        committed(self, producer, deadline)
        raise KeyboardInterrupt

    unit = journal.unit()
    unit.emit(TagsAdded(SOME[0], ["a"]))
    monkeypatch.setattr(transactions._Sender, "_committed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        unit.commit()
    monkeypatch.undo()
    with pytest.raises(OutcomeUnknownError, match="interrupted"):
        unit.positions  # noqa: B018
    unit.commit()
    assert [one.repeat for one in headers(settings)] == [False, True]
