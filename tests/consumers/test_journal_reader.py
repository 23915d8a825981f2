"""One thread and one client of Kafka read for the followers of all partitions, and none of these stops another."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ListOffsetsResultInfo

from metajournal import EntityRegistered, Journal, TagsAdded, UnavailableError, dataset
from metajournal.consumers.follower import Follower
from metajournal.consumers.followers import Follow
from metajournal.consumers.foretelling import Foretold, Message
from metajournal.producers.asked_ends import AskedEnds, leave_ends, shared_ends
from metajournal.producers.verdicts import Accepted
from metajournal.schemas.errors import InputError, KafkaUnavailableError, UnknownSchemaError
from metajournal.schemas.hashing import partition_of, record_key
from metajournal.schemas.positions import Position, offset_of
from metajournal.schemas.settings import Settings
from metajournal.schemas.urn import Urn
from tests.connecting import connected
from tests.consumers.stream import BrokerStream
from tests.consumers.test_follower import UNKNOWN, WAIT_S, raw
from tests.wait import eventually

PARTITIONS = 4
pytestmark = pytest.mark.services


def in_partition(number: int, count: int = 1) -> list[Urn]:
    """Datasets whose events stand in one partition."""
    named = (dataset("read", f"d{name}") for name in range(1_000))
    found = [one for one in named if partition_of(record_key("default", str(one)), PARTITIONS) == number]
    return found[:count]


ONES = [in_partition(number)[0] for number in range(PARTITIONS)]


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    with connected(settings, partitions=PARTITIONS) as journal:
        yield journal


@pytest.fixture
def stream(journal: Journal) -> BrokerStream:
    """A stream that has made its lake."""
    stream = BrokerStream(journal.settings)
    for one in ONES:
        journal.emit(EntityRegistered(one))
    journal.flush()
    stream.fold()
    return stream


@pytest.fixture
def follows(journal: Journal, stream: BrokerStream) -> Iterator[list[Follow]]:
    """One in each partition."""
    with ExitStack() as stack:
        yield [stack.enter_context(journal.follow(one)) for one in ONES]


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("metajournal-followers")]


def tagged(journal: Journal, follows: Iterable[Follow], tag: str) -> None:
    """An event in the partition of each, whose verdict comes."""
    for follow in follows:
        at = journal.emit(TagsAdded(follow._entity, [tag])).position
        assert follow.verdict(at, timeout_s=WAIT_S) == Accepted(at)


def clients() -> int:
    """How many clients of Kafka this process has: each has one thread of this name."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # it has ended meanwhile
            names.append((task / "comm").read_text().strip())
    return names.count("rdk:main")


def test_all_partitions_are_read_by_one_thread_and_client_that_end_with_the_last_of_them(
    journal: Journal, stream: BrokerStream
) -> None:
    before = clients()
    follows = [journal.follow(one) for one in ONES]
    assert {follow._follower.partition for follow in follows} == set(range(PARTITIONS))
    tagged(journal, follows, "a")
    assert (len(threads()), clients() - before) == (1, 2), "one reads, one asks for ends"
    rows = [follow.row() for follow in follows]
    assert [row.user_tags for row in rows if row is not None] == [("a",)] * PARTITIONS
    assert clients() - before == 2
    journal.close()
    assert threads() == []


def test_the_ends_of_an_installation_are_asked_by_one_client_that_ends_with_the_last_who_asks(
    journal: Journal, stream: BrokerStream
) -> None:
    before = clients()
    first, second = shared_ends(journal.settings), shared_ends(replace(journal.settings))
    other = shared_ends(replace(journal.settings, journal=replace(journal.settings.journal, prefix="other")))
    assert first is second is not other
    topic = journal.settings.journal.topics.journal("catalog")
    ends = [one.end(topic, number).result(WAIT_S) for one in (first, second) for number in range(PARTITIONS)]
    assert ends[:PARTITIONS] == ends[PARTITIONS:]
    assert sum(ends[:PARTITIONS]) == len(ONES)
    assert clients() - before == 1
    leave_ends(first)
    assert second.end(topic, 0).result(WAIT_S) == ends[0]
    leave_ends(second)
    leave_ends(other)
    assert clients() == before
    with pytest.raises(InputError, match="closed"):
        second.end(topic, 0)


def test_where_one_partition_stops_at_an_unknown_schema_the_others_are_read_on(
    journal: Journal, follows: list[Follow]
) -> None:
    stopped, *others = follows
    raw(journal, UNKNOWN, in_partition(0, 2)[1])
    behind = journal.emit(TagsAdded(stopped._entity, ["a"]))
    with pytest.raises(UnknownSchemaError, match="has the unknown schema"):
        stopped.verdict(behind.position, timeout_s=WAIT_S)
    tagged(journal, others, "a")
    with pytest.raises(UnknownSchemaError, match="has the unknown schema"):
        stopped.verdict(behind.position, timeout_s=WAIT_S)


def test_where_one_cannot_judge_the_others_do_and_it_begins_again_when_it_is_asked(
    journal: Journal, follows: list[Follow], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, *others = follows
    take, is_failing = Foretold.take, threading.Event()

    def take_or_fail(known: Foretold, messages: Iterable[Message]) -> bool:
        if is_failing.is_set() and known.pin.place.partition == 0:
            raise RuntimeError("no judgement today")
        return take(known, messages)

    monkeypatch.setattr(Foretold, "take", take_or_fail)
    is_failing.set()
    lost: Any = journal.emit(TagsAdded(failing._entity, ["a"]))
    with pytest.raises(UnavailableError, match="no judgement today"):
        failing.verdict(lost.position, timeout_s=WAIT_S)
    assert not failing._follower.running
    tagged(journal, others, "a")
    is_failing.clear()
    assert failing.verdict(lost.position, timeout_s=WAIT_S) == Accepted(lost.position)
    tagged(journal, follows, "b")


def test_one_that_is_read_again_from_its_mark_on_gets_each_record_once_and_in_order(
    journal: Journal, follows: list[Follow], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among records that are on their way: late followers of other keys have a partition read again and again."""
    take, wrong = Foretold.take, []

    def take_in_order(known: Foretold, messages: Iterable[Message]) -> bool:
        messages = [*messages]
        offsets, begin = [message.offset() or 0 for message in messages], offset_of(known.next)
        if offsets != [*range(begin, begin + len(offsets))]:
            wrong.append((known.next, offsets))
        return take(known, messages)

    monkeypatch.setattr(Foretold, "take", take_in_order)
    late = in_partition(1, 20)[1:]
    with ExitStack() as stack:
        for one in late:
            receipts = [journal.emit(EntityRegistered(one)) for one in (*late, *ONES) for _ in range(20)]
            follow = stack.enter_context(journal.follow(one))
            at = journal.emit(TagsAdded(one, ["a"])).position
            assert follow.verdict(at, timeout_s=WAIT_S) == Accepted(at)
            assert receipts
        tagged(journal, follows, "a")
    assert wrong == []


def test_a_callback_may_begin_to_follow_what_stands_in_another_partition_and_may_not_wait(
    journal: Journal, stream: BrokerStream
) -> None:
    """It runs in the reading thread, which must not wait for itself."""
    opened: list[Any] = []

    def open_and_wait(_: object) -> None:
        try:
            opened.append(journal.follow(ONES[1]))
            opened[0].verdict(replace(at, partition=1, value=at.value + 1_000), timeout_s=WAIT_S)
        except InputError as error:
            opened.append(error.code)

    with journal.follow(ONES[0]) as follow:
        at = journal.emit(TagsAdded(ONES[0], ["a"])).position
        follow.verdict_future(replace(at, value=at.value + 1), timeout_s=WAIT_S).add_done_callback(open_and_wait)
        journal.emit(TagsAdded(ONES[0], ["b"]))
        eventually(lambda: len(opened) == 2, WAIT_S, "a follower that a callback began")
        assert opened[1] == "would-wait"
        with opened[0]:
            tagged(journal, [follow, opened[0]], "c")


def test_a_callback_that_would_end_the_thread_ends_nobody_elses_waiting(
    journal: Journal, follows: list[Follow]
) -> None:
    first, *others = follows
    waiting = others[0].verdict_future(_beyond(journal, others[0]), timeout_s=WAIT_S)

    def end(_: object) -> None:
        raise SystemExit

    before = journal.emit(TagsAdded(first._entity, ["a"])).position
    first.verdict_future(replace(before, value=before.value + 1), timeout_s=WAIT_S).add_done_callback(end)
    journal.emit(TagsAdded(first._entity, ["b"]))
    tagged(journal, follows, "c")
    assert not waiting.done()
    assert waiting.cancel()


def _beyond(journal: Journal, follow: Follow) -> Position:
    """A position that nothing has reached yet."""
    at = journal.emit(TagsAdded(follow._entity, ["z"])).position
    return replace(at, value=at.value + 1_000)


def test_who_is_closed_while_another_begins_at_the_same_partition_does_not_wait_for_it(
    journal: Journal, follows: list[Follow]
) -> None:
    """The one takes the other's place in the reader before that has noticed that it is over."""
    old = follows[0]._follower
    new = Follower(old.settings, journal.epochs, old.topic, old.partition, old.reader)
    waiting = follows[0].verdict_future(_beyond(journal, follows[0]), timeout_s=WAIT_S)
    new.follow(b"key")
    assert isinstance(waiting.exception(WAIT_S), InputError)
    assert not old.running
    old.close()
    assert new.running
    new.close()
    tagged(journal, follows[1:], "a")


def test_a_partition_that_does_not_answer_holds_up_no_answer_about_others(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Half:
        """A client whose first partition has no leader."""

        def list_offsets(self, places: Collection[TopicPartition], **_: Any) -> dict[TopicPartition, Future[Any]]:
            answers: dict[TopicPartition, Future[Any]] = {}
            for place in places:
                asked.append(place.partition)
                answer: Future[Any] = Future()
                answers[place] = answer
                if place.partition == 0:
                    answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
                else:
                    answer.set_result(ListOffsetsResultInfo(place.partition, 0, 0))
            return answers

        def list_topics(self, timeout: float) -> None: ...

    monkeypatch.setattr("metajournal.producers.answers.make_admin", lambda *_: Half())
    monkeypatch.setattr("metajournal.producers.asked_ends._LIMIT_S", 1.5)
    ends = AskedEnds(settings)
    dead = ends.end("t", 0)
    eventually(lambda: asked)
    for _ in range(3):
        assert [ends.end("t", number).result(1) for number in (1, 2, 3)] == [1, 2, 3]
        assert not dead.done()
    assert isinstance(dead.exception(WAIT_S), KafkaUnavailableError)
    assert asked.count(0) > 1
    last = ends.end("t", 0)
    ends.close()
    assert isinstance(last.exception(WAIT_S), InputError | KafkaUnavailableError)


def test_a_question_that_fails_unexpectedly_ends_no_later_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unwilling:
        """A client that cannot even ask for one topic's ends."""

        def list_offsets(self, places: Collection[TopicPartition], **_: Any) -> dict[TopicPartition, Future[Any]]:
            answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in places}
            for place, answer in answers.items():
                if place.topic == "bad":
                    raise RuntimeError("no answer today")
                answer.set_result(ListOffsetsResultInfo(place.partition, 0, 0))
            return answers

    monkeypatch.setattr("metajournal.producers.answers.make_admin", lambda *_: Unwilling())
    ends = AskedEnds(settings)
    for number, why in ((0, "no answer today"), (1 << 32, "OverflowError")):  # no partition has such a number
        with pytest.raises(KafkaUnavailableError, match=why):
            ends.end("bad", number).result(WAIT_S)
        assert ends.end("t", 3).result(WAIT_S) == 3
    ends.close()
    with pytest.raises(InputError, match="closed"):
        ends.end("t", 3)


def test_a_callback_that_would_end_the_thread_of_ends_ends_no_later_question(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_called_back = threading.Event()

    class Patient:
        """A client that answers once there is a callback."""

        def list_offsets(self, places: Collection[TopicPartition], **_: Any) -> dict[TopicPartition, Future[Any]]:
            assert is_called_back.wait(WAIT_S)
            answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in places}
            for answer in answers.values():
                answer.set_result(ListOffsetsResultInfo(7, 0, 0))
            return answers

    def end_thread(_: object) -> None:
        raise SystemExit

    monkeypatch.setattr("metajournal.producers.answers.make_admin", lambda *_: Patient())
    ends = AskedEnds(settings)
    first = ends.end("t", 0)
    thread = ends._thread
    first.add_done_callback(end_thread)
    is_called_back.set()
    assert (first.result(WAIT_S), ends.end("t", 0).result(WAIT_S)) == (7, 7)
    assert ends._thread is thread
    ends.close()


def test_an_answer_that_did_not_come_in_time_is_no_offset(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's client answers -1001 then, as if that were the end."""
    offsets = iter((-1001, -1001, 7))

    class Slow:
        """A client whose first two answers do not come in time."""

        def list_offsets(self, places: Collection[TopicPartition], **_: Any) -> dict[TopicPartition, Future[Any]]:
            answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in places}
            for answer in answers.values():
                answer.set_result(ListOffsetsResultInfo(next(offsets), -1, -1))
            return answers

        def list_topics(self, timeout: float) -> None: ...

    monkeypatch.setattr("metajournal.producers.answers.make_admin", lambda *_: Slow())
    ends = AskedEnds(settings)
    assert ends.end("t", 0).result(WAIT_S) == 7
    offsets = iter([-1001] * 100)
    monkeypatch.setattr("metajournal.producers.asked_ends._LIMIT_S", 0.5)
    assert isinstance(ends.end("t", 0).exception(WAIT_S), KafkaUnavailableError)
    ends.close()


def test_who_is_let_out_for_a_minute_unasked_leaves_the_others_in(
    journal: Journal, follows: list[Follow], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = follows
    monkeypatch.setattr(first._follower, "_asked", -1e9)
    eventually(lambda: not first._follower.running, WAIT_S, "the end of one")
    assert all(follow._follower.running for follow in others)
    tagged(journal, others, "a")
    tagged(journal, [first], "a")
