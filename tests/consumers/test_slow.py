"""A subscriber that is slower than what comes: what is kept for it is bounded, and nothing of it is lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from metajournal.consumers import intake, subscription
from metajournal.consumers.filters import Filter
from metajournal.consumers.records import Change
from metajournal.consumers.subscription import Subscription, changes
from metajournal.producers.journal_ends import JournalEnds
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.consumers.test_subscriptions import each, own, told
from tests.consumers.wire import Wire, identities
from tests.consumers.without_broker import EPOCHS, SETTINGS, Client, Record, over
from tests.wait import eventually

MOST = 20
USERS = Filter.of(scope="USER")


@pytest.fixture(autouse=True)
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is late, so that librdkafka is let see to its group at each."""
    monkeypatch.setattr(intake, "MOST", MOST)
    monkeypatch.setattr(subscription, "_TOP_UP_S", 0.0)


def kept(found: Subscription[Change]) -> int:
    """How many records are kept before they are delivered."""
    taken = found._intake
    assert taken is not None
    return len(taken.buffer)


def paused(client: Client) -> bool:
    return client.is_paused


@pytest.mark.parametrize("acks", [False, True], ids=["asks", "acks"])
def test_what_is_kept_for_a_slow_subscriber_is_bounded(monkeypatch: pytest.MonkeyPatch, acks: bool) -> None:
    count = 10 * MOST
    over(monkeypatch, client := Client([Record(number, number) for number in range(count)]))
    monkeypatch.setattr(JournalEnds, "end", lambda *_: count)
    delivered, pauses = [], 0
    with changes(SETTINGS, EPOCHS, group="g", since="earliest", wanted=USERS, limit=count) as found:
        for one in found:
            delivered.append(one.position.offset)
            pauses += client.is_paused
            assert kept(found) <= MOST
            if acks:
                found.ack()
    assert delivered == list(range(count))
    assert pauses < count
    assert bool(pauses) == acks  # else one comes for one that goes


def test_partitions_that_come_after_a_pause_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka calls back for those that go in one poll, and for those that come in a later one."""
    count = 2 * MOST
    over(monkeypatch, client := Client([Record(number, number) for number in range(count)]))
    monkeypatch.setattr(JournalEnds, "end", lambda *_: count)
    found = changes(SETTINGS, EPOCHS, group="g", since="earliest", wanted=USERS, timeout_s=5)
    next(found)
    found.ack()
    next(found)
    taken = found._intake
    assert taken is not None
    assert paused(client)
    given: Any = taken.readings
    taken._revoked(client, [])  # type: ignore[arg-type]
    taken.fetch(0.0)
    client.records.extendleft([Record(1, 1)])
    taken._begin(given)
    next(found)
    assert not paused(client)
    found.close()


@pytest.mark.services
def test_slow_members_share_and_neither_lose_nor_repeat(settings: Settings) -> None:
    """Another one joins while records are held back, and both go on with what is theirs."""
    epochs = ensure_topics(settings)
    wire = Wire(settings)
    events = [one for number in range(4) for one in each(number, 0, 60, scopes=("USER",))]
    wire.batch(events)
    delivered: list[list[Change]] = [[], []]
    most: list[int] = []
    waiting = threading.Event()

    def member(number: int) -> tuple[Subscription[Change], threading.Thread]:
        found = changes(settings, epochs, group=own(settings), since="earliest", wanted=USERS)

        def run() -> None:
            for one in found:
                delivered[number].append(one)
                most.append(kept(found))
                waiting.wait(0.02)  # the work that a change means

        (reader := threading.Thread(target=run)).start()
        return found, reader

    members = [member(0)]
    eventually(lambda: len(delivered[0]) > MOST, 30, "the first member's changes")
    members.append(member(1))
    eventually(lambda: sum(map(len, delivered)) >= len(events), 60, "all changes")
    for found, _ in members:
        found.stop()
    for _, reader in members:
        reader.join(10)
    for found, _ in members:
        found.close()
    assert all(delivered)
    assert MOST // 2 < max(most) <= MOST
    both = told(delivered[0] + delivered[1])
    assert sorted(both) == sorted(identities(events, "USER"))
    for partition in range(4):
        mine = [one for one in both if one[0] == partition]
        assert mine == sorted(mine)
