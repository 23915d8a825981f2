"""The emitter against a real broker: what stands in the log, and how each thing that can go wrong is told apart."""

from __future__ import annotations

import os
import pwd
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from metajournal.domains.catalog.events import EntityDeleted, EntityRegistered, PropertiesSet, TagsAdded
from metajournal.domains.catalog.urns import dataset, program
from metajournal.producers.compacted import read_all
from metajournal.producers.emitter import Emitter
from metajournal.producers.receipts import Receipt
from metajournal.producers.topics import check_topics, ensure_topics
from metajournal.schemas.encoding.codec import decode
from metajournal.schemas.encoding.known import current_contracts
from metajournal.schemas.errors import (
    EventTooLargeError,
    Fault,
    InputError,
    InvalidEventError,
    OutcomeUnknownError,
    QueueFullError,
    UnservedDomainError,
)
from metajournal.schemas.hashing import DIGEST_HEADER, digest, partition_of
from metajournal.schemas.ids import id_bytes
from metajournal.schemas.limits import MAX_EVENT_BYTES
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import urn
from tests.forking import is_true_in_child
from tests.topics import read
from tests.wait import eventually

MakeEmitter = Callable[..., Emitter]
PURCHASES = dataset("default", "purchases")


@pytest.fixture
def make(settings: Settings) -> Iterator[MakeEmitter]:
    """Makes emitters with settings of the client changed; closed at the end."""
    made = []
    epochs = ensure_topics(settings)

    def making(**client: Any) -> Emitter:
        changed = replace(settings, client=replace(settings.client, **client))
        made.append(Emitter(changed, epochs))
        return made[-1]

    yield making
    for one in made:
        one.close()


@pytest.fixture
def emitter(make: MakeEmitter) -> Emitter:
    return make()


def test_an_event_stands_in_the_log_as_it_was_emitted(emitter: Emitter, settings: Settings) -> None:
    event = PropertiesSet(program("default", "shop", "spark", "daily"), {"owner": "alice"})
    before = int(time.time() * 1000)
    receipt = emitter.emit(event, cause="0190d5b0-0000-7000-8000-000000000001", expected=5, tenant="acme")
    position = receipt.position
    [message] = read(settings, position.topic)
    assert (message.partition(), message.offset()) == (position.partition, position.offset)
    assert position.epoch == 1
    assert message.timestamp() == (2, receipt.system_time)  # 2: the broker's append time
    assert message.key() == b"acme/app:default/shop"
    assert partition_of(message.key() or b"", 4) == message.partition()
    value = message.value() or b""
    assert message.headers() == [(DIGEST_HEADER, digest(value))]
    decoded = decode(value)
    assert decoded.event == event
    header = decoded.header
    assert header.event_id == id_bytes(receipt.event_id)
    assert (header.tenant, header.type, header.actor) == ("acme", "catalog.PropertiesSet.1", "tests")
    assert (header.aggregate, header.entities) == ("app:default/shop", (str(event.entity),))
    assert before <= header.event_time <= int(time.time() * 1000)
    assert (header.expected, header.unit, header.repeat) == (5, None, False)
    assert header.cause == id_bytes("0190d5b0-0000-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("actor", "named"), [(None, pwd.getpwuid(os.geteuid()).pw_name), ("", None), ("billing", "billing")]
)
def test_events_name_the_systems_user_where_nobody_says_who_emits(
    settings: Settings, actor: str | None, named: str | None
) -> None:
    """An empty actor names nobody; of a unit's events as of single ones."""
    ours = replace(settings, journal=replace(settings.journal, actor=actor))
    emitter = Emitter(ours, ensure_topics(ours))
    emitter.emit(TagsAdded(PURCHASES, ["one"]))
    emitter.emit(TagsAdded(PURCHASES, ["two"]), expected=0)
    with emitter.unit(unit_id=None, repeat=False, tenant=None, actor=None, event_time=None, cause=None) as unit:
        unit.emit(TagsAdded(PURCHASES, ["three"]))
    position = emitter.emit(TagsAdded(PURCHASES, ["four"]), actor="bob").position
    emitter.close()
    headers = [decode(message.value() or b"").header for message in read(settings, position.topic)]
    assert [header.actor for header in headers] == [named, named, named, "bob"]


def test_an_event_is_sent_again_with_its_id(emitter: Emitter, settings: Settings) -> None:
    first = emitter.emit(TagsAdded(PURCHASES, ["pii"]), actor="bob", event_time=datetime(2020, 1, 1, tzinfo=UTC))
    again = emitter.emit(TagsAdded(PURCHASES, ["pii"]), event_id=first.event_id, repeat=True)
    emitter.flush()
    headers = [decode(message.value() or b"").header for message in read(settings, again.position.topic)]
    assert [(one.event_id, one.repeat) for one in headers] == [
        (id_bytes(first.event_id), flag) for flag in (False, True)
    ]
    assert (headers[0].actor, headers[0].event_time) == ("bob", 1_577_836_800_000)


def test_events_of_an_aggregate_keep_their_order(emitter: Emitter) -> None:
    receipts = [emitter.emit(TagsAdded(PURCHASES, [f"t{number}"])) for number in range(3_000)]
    emitter.flush()
    positions = [receipt.position for receipt in receipts]
    assert len({(one.topic, one.partition) for one in positions}) == 1
    assert [one.value for one in positions] == sorted({one.value for one in positions})
    assert emitter.pending == 0


def test_every_fault_is_listed_with_its_field_and_nothing_is_sent(emitter: Emitter, settings: Settings) -> None:
    event = TagsAdded("no-urn", ["fine", "", 7], scope="OURS")  # type: ignore[list-item]
    wrong: Any = {"actor": "", "event_time": datetime(2020, 1, 1), "expected": -1, "cause": "x", "tenant": "Ä"}
    with pytest.raises(InvalidEventError) as caught:
        emitter.emit(event, **wrong, repeat=True)
    fields = [fault.field for fault in caught.value.faults]
    assert fields == [
        "entity",
        "scope",
        "tags[1]",
        "tags[2]",
        "tenant",
        "actor",
        "event_time",
        "expected",
        "cause",
        "repeat",
    ]
    assert emitter.pending == 0
    assert read(settings, settings.journal.topics.journal("catalog")) == []


def test_something_that_is_no_event_is_refused(emitter: Emitter) -> None:
    with pytest.raises(InvalidEventError) as caught:
        emitter.emit("TagsAdded")  # type: ignore[arg-type]
    assert caught.value.faults == (Fault("event", "must be an event, not str"),)
    with pytest.raises(InvalidEventError, match="must be an event, not the class TagsAdded"):
        emitter.emit(TagsAdded)  # type: ignore[arg-type]


def test_in_a_forked_process_an_emitter_is_refused_at_once(emitter: Emitter) -> None:
    def is_refused() -> bool:
        with pytest.raises(InputError) as refused:
            emitter.emit(TagsAdded(PURCHASES, ["forked"]))
        return refused.value.code == "forked"

    emitter.emit(TagsAdded(PURCHASES, ["before"]))
    assert is_true_in_child(is_refused)
    assert emitter.emit(TagsAdded(PURCHASES, ["after"])).position.value > 0


def test_in_a_forked_process_a_unit_is_refused_at_once(emitter: Emitter) -> None:
    """It waited for good for a connection that did not come along."""

    def unit() -> None:
        said = dict.fromkeys(("tenant", "actor", "event_time", "cause", "unit_id"))
        with emitter.unit(repeat=False, **said) as one:
            one.emit(TagsAdded(PURCHASES, ["of a unit"]))

    def is_refused() -> bool:
        with pytest.raises(InputError) as refused:
            unit()
        return refused.value.code == "forked"

    unit()
    assert is_true_in_child(is_refused)
    unit()


def test_a_flush_ends_once_what_was_emitted_before_is_acknowledged_whoever_emits_more(emitter: Emitter) -> None:
    """It waited until the queue was empty once."""
    ended = threading.Event()
    mine = [emitter.emit(TagsAdded(PURCHASES, [str(number)])) for number in range(100)]

    def more() -> None:
        while not ended.is_set():
            emitter.emit(TagsAdded(dataset("default", "another"), ["x"]))

    others = threading.Thread(target=more)
    others.start()
    try:
        began = time.monotonic()
        emitter.flush(20)
        took = time.monotonic() - began
    finally:
        ended.set()
        others.join()
    assert all(receipt.acknowledged for receipt in mine)
    assert took < 15


class Paused:
    """A thread that emits and is interrupted as soon as its event is in the producer's queue, until it may go on."""

    def __init__(self, emitter: Emitter, monkeypatch: pytest.MonkeyPatch) -> None:
        self._produce = emitter._produce
        self._emitter = emitter
        self._in_queue, self._go_on = threading.Event(), threading.Event()
        self._receipts: list[Receipt] = []
        monkeypatch.setattr(emitter, "_produce", self._paused)
        self._thread = threading.Thread(target=self._emit)
        self._thread.start()
        assert self._in_queue.wait(30)
        monkeypatch.setattr(emitter, "_produce", self._produce)

    def _paused(self, *record: Any) -> None:
        self._produce(*record)
        self._in_queue.set()
        assert self._go_on.wait(60)

    def _emit(self) -> None:
        self._receipts.append(self._emitter.emit(TagsAdded(PURCHASES, ["first"])))

    def goes_on(self) -> Receipt:
        """The receipt of its event."""
        self._go_on.set()
        self._thread.join()
        return self._receipts[0]


@pytest.mark.parametrize("wait", ["flush", "close", "unit"])
def test_an_event_is_waited_for_though_another_thread_emitted_an_earlier_one_and_returned_later(
    make: MakeEmitter, settings: Settings, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    """The one that returned last counted as the latest of the aggregate."""
    emitter = make(linger_ms=20_000.0)
    other = Paused(emitter, monkeypatch)
    eventually(lambda: emitter._producer.flush(0.05) == 0, what="the first event's acknowledgement")
    later = emitter.emit(TagsAdded(PURCHASES, ["second"]))
    assert other.goes_on().acknowledged
    assert later.pending
    if wait == "unit":
        with emitter.unit(unit_id=None, repeat=False, tenant=None, actor=None, event_time=None, cause=None) as unit:
            unit.emit(TagsAdded(PURCHASES, ["third"]))
    else:
        getattr(emitter, wait)()
    assert later.acknowledged
    events = [decode(message.value() or b"").event for message in read(settings, later.topic)]
    said = [event.tags[0] for event in events]
    assert said == ["first", "second", "third"][: 3 if wait == "unit" else 2]


def test_closing_waits_for_what_another_thread_is_in_the_middle_of_emitting(
    make: MakeEmitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given up without a word."""
    emitter = make(linger_ms=20_000.0)
    other = Paused(emitter, monkeypatch)
    emitter.close()
    assert other.goes_on().acknowledged


def test_closing_tells_which_events_were_given_up(make: MakeEmitter) -> None:
    emitter = make(linger_ms=20_000.0)
    receipt = emitter.emit(TagsAdded(PURCHASES, ["x"]))
    with pytest.raises(OutcomeUnknownError, match="1 events were not acknowledged within 0 s") as caught:
        emitter.close(0)
    assert caught.value.data == {"pending": 1, "event_ids": (receipt.event_id,)}
    assert not receipt.pending


def test_an_oversized_event_is_refused_with_size_and_limit(emitter: Emitter, settings: Settings) -> None:
    with pytest.raises(EventTooLargeError) as caught:
        emitter.emit(EntityRegistered(PURCHASES, description="short", properties={"notes": "x" * MAX_EVENT_BYTES}))
    assert caught.value.limit_bytes == MAX_EVENT_BYTES < caught.value.size_bytes
    assert caught.value.field.startswith("properties")
    assert read(settings, settings.journal.topics.journal("catalog")) == []


def test_the_largest_event_that_fits_is_taken(emitter: Emitter) -> None:
    sizes = {f"k{number}": "x" * 1000 for number in range(1000)}
    assert emitter.emit(PropertiesSet(PURCHASES, sizes)).position.offset >= 0


def test_a_domain_that_is_not_served_is_a_typed_error(emitter: Emitter) -> None:
    with pytest.raises(UnservedDomainError) as caught:
        emitter.emit(TagsAdded(urn("table", "warehouse", "orders"), ["x"]))
    assert (caught.value.domain, caught.value.urn) == ("tables", "table:warehouse/orders")


def test_a_full_queue_refuses_with_the_numbers(make: MakeEmitter) -> None:
    emitter = make(queue_events=5, linger_ms=20_000.0)
    receipts = [emitter.emit(EntityDeleted(PURCHASES)) for _ in range(5)]
    with pytest.raises(QueueFullError) as caught:
        emitter.emit(EntityDeleted(PURCHASES))
    assert (caught.value.data["pending"], caught.value.data["limit"]) == (5, 5)
    emitter.flush()
    assert [receipt.position.offset for receipt in receipts] == [0, 1, 2, 3, 4]


def test_a_full_queue_is_waited_out_where_the_caller_says_so(make: MakeEmitter) -> None:
    emitter = make(queue_events=2, linger_ms=50.0)
    receipts = [emitter.emit(EntityDeleted(PURCHASES), block_s=10) for _ in range(7)]
    assert [receipt.position.offset for receipt in receipts] == list(range(7))


def test_schemas_stand_in_their_topic_before_the_first_event_and_are_written_once(
    make: MakeEmitter, settings: Settings
) -> None:
    topic = settings.journal.topics.schemas
    make().emit(TagsAdded(PURCHASES, ["x"]))
    # The emit has returned, so they are there: no waiting.
    there = read_all(settings, topic)
    contract = current_contracts()["catalog.TagsAdded.1"]
    assert there[f"{contract.fingerprint:016x}"].decode() == contract.text
    assert len(read(settings, topic)) == len(there)
    second = make()
    second.emit(PropertiesSet(PURCHASES, {"a": "b"})).position  # noqa: B018
    assert len(read(settings, topic)) == len(there)


def test_a_receipt_is_filled_in_though_nobody_asks(emitter: Emitter) -> None:
    receipt = emitter.emit(TagsAdded(PURCHASES, ["x"]))
    assert eventually(lambda: receipt.acknowledged, what="the delivery report")


def test_closing_waits_for_the_acknowledgements(make: MakeEmitter) -> None:
    emitter = make(linger_ms=100.0)
    receipts = [emitter.emit(TagsAdded(PURCHASES, ["x"])) for _ in range(100)]
    emitter.close()
    emitter.close()
    assert all(receipt.acknowledged for receipt in receipts)
    with pytest.raises(InputError, match="closed; nothing was sent"):
        emitter.emit(TagsAdded(PURCHASES, ["x"]))
    assert emitter.pending == 0


def test_a_new_emitter_finds_the_same_epochs(settings: Settings, emitter: Emitter) -> None:
    value = emitter.emit(TagsAdded(PURCHASES, ["x"])).position.value
    assert check_topics(settings)[settings.journal.topics.journal("catalog")].epoch == value >> 40
