"""Subscriptions against a real broker: each record once, through repeats, restarts, rebalances and kills."""

from __future__ import annotations

import json
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from metajournal.consumers import intake
from metajournal.consumers.filters import Filter
from metajournal.consumers.ledger import from_text
from metajournal.consumers.records import Change
from metajournal.consumers.subscription import Subscription, changes, states
from metajournal.producers.topics import Epochs, ensure_topics
from metajournal.schemas.errors import InputError, PositionExpired
from metajournal.schemas.settings import Settings
from tests.consumers.wire import START, Event, Wire, identities
from tests.new_topics import remake_topics
from tests.wait import eventually

pytestmark = pytest.mark.services


@pytest.fixture
def epochs(settings: Settings) -> Epochs:
    return ensure_topics(settings)


@pytest.fixture
def wire(settings: Settings, epochs: Epochs) -> Wire:
    return Wire(settings)


def own(settings: Settings) -> str:
    """A group that no other test has."""
    return settings.journal.prefix


def told(found: Sequence[Any]) -> list[tuple[int, int, int]]:
    """(partition, offset, seq) of what was delivered, in the order of delivery."""
    return [(one.position.partition, one.position.value - START, one.seq) for one in found]


def each(partition: int, start: int, end: int, **more: Any) -> list[Event]:
    return [Event(partition, offset, **more) for offset in range(start, end)]


def commits(settings: Settings, group: str, topic: str) -> list[TopicPartition]:
    """What a group has committed of a topic, as any client sees it."""
    consumer = Consumer({"bootstrap.servers": settings.kafka["bootstrap.servers"], "group.id": group})
    try:
        return list(consumer.committed([TopicPartition(topic, number) for number in range(4)], timeout=10))
    finally:
        consumer.close()


def committed_plainly(settings: Settings, group: str, offset: TopicPartition) -> None:
    """A commit as other tools make it: without metadata."""
    consumer = Consumer({"bootstrap.servers": settings.kafka["bootstrap.servers"], "group.id": group})
    consumer.commit(offsets=[offset], asynchronous=False)
    consumer.close()


def test_batches_published_again_from_any_point_come_once_in_each_scope_and_in_order(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    events = [Event(at, offset, ("dataset:default/a", "dataset:default/b")) for offset in range(12) for at in (0, 1, 3)]
    number = sum(len(identities(events, scope)) for scope in ("USER", "SYSTEM"))
    subscription = changes(settings, epochs, limit=number, timeout_s=60)  # a change too many would leave out another
    rng = random.Random(5)
    mark = 0
    while mark < len(events):
        size = rng.randint(1, 9)
        for _ in range(rng.randint(0, 2)):
            wire.publish(events[mark : mark + rng.randint(1, 9)], only=rng.randint(0, 30))
        wire.batch(events[mark : mark + size])
        mark += size
    delivered = list(subscription)
    for scope in ("USER", "SYSTEM"):
        mine = [one for one in delivered if one.scope == scope]
        for partition in range(4):
            expected = [one for one in identities(events, scope) if one[0] == partition]
            assert [one for one in told(mine) if one[0] == partition] == expected
    assert len({one.id for one in delivered}) == len(delivered)


def test_a_group_goes_on_where_it_ended_also_when_the_stream_repeats_what_was_done(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    events = [Event(at, offset) for offset in range(10) for at in range(4)]
    delivered: list[Change] = []
    changes(settings, epochs, group=own(settings)).close()
    for end in range(4, len(events) + 1, 9):
        start = max(0, end - 13)  # all that was delivered last time is published again, and more
        wire.batch(events[start:end])
        with changes(settings, epochs, group=own(settings), timeout_s=0.5) as found:
            delivered += found
    wire.batch(events[-9:])
    with changes(settings, epochs, group=own(settings), timeout_s=0.5) as found:
        delivered += found
    for scope in ("USER", "SYSTEM"):
        assert sorted(told([one for one in delivered if one.scope == scope])) == sorted(identities(events, scope))


def test_what_was_not_done_comes_again_and_what_was_done_does_not(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    wire.batch(each(0, 0, 9, scopes=("USER",)))
    how: dict[str, Any] = {"group": own(settings), "since": "earliest", "timeout_s": 5}
    first_two: list[Change] = []
    with pytest.raises(RuntimeError):
        failing(changes(settings, epochs, **how), first_two, 2)  # while the second one is at hand
    assert told(first_two) == [(0, 0, 0), (0, 1, 0)]
    with changes(settings, epochs, **how) as found:
        first = next(found)
        assert told([first]) == [(0, 1, 0)]
        assert first.id == f"{wire.journal}/0/{START + 1}/0/USER"
    with changes(settings, epochs, **how) as found:  # the block ended well, so that one is done
        next(found)
        assert told([next(found)]) == [(0, 3, 0)]
        found.ack()
        [kept] = [one for one in commits(settings, own(settings), wire.names.changes("catalog")) if one.offset == 4]
        assert from_text(kept.metadata) == ({(wire.journal, 0): ((START + 3, 0), (-1, -1))}, True)
        next(found)
        found.close()  # as when a loop is left
    with changes(settings, epochs, **how, limit=1) as found:
        assert told(list(found)) == [(0, 4, 0)]


def test_a_change_at_hand_is_not_done_by_closing_and_ack_says_so(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    wire.batch(each(0, 0, 3, scopes=("USER",)))
    how: dict[str, Any] = {"group": own(settings), "since": "earliest", "timeout_s": 5}
    found = changes(settings, epochs, **how)
    assert told([next(found)]) == [(0, 0, 0)]
    found.close()
    with pytest.raises(InputError, match="that one is not done, and is delivered again"):
        found.ack()
    with changes(settings, epochs, **how, limit=3) as again:
        assert told(list(again)) == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]
    again.ack()  # all is done


def failing(found: Subscription[Change], delivered: list[Change], count: int) -> None:
    with found:
        for one in found:
            delivered.append(one)
            if len(delivered) == count:
                raise RuntimeError


def test_a_commit_without_what_was_reached_is_said_and_nothing_comes_twice(
    settings: Settings, epochs: Epochs, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    topic = wire.names.changes("catalog")
    wire.batch(each(2, 0, 6, scopes=("USER",)))
    wire.publish(each(2, 6, 12, scopes=("USER",)))  # and it crashes before the outcomes
    with changes(
        settings, epochs, group=own(settings), since="earliest", wanted=Filter.of(scope="USER"), timeout_s=0.5
    ) as found:
        assert len(list(found)) == 12
    committed_plainly(settings, own(settings), TopicPartition(topic, 2, 12))
    assert [one.metadata for one in commits(settings, own(settings), topic)][2] in (None, "")
    wire.batch(each(2, 6, 14, scopes=("USER",)))
    with changes(settings, epochs, group=own(settings), wanted=Filter.of(scope="USER"), timeout_s=0.5) as found:
        assert told(list(found)) == [(2, 12, 0), (2, 13, 0)]
    assert [one.message for one in caplog.records if "does not say what was reached" in one.message]


def test_without_a_start_a_group_begins_when_it_is_made_and_misses_nothing_after_that(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    wire.publish(each(1, 0, 5, scopes=("USER",)))
    with changes(settings, epochs, group=own(settings), timeout_s=0.2) as found:
        assert list(found) == []
    wire.batch(each(1, 0, 9, scopes=("USER",)))  # published again, with four that are new
    with changes(settings, epochs, group=own(settings), timeout_s=0.5) as found:
        assert told(list(found)) == [(1, offset, 0) for offset in range(5, 9)]


def test_members_share_the_partitions_and_rebalances_neither_repeat_nor_lose(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    lock = threading.Lock()
    delivered: list[Change] = []
    changes(settings, epochs, group=own(settings)).close()
    events = [Event(at, offset, scopes=("USER",)) for offset in range(300) for at in range(4)]
    consumers = [Reader(settings, epochs, delivered, lock) for _ in range(2)]
    consumers[0].start()
    for start in range(0, 600, 100):
        wire.batch(events[max(0, start - 30) : start + 100])
    consumers[1].start()  # a rebalance in the middle
    for start in range(600, 900, 100):
        wire.batch(events[start - 30 : start + 100])
    eventually(lambda: len(delivered) >= 850, 30, "most changes")
    consumers[0].stop()  # and another one
    for start in range(900, 1200, 100):
        wire.batch(events[start - 30 : start + 100])
    eventually(lambda: len(delivered) >= len(events), 30, "all changes")
    consumers[1].stop()
    assert all(reader.count for reader in consumers)
    assert sorted(told(delivered)) == sorted(identities(events, "USER"))
    for partition in range(4):
        mine = [one for one in told(delivered) if one[0] == partition]
        assert mine == sorted(mine)


def test_a_member_that_does_not_get_back_into_its_group_joins_anew_and_loses_nothing(
    settings: Settings, epochs: Epochs, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a session that ended while the client had lost the coordinator: it waits for partitions in vain."""
    monkeypatch.setattr(intake, "_STUCK_S", 0.5)
    events = [Event(at, offset, scopes=("USER",)) for offset in range(40) for at in range(4)]
    with changes(settings, epochs, group=own(settings), since="earliest", timeout_s=20) as found:
        wire.batch(events[:80])
        delivered = [next(found) for _ in range(50)]
        taken = found._intake
        assert taken is not None
        former = taken._consumer
        found.ack()  # librdkafka says so while the next one is asked for, when none is at hand
        former.unsubscribe()  # leaves, and is never given a partition again
        taken._lost(former, [])
        wire.batch(events[80:])
        delivered += list(islice(found, len(events) - 50))
        assert taken._consumer is not former
    assert sorted(told(delivered)) == sorted(identities(events, "USER"))
    assert [one.position for one in changes(settings, epochs, group=own(settings), timeout_s=1)] == []


class Reader:
    """A member of the group `g` in a thread."""

    def __init__(self, settings: Settings, epochs: Epochs, delivered: list[Change], lock: Any) -> None:
        self.count = 0
        self._found: Subscription[Change] | None = None
        self._settings = settings
        self._epochs = epochs
        self._delivered = delivered
        self._lock = lock
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        assert self._found is not None
        for one in self._found:
            with self._lock:
                self._delivered.append(one)
            self.count += 1

    def start(self) -> None:
        self._found = changes(self._settings, self._epochs, group=own(self._settings), commit_interval_s=3600)
        self._thread.start()

    def stop(self) -> None:
        assert self._found is not None
        self._found.stop()  # not `close`: what is at hand there is not done, and comes again
        self._thread.join(10)
        assert not self._thread.is_alive()


_MEMBER = """
import os, pickle, sys
from metajournal.consumers.subscription import changes
from metajournal.producers.topics import check_topics
settings, path = pickle.load(sys.stdin.buffer)
how = {"group": settings.journal.prefix, "commit_interval_s": 0.05}
with changes(settings, check_topics(settings), **how) as found, open(path, "a") as file:
    for one in found:
        file.write(one.id + "\\n")  # the effect
        file.flush()
        os.fsync(file.fileno())
"""


def test_a_member_that_is_killed_repeats_only_what_it_had_not_committed_marked_by_its_id(
    settings: Settings, epochs: Epochs, wire: Wire, tmp_path: Path
) -> None:
    quick = replace(settings, kafka={**settings.kafka, "session.timeout.ms": "6000", "heartbeat.interval.ms": "500"})
    changes(quick, epochs, group=own(settings)).close()
    events = [Event(at, offset, scopes=("USER",)) for offset in range(150) for at in range(4)]
    path = tmp_path / "effects"
    for half in (events[:300], events[300:]):
        before, done = _lines(path), committed_events(settings)
        process = subprocess.Popen([sys.executable, "-c", _MEMBER], stdin=subprocess.PIPE)
        try:
            assert process.stdin is not None
            process.stdin.write(pickle.dumps((quick, str(path))))
            process.stdin.close()
            for start in range(0, 300, 60):
                wire.batch(half[max(0, start - 20) : start + 60])
            committed_beyond(sum(done) + 100, settings)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        goes_on_behind(done, before, _lines(path)[len(before) :])
    before, done = _lines(path), committed_events(settings)
    with changes(quick, epochs, group=own(settings), timeout_s=2) as found:
        last = [one.id for one in found]
    goes_on_behind(done, before, last)
    assert set(before + last) == {f"{wire.position(one)}/0/USER" for one in events}


def committed_events(settings: Settings) -> list[int]:
    """How many events of each journal partition a group has done, as its commits say."""
    done = [0] * 4
    for commit in commits(settings, own(settings), settings.journal.topics.changes("catalog")):
        kept = from_text(commit.metadata)
        assert kept is not None
        for (_, partition), reached in kept.reached.items():
            done[partition] = max(done[partition], reached.place[0] - START + 1)
    return done


def committed_beyond(count: int, settings: Settings) -> None:
    eventually(lambda: sum(committed_events(settings)) > count, 60, "commits")


def goes_on_behind(done: Sequence[int], before: Sequence[str], effects: Sequence[str]) -> None:
    """A member's effects: of each partition what follows on what was committed and had effects, one by one."""
    for partition, count in enumerate(done):
        earlier, mine = (
            [int(offset) - START for _, number, offset, *_ in map(parted, some) if int(number) == partition]
            for some in (before, effects)
        )
        start = mine[0] if mine else count
        assert count <= start <= max(earlier, default=-1) + 1
        assert mine == list(range(start, start + len(mine)))


def parted(identity: str) -> list[str]:
    return identity.split("/")


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_conditions_leave_out_and_what_is_left_out_counts_as_read(
    settings: Settings, epochs: Epochs, wire: Wire
) -> None:
    events = [
        Event(0, 0, ("dataset:default/a",), tags=("pii",)),
        Event(0, 1, ("app:other/b",), tenant="acme"),
        Event(0, 2, ("dataset:other/c",), tenant="acme", tags=("pii", "x")),
        Event(0, 3, ("dataset:default/d",)),
    ]
    wire.batch(events)
    for asked, expected in (
        ({}, [0, 1, 2, 3]),
        ({"kinds": ["dataset"]}, [0, 2, 3]),
        ({"namespace": "other"}, [1, 2]),
        ({"urn": ["dataset:default/a", "app:*"]}, [0, 1]),
        ({"tenant": "acme"}, [1, 2]),
        ({"tags": "pii"}, [0, 2]),
        ({"tags": "pii", "tenant": "acme"}, [2]),
    ):
        wanted = Filter.of(scope="USER", **asked)
        found = changes(settings, epochs, since="earliest", timeout_s=0.05, wanted=wanted)
        assert [one.position.value - START for one in found] == expected, asked
    with changes(
        settings,
        epochs,
        since="earliest",
        group=own(settings),
        timeout_s=0.05,
        wanted=Filter.of(scope="USER", kinds="app"),
    ) as one:
        assert [change.tenant for change in one] == ["acme"]
    [kept] = [one for one in commits(settings, own(settings), wire.names.changes("catalog")) if one.partition == 0]
    assert kept.offset == 4


def test_fewer_target_partitions_hold_several_journal_partitions_and_each_is_told_apart(
    settings: Settings, epochs: Epochs, kafka: str
) -> None:
    names = settings.journal.topics
    topics = [names.changes("catalog"), names.annotations_system, names.state("catalog")]
    remake_topics(AdminClient({"bootstrap.servers": kafka}), [NewTopic(one, 2) for one in topics])
    wire = Wire(settings, targets=2)
    events = [Event(at, offset) for offset in range(6) for at in range(4)]
    wire.batch(events[:12])
    wire.publish(events[12:20], only=19)
    wire.batch(events[12:])
    with changes(settings, epochs, since="earliest", group=own(settings), timeout_s=0.5) as found:
        delivered = [next(found) for _ in range(20)]
    wire.batch(events[12:])
    with changes(settings, epochs, group=own(settings), timeout_s=0.5) as found:
        delivered += found
    for scope in ("USER", "SYSTEM"):
        assert sorted(told([one for one in delivered if one.scope == scope])) == sorted(identities(events, scope))
    assert {one.partition for one in delivered} == {0, 1}
    found_states = states(settings, epochs, timeout_s=0.5)
    assert sorted(told(list(found_states))) == sorted(identities(events, "STATE"))


def test_states_give_what_is_current_then_what_comes(settings: Settings, epochs: Epochs, wire: Wire) -> None:
    wire.batch([Event(0, offset, (f"dataset:default/{offset % 3}",), tags=(f"t{offset}",)) for offset in range(6)])
    with states(settings, epochs, group="s", timeout_s=0.5) as found:
        delivered = list(found)
        assert told(delivered) == [(0, offset, 0) for offset in range(6)]
        assert delivered[-1].document["user"]["tags"] == ["t5"]
    wire.batch(each(0, 3, 8))  # the stream repeats three and adds two
    with states(settings, epochs, group="s", timeout_s=0.5, wanted=Filter.of(kinds="dataset")) as found:
        assert told(list(found)) == [(0, 6, 0), (0, 7, 0)]


def test_a_group_whose_next_change_is_gone_is_told_and_never_skips(
    settings: Settings, epochs: Epochs, wire: Wire, kafka: str
) -> None:
    topic = wire.names.changes("catalog")
    wire.batch(each(3, 0, 5, scopes=("USER",)))
    with changes(settings, epochs, since="earliest", group=own(settings), limit=2) as found:
        list(found)
    wire.batch(each(3, 5, 9, scopes=("USER",)))
    deleted(kafka, topic, 3, 6)
    with pytest.raises(PositionExpired) as caught:
        list(changes(settings, epochs, group=own(settings), timeout_s=5))
    assert caught.value.data["offset"] == 6
    earliest = caught.value.earliest  # type: ignore[attr-defined]
    assert earliest == wire.position(Event(3, 8))


def test_retention_that_overtakes_a_slow_subscriber_is_told_and_never_skips(
    settings: Settings, epochs: Epochs, wire: Wire, kafka: str
) -> None:
    topic = wire.names.changes("catalog")
    wire.batch(each(3, 0, 3, scopes=("USER",)))
    slow = replace(settings, kafka={**settings.kafka, "queued.max.messages.kbytes": "1", "fetch.max.bytes": "1000000"})
    found = changes(slow, epochs, since="earliest", timeout_s=10)
    assert told([next(found)]) == [(3, 0, 0)]
    wire.publish(each(3, 3, 6000, scopes=("USER",), tags=("x" * 1500,)))
    deleted(kafka, topic, 3, 5990)
    with pytest.raises(PositionExpired) as caught:
        list(found)
    assert caught.value.data["partition"] == 3
    found.close()


def deleted(kafka: str, topic: str, partition: int, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        future.result()


def test_closing_from_another_thread_is_prompt_and_leaves_no_thread(settings: Settings, epochs: Epochs) -> None:
    threads = _librdkafka_threads()
    found = changes(settings, epochs, group=own(settings))
    assert _librdkafka_threads() > threads
    before = threading.active_count()
    ended = threading.Thread(target=lambda: list(found))
    ended.start()
    eventually(lambda: threading.active_count() > before, what="the thread")
    started = time.monotonic()
    found.close()
    ended.join(6)
    assert not ended.is_alive()
    assert time.monotonic() - started < 6
    assert list(found) == []
    eventually(lambda: _librdkafka_threads() <= threads, what="the end of its threads")


def _librdkafka_threads() -> int:
    """Threads of the subscription's own consumers (each test process may have others)."""
    found = 0
    for one in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended just now
            found += (one / "comm").read_text().startswith("rdk:")
    return found


def test_a_slow_member_stays_in_its_group(settings: Settings, epochs: Epochs, wire: Wire) -> None:
    """The caller takes longer over two changes than librdkafka lets pass between two polls."""
    brief = replace(
        settings,
        kafka={**settings.kafka, "max.poll.interval.ms": "6000", "session.timeout.ms": "6000"},
    )
    wire.batch(each(0, 0, 8, scopes=("USER",)))
    with changes(brief, epochs, group=own(settings), since="earliest", limit=8) as found:
        delivered = []
        waiting = threading.Event()
        for one in found:
            delivered.append(one)
            waiting.wait(1.0)  # the work that a change means
        assert told(delivered) == [(0, offset, 0) for offset in range(8)]
    [kept] = [one for one in commits(settings, own(settings), wire.names.changes("catalog")) if one.partition == 0]
    assert kept.offset == 8


@pytest.mark.parametrize("name", ["", "x" * 256, " ", " mailer", "mail\0er", "\ud800", 5])
def test_a_name_that_is_no_group_is_refused(settings: Settings, epochs: Epochs, name: Any) -> None:
    """librdkafka would cut or strip some of these, and end the process at others."""
    with pytest.raises(InputError, match="not a valid group name"):
        changes(settings, epochs, group=name)


def test_the_record_is_what_the_stream_wrote(settings: Settings, epochs: Epochs, wire: Wire) -> None:
    event = Event(1, 4, ("dataset:default/ä".replace("ä", "%C3%A4"),), tags=("é",), tenant="t-1")
    wire.batch([event])
    [one] = changes(settings, epochs, since="earliest", timeout_s=0.2, wanted=Filter.of(scope="SYSTEM"))
    assert (one.tenant, one.scope, one.time, one.urn) == ("t-1", "SYSTEM", event.system_time, event.urns[0])
    assert json.dumps(one.record["changes"]["additions"]["tags"]) == json.dumps(["é"])
