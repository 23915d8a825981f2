"""Verdicts and rows ahead of the stream: the same as the stream's, or a refusal."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from confluent_kafka import Producer

import metajournal
from metajournal import (
    EntityDeleted,
    EntityRegistered,
    InputError,
    Journal,
    NotYetVisibleError,
    PropertiesSet,
    TagsAdded,
    TagsRemoved,
    UnavailableError,
    dataset,
    program,
    run,
)
from metajournal.consumers import follower as follower_module
from metajournal.consumers import followers
from metajournal.consumers.followers import Follow
from metajournal.consumers.pins import Pin, take_pin
from metajournal.domains.lineage.events import RunStarted
from metajournal.lake.tables import Reached
from metajournal.producers.receipts import Receipt
from metajournal.producers.shelving import shelve
from metajournal.producers.topics import Epochs
from metajournal.producers.verdicts import Accepted, Duplicate, Outcome, Rejected, Unchanged
from metajournal.schemas.errors import (
    InvalidPositionError,
    MetajournalError,
    MissingExtraError,
    OtherRulesError,
    TopicMismatchError,
    UnknownSchemaError,
)
from metajournal.schemas.hashing import DIGEST_HEADER, digest, record_key
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from metajournal.streaming.rebuild import InProcess
from metajournal.streaming.verify import verify_lake
from tests.connecting import connected
from tests.consumers.stream import BrokerStream
from tests.wait import eventually

ORDERS = dataset("follower", "orders")


OTHERS = dataset("follower", "others")
UNKNOWN = b"\xc3\x01" + b"\x07" * 8 + b"body"
LONG = os.environ.get("METAJOURNAL_FAULTS") == "long"
WAIT_S = 60.0


@pytest.fixture
def journal(settings: Settings, request: pytest.FixtureRequest) -> Iterator[Journal]:
    """A journal of one partition, so that all stands beside all else, or of as many as a test asks for."""
    with connected(settings, partitions=getattr(request, "param", 1)) as journal:
        yield journal


@pytest.fixture
def stream(journal: Journal) -> BrokerStream:
    """A stream that has made its lake: with one event of somebody else."""
    stream = BrokerStream(journal.settings)
    journal.emit(EntityRegistered(OTHERS)).position  # noqa: B018  (waits)
    stream.fold()
    return stream


def raw(journal: Journal, value: bytes, entity: Urn, *, right: bool = True, aborted: bool = False) -> None:
    """Bytes of any kind in the journal topic, under an entity's key."""
    more: dict[str, Any] = {"transactional.id": f"tests-{random.random()}"} if aborted else {}
    producer = Producer({**journal.settings.kafka, "partitioner": "murmur2_random", "log_level": 0, **more})
    if aborted:
        producer.init_transactions(30)
        producer.begin_transaction()
    headers: list[tuple[str, str | bytes | None]] = [(DIGEST_HEADER, digest(value) if right else b"0" * 16)]
    topic, key = journal.settings.journal.topics.journal("catalog"), record_key("default", str(entity.aggregate))
    producer.produce(topic, value, key, headers=headers)
    assert producer.flush(30) == 0
    if aborted:
        producer.abort_transaction(30)


def refused(ask: Callable[[], object], kind: type[MetajournalError]) -> MetajournalError:
    """The error of a question that is asked until it is refused."""

    def check() -> MetajournalError:
        with pytest.raises(kind) as caught:
            ask()
        return caught.value

    return eventually(check, WAIT_S, f"a refusal ({kind.__name__})")


def test_verdicts_and_rows_come_before_the_stream_has_seen_the_events(journal: Journal, stream: BrokerStream) -> None:
    with journal.follow(ORDERS) as follow:
        assert follow.row() is None
        registered = journal.emit(EntityRegistered(ORDERS, description="What was bought"), actor="alice")
        assert follow.verdict(registered.position) == Accepted(registered.position)
        tagged = journal.emit(TagsAdded(ORDERS, ["pii"]))
        twice = journal.emit(TagsAdded(ORDERS, ["pii"]))
        again = journal.emit(TagsAdded(ORDERS, ["pii"]), event_id=tagged.event_id, repeat=True)
        stale = journal.emit(TagsAdded(ORDERS, ["hot"]), expected=registered.position)
        told = {one.position: follow.verdict(one.position) for one in (registered, tagged, twice, again, stale)}
        assert told[tagged.position] == Accepted(tagged.position)
        assert told[twice.position] == Unchanged(twice.position)
        assert told[again.position] == Duplicate(again.position, tagged.position, Accepted(tagged.position))
        assert isinstance(told[stale.position], Rejected)
        assert follow.peek(tagged.position) == Accepted(tagged.position)
        row = follow.row()
        assert row is not None
        assert (row.user_tags, row.logical_timestamp) == (("pii",), tagged.position.value)
        assert journal.show(ORDERS, at_least=stale.position, timeout_s=WAIT_S) == row
        with pytest.raises(NotYetVisibleError, match="The lake is behind"):
            journal.lake.wait({(stale.position.topic, 0): stale.position.value + 1}, 0)
        stream.fold()
        said = stream.outcomes()
        assert {at: said[at] for at in told} == told
        assert journal.show(ORDERS) == row


def test_a_hundred_verdicts_are_awaited_by_the_followers_own_thread(journal: Journal, stream: BrokerStream) -> None:
    old = journal.emit(EntityRegistered(ORDERS))
    stream.fold()
    called: list[Any] = []

    async def caller(follow: Follow, number: int) -> Outcome:
        receipt = journal.emit(TagsAdded(ORDERS, [f"tag{number // 2}"]))
        return await follow.verdict_future(await receipt, timeout_s=WAIT_S)

    async def callers(follow: Follow) -> list[Outcome]:
        return await asyncio.gather(*(caller(follow, number) for number in range(100)))

    with journal.follow(ORDERS) as follow:
        follow.row()
        before = threading.active_count()
        found = asyncio.run(callers(follow))
        assert [one.word for one in found] == ["accepted", "unchanged"] * 50
        assert threading.active_count() <= before + 1, "the one that takes pins"
        of_the_lake = follow.verdict_future(old.position, timeout_s=WAIT_S)
        of_the_lake.add_done_callback(lambda future: called.append(future.result()))
        eventually(lambda: called == [Accepted(old.position)], WAIT_S, "what the lake has")
        last = found[-1].position
        nobodys = follow.verdict_future(replace(last, value=last.value + 1_000), timeout_s=0.05)
        assert isinstance(nobodys.exception(WAIT_S), NotYetVisibleError)
        waiting = follow.verdict_future(replace(last, value=last.value + 1_000), timeout_s=WAIT_S)
        with pytest.raises(InvalidPositionError):
            follow.verdict_future(replace(last, partition=3))
    assert not waiting.done(), "it is followed until its verdict comes"
    follow._follower.close()
    assert isinstance(waiting.exception(WAIT_S), InputError)
    assert not follow._follower.followed


def test_a_key_that_nobody_followed_is_answered_without_the_reading_threads_next_turn(
    journal: Journal, stream: BrokerStream
) -> None:
    """Its turn takes as long as it waits for records: that would be added to each question about another entity."""
    in_turn, goes_on = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        in_turn.set()
        goes_on.wait(WAIT_S)

    with journal.follow(ORDERS) as follow:
        registered = journal.emit(EntityRegistered(ORDERS))
        follow.verdict(registered.position)
        held = follow.verdict_future(journal.emit(TagsAdded(ORDERS, ["a"])).position, timeout_s=WAIT_S)
        held.add_done_callback(hold)
        try:
            assert in_turn.wait(WAIT_S)
            with journal.follow(OTHERS) as other:
                seen = other.row_future(OTHERS, at_least=registered.position, timeout_s=WAIT_S)
                assert seen.done(), "the thread that reads has not had a turn"
                row = seen.result().read()
                assert row is not None
                assert row.urn == str(OTHERS)
        finally:
            goes_on.set()


def test_show_takes_the_lake_where_nobody_follows(journal: Journal, stream: BrokerStream) -> None:
    receipt = journal.emit(EntityRegistered(ORDERS))
    with pytest.raises(NotYetVisibleError, match="The lake is behind the requested position after 0 s"):
        journal.show(ORDERS, at_least=receipt.position, timeout_s=0)
    stream.fold()
    assert journal.show(ORDERS, at_least=receipt.position).logical_timestamp == receipt.position.value


def test_a_follower_that_was_late_knows_what_stood_there_before(journal: Journal, stream: BrokerStream) -> None:
    """Two aggregates share one follower: records of the second were read before anybody asked for them."""
    with journal.follow(ORDERS) as first:
        registered = journal.emit(EntityRegistered(ORDERS))
        others = [journal.emit(TagsAdded(OTHERS, [tag])) for tag in ("a", "b")]
        assert first.verdict(registered.position) == Accepted(registered.position)
        first.row()
        with journal.follow(OTHERS) as second:
            twice = journal.emit(TagsAdded(OTHERS, ["a", "b"]))
            assert second.verdict(twice.position, timeout_s=WAIT_S) == Unchanged(twice.position)
            assert [second.verdict(one.position) for one in others] == [Accepted(one.position) for one in others]
            row = second.row()
            assert row is not None
            assert row.user_tags == ("a", "b")
            assert first.verdict(registered.position, timeout_s=WAIT_S) == Accepted(registered.position)
        assert len(followers._made) == 1


def test_rows_of_other_tables_come_ahead_of_the_lake_and_only_those_that_it_lacks(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = program("follower", "shop", "service", "x")
    runs = [run("follower", "shop", "service", "x", f"run-{number}") for number in range(4)]
    with journal.follow(ORDERS) as other:
        journal.emit(RunStarted(runs[0], 1)).position  # noqa: B018  (waits)
        other.row()  # what stands under the other key is read before anybody follows it
        with journal.follow(shop) as follow:
            started = [journal.emit(RunStarted(one, 5)) for one in runs[1:3]]
            begin, end, rows = follow.facts_and_end(started[-1].position, WAIT_S)
            assert begin <= started[0].position.value - 1
            assert end.value >= started[-1].position.value + 1
            assert [(row.run, row.start) for row in rows["runs"]] == [
                (str(runs[0]), 1),
                (str(runs[1]), 5),
                (str(runs[2]), 5),
            ]
            assert follow.facts_and_end(tables=["accesses"], timeout_s=WAIT_S).rows == {}
            assert other.facts_and_end(timeout_s=WAIT_S).rows == {}
            stream.fold()
            monkeypatch.setattr(follower_module, "PIN_S", 0.0)
            last = journal.emit(RunStarted(runs[3], 7))

            def rows_ahead() -> list[str]:
                begin, _, rows = follow.facts_and_end(last.position, WAIT_S, tables=["runs"])
                assert len(rows["runs"]) == (4 if begin <= started[0].position.value else 1)
                return [row.run for row in rows["runs"]]

            eventually(lambda: rows_ahead() == [str(runs[3])], WAIT_S, "a pin that holds the others")
            with pytest.raises(NotYetVisibleError):
                follow.facts_and_end(replace(last.position, value=last.position.value + 1_000), 0)
    with pytest.raises(InputError, match="This follower is closed"):
        follow.facts_and_end()


def test_verdicts_of_what_the_lake_has_come_from_the_lake(journal: Journal, stream: BrokerStream) -> None:
    accepted = journal.emit(EntityRegistered(ORDERS))
    refused = journal.emit(TagsAdded(ORDERS, ["a"]), expected=0)
    again = journal.emit(TagsAdded(ORDERS, ["a"]), event_id=refused.event_id, repeat=True, expected=0)
    bad = Position(again.position.topic, 0, again.position.value + 1)
    raw(journal, b"no event", ORDERS, right=False)
    stream.fold()
    with journal.follow(ORDERS) as follow:
        said = stream.outcomes()
        places = [accepted.position, refused.position, again.position, bad]
        assert [follow.verdict(at) for at in places] == [said[at] for at in places]
        assert [one.word for one in map(follow.verdict, places)] == ["accepted", "rejected", "duplicate", "shelved"]
        assert follow.peek(accepted.position) is None
        first = Position(bad.topic, 0, 1 << 40)
        with pytest.raises(InvalidPositionError, match="No event of default/dataset:follower/orders is at"):
            follow.verdict(first)
        with pytest.raises(InvalidPositionError, match="is not a position in"):
            follow.verdict(replace(first, partition=3))
        with pytest.raises(NotYetVisibleError, match="1,000 positions are missing") as late:
            follow.verdict(replace(bad, value=bad.value + 1_000), timeout_s=0)
        assert "receipt.outcome()" in late.value.hint
    with pytest.raises(InputError, match="This follower is closed"):
        follow.verdict(accepted.position)


def test_aborted_records_and_markers_are_passed(journal: Journal, stream: BrokerStream) -> None:
    with journal.follow(ORDERS) as follow:
        registered = journal.emit(EntityRegistered(ORDERS))
        registered.position  # noqa: B018  (waits)
        raw(journal, b"aborted", ORDERS, aborted=True)
        row = follow.row(timeout_s=WAIT_S)  # at the partition's end, where only a marker stands
        assert row is not None
        with journal.unit() as unit:
            tagged = unit.emit(TagsAdded(ORDERS, ["a"]))
            other = unit.emit(TagsAdded(OTHERS, ["a"]))
        assert follow.verdict(tagged.position, timeout_s=WAIT_S) == Accepted(tagged.position)
        with journal.follow(OTHERS) as second:
            assert second.verdict(other.position, timeout_s=WAIT_S) == Accepted(other.position)
        with pytest.raises(InvalidPositionError):
            follow.verdict(replace(registered.position, value=registered.position.value + 1))


def test_the_light_client_is_told_to_wait_for_the_outcome(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("consumers", "fold", "lake"):  # what is imported anew below goes with this test
        monkeypatch.setattr(metajournal, name, import_module(f"metajournal.{name}"))
    for name in ("follower", "foretelling", "pins"):
        monkeypatch.delitem(sys.modules, f"metajournal.consumers.{name}")
    for name in [one for one in sys.modules if one.startswith(("metajournal.fold", "metajournal.lake"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="needs the extra 'lake'") as caught:
        journal.follow(ORDERS)
    assert "receipt.outcome()" in caught.value.hint


@pytest.mark.parametrize("own", ["catalog", "lineage"])
def test_a_lake_of_other_rules_is_refused_at_once_and_at_the_next_pin(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    """Those of a domain whose events stand in the followed topic; other domains' do not matter."""
    monkeypatch.setattr(follower_module, "PIN_S", 0.0)
    with journal.follow(ORDERS) as follow:
        receipt = journal.emit(EntityRegistered(ORDERS))
        assert follow.verdict(receipt.position) == Accepted(receipt.position)
        table = stream.lake.journal
        pins: list[Pin] = []

        def remembered(*asked: Any) -> Pin:
            pins.append(take_pin(*asked))
            return pins[-1]

        monkeypatch.setattr(follower_module, "take_pin", remembered)
        others = dict.fromkeys(("access", "files", "repositories"), "others")  # whose events stand in other topics
        table.append(table.schema.empty_table(), Reached({}, {}, others))
        version = table.delta.version()
        eventually(lambda: any(pin.view.journal.version == version for pin in pins), WAIT_S, "a pin since then")
        tagged = journal.emit(TagsAdded(ORDERS, ["a"]))
        assert follow.verdict(tagged.position, timeout_s=WAIT_S) == Accepted(tagged.position)
        table.append(table.schema.empty_table(), Reached({}, {}, {own: "others"}))
        error = refused(lambda: follow.verdict(receipt.position), OtherRulesError)
        assert f"evaluated by the rules others of the domain '{own}'" in error.message
        assert followers.is_running(journal.settings, receipt.topic, 0) is False
    with pytest.raises(OtherRulesError) as caught:
        journal.follow(ORDERS)
    assert "receipt.outcome()" in caught.value.hint


def test_what_was_refused_is_answered_once_the_reason_is_gone(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "PIN_S", 0.0)
    with journal.follow(ORDERS) as follow:
        table, ours = stream.lake.journal, stream.lake.journal.rules()
        table.append(table.schema.empty_table(), Reached({}, {}, {"catalog": "others"}))
        receipt = journal.emit(EntityRegistered(ORDERS))
        refused(lambda: follow.verdict(receipt.position), OtherRulesError)
        table.append(table.schema.empty_table(), Reached({}, {}, ours))
        for _ in range(3):
            assert follow.verdict(receipt.position) == Accepted(receipt.position)
            assert follow.row() is not None


def test_a_lake_that_is_far_behind_is_refused(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "MOST_BEHIND", 3)
    for tag in "abcd":
        journal.emit(TagsAdded(OTHERS, [tag])).position  # noqa: B018  (waits)
    with pytest.raises(NotYetVisibleError, match="The lake is 4 records behind") as caught:
        journal.follow(ORDERS)
    assert "receipt.outcome()" in caught.value.hint
    stream.fold()
    with journal.follow(ORDERS) as follow:
        assert follow.row() is None


def test_without_a_lake_nothing_is_followed(journal: Journal) -> None:
    with pytest.raises(UnavailableError, match="There is no lake"):
        journal.follow(ORDERS)
    BrokerStream(journal.settings)
    with pytest.raises(UnavailableError, match="No stream has evaluated anything"):
        journal.follow(ORDERS)


def test_a_topic_that_was_made_anew_is_refused(journal: Journal, stream: BrokerStream) -> None:
    epochs = {name: replace(one, topic_id="another") for name, one in journal.epochs.topics.items()}
    with Journal(journal.settings, Epochs(epochs)) as other, pytest.raises(TopicMismatchError, match="was recreated"):
        other.follow(ORDERS)


def test_a_topic_that_lacks_what_the_lake_holds_is_refused(journal: Journal, stream: BrokerStream) -> None:
    table = stream.lake.journal
    key = (journal.settings.journal.topics.journal("catalog"), 0)
    table.append(table.schema.empty_table(), Reached({key: (1 << 40) + 1_000}, {}, table.rules()))
    with pytest.raises(TopicMismatchError, match="the lake ends at offset 1000"):
        journal.follow(ORDERS)


def test_it_stops_where_the_stream_does_and_goes_on_once_that_record_is_shelved(
    journal: Journal, stream: BrokerStream
) -> None:
    with journal.follow(ORDERS) as follow:
        before = journal.emit(EntityRegistered(ORDERS))
        assert follow.verdict(before.position) == Accepted(before.position)
        raw(journal, UNKNOWN, OTHERS)
        behind = journal.emit(TagsAdded(ORDERS, ["a"]))
        with pytest.raises(UnknownSchemaError, match="has the unknown schema") as caught:
            follow.verdict(behind.position, timeout_s=WAIT_S)
        assert follow.verdict(before.position) == Accepted(before.position)
        with pytest.raises(UnknownSchemaError):
            stream.fold()
        shelve(journal.settings, Position(behind.topic, 0, caught.value.position))
        eventually(lambda: follow.peek(behind.position), WAIT_S, "a verdict behind the shelved record")
        stream.start()
        stream.fold()
        assert follow.verdict(behind.position) == stream.outcomes()[behind.position] == Accepted(behind.position)


def test_it_ends_unasked_and_begins_again_when_it_is_asked(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "UNASKED_S", 0.05)
    follow = journal.follow(ORDERS)
    topic = journal.settings.journal.topics.journal("catalog")
    eventually(lambda: not followers.is_running(journal.settings, topic, 0), WAIT_S, "the end of the follower")
    receipt = journal.emit(EntityRegistered(ORDERS))
    assert follow.verdict(receipt.position) == Accepted(receipt.position)


def test_journals_of_one_installation_share_a_follower_until_the_last_is_closed(
    journal: Journal, stream: BrokerStream
) -> None:
    with Journal.connect(journal.settings) as other:
        first, second = journal.follow(ORDERS), other.follow(OTHERS)
        assert first._follower is second._follower
    assert first._follower.running
    receipt = journal.emit(EntityRegistered(ORDERS))
    assert first.verdict(receipt.position) == Accepted(receipt.position)
    journal.close()
    assert not followers.is_running(journal.settings, receipt.topic, 0)
    assert not any("follower" in one.name for one in threading.enumerate())


class Writer:
    """One of several who write the same aggregates at once, as hostile as they can, and ask for every verdict."""

    def __init__(self, settings: Settings, seed: int, events: int, stop: threading.Event) -> None:
        self.told: dict[Position, Outcome] = {}
        self.failure: BaseException | None = None
        self._settings, self._stop, self._left = settings, stop, events
        self._choose = random.Random(seed)
        self._datasets = [dataset("race", name) for name in ("a", "b", "c")]
        self._programs = [program("race", "shop", "service", name) for name in ("x", "y")]
        self._sent: list[tuple[Any, str]] = []
        self._last = 0
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with Journal.connect(self._settings) as journal:
                self._write(journal)
        except BaseException as error:
            self.failure = error

    def _write(self, journal: Journal) -> None:
        follows: dict[Urn, Any] = {}
        while self._left > 0 and not self._stop.is_set():
            burst = self._burst(journal)
            self._left -= len(burst)
            for entity, receipt in burst:
                aggregate = entity.aggregate
                if aggregate not in follows or self._choose.random() < 0.02:
                    follows[aggregate] = journal.follow(entity)  # late, among records of its own
                at = receipt.position
                self.told[at] = follows[aggregate].verdict(at, timeout_s=WAIT_S)
                self._last = at.value

    def _burst(self, journal: Journal) -> list[tuple[Urn, Receipt]]:
        choose = self._choose
        if choose.random() < 0.1:
            with journal.unit() as unit:
                pair = choose.sample(self._datasets, 2)
                return [(one, unit.emit(TagsAdded(one, [choose.choice("pqr")]))) for one in pair]
        if choose.random() < 0.05:
            entity = choose.choice([*self._datasets, OTHERS])
            raw(journal, choose.choice([b"", b"no event", UNKNOWN]), entity, right=False)
        if choose.random() < 0.02:
            raw(journal, b"aborted", choose.choice(self._datasets), aborted=True)
        return [self._emitted(journal) for _ in range(choose.randint(1, 8))]

    def _emitted(self, journal: Journal) -> tuple[Urn, Receipt]:
        choose = self._choose
        if choose.random() < 0.1:
            journal.emit(TagsAdded(dataset("race", f"foreign-{choose.random()}"), ["x"]))
        if self._sent and choose.random() < 0.15:  # sent again, marked or by a zombie that does not know
            event, event_id = choose.choice(self._sent[-20:])
            return event.entity, journal.emit(event, event_id=event_id, repeat=choose.random() < 0.6)
        event = self._event()
        expected = choose.choice([0, self._last, self._last]) if choose.random() < 0.15 else None
        receipt = journal.emit(event, expected=expected)
        self._sent.append((event, receipt.event_id))
        return event.entity, receipt

    def _event(self) -> Any:
        choose = self._choose
        entity = choose.choice([*self._datasets, *self._programs])
        if choose.random() < 0.06:
            return EntityDeleted(choose.choice([entity, entity.aggregate]))
        if choose.random() < 0.25:
            return EntityRegistered(choose.choice([entity, entity.aggregate]))
        kind = choose.choice([TagsAdded, TagsRemoved])
        return choose.choice([kind(entity, [choose.choice("pqr")]), PropertiesSet(entity, {"n": choose.choice("12")})])


@pytest.mark.parametrize("journal", [1, 3], indirect=True)
def test_two_writers_that_race_are_told_what_stream_and_rebuild_say_of_every_event(
    journal: Journal, stream: BrokerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeats, zombies, units, aborts, damaged and foreign records between them; pins renewed all the time."""
    monkeypatch.setattr(follower_module, "PIN_S", 0.05)
    seed = random.randrange(1 << 32) if LONG else 11
    sys.stdout.write(f"seed {seed}\n")
    events, limit_s = (6_000, 900) if LONG else (1_500, 15)
    stop = threading.Event()
    writers = [Writer(journal.settings, seed + number, events, stop) for number in range(2)]
    timer = threading.Timer(limit_s, stop.set)
    timer.start()
    for one in writers:
        one.thread.start()
    while any(one.thread.is_alive() for one in writers):
        stream.fold(most=random.Random(seed).randint(1, 40))
    timer.cancel()
    for one in writers:
        one.thread.join()
        assert one.failure is None, one.failure
    rows = {}
    for entity in [dataset("race", name) for name in "abc"]:
        with journal.follow(entity) as follow:
            rows[entity] = follow.row(timeout_s=WAIT_S)
    stream.fold()
    said = stream.outcomes()
    told = writers[0].told | writers[1].told
    sys.stdout.write(f"{len(told)} verdicts\n")
    assert len(told) >= 100
    assert told == {at: said[at] for at in told}
    assert {one.word for one in told.values()} == {"accepted", "unchanged", "rejected", "duplicate"}
    for entity, row in rows.items():
        assert row == journal.history(entity)[-1]
    checks = {one.name: one for one in verify_lake(journal.settings, stream.epochs, stream.lake, InProcess())}
    assert checks["outcomes"].ok, checks["outcomes"]
    assert all(one.ok for one in checks.values()), checks
