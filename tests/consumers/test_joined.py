"""A domain that joins the journal while a subscriber reads: what its events change is delivered, and never skipped."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from metajournal.consumers.every_change import ChangeTopic, EveryChange
from metajournal.consumers.filters import Filter
from metajournal.consumers.starts import Offsets
from metajournal.consumers.subscription import Subscription, changes
from metajournal.producers import journal_ends
from metajournal.producers.journal_ends import JournalEnds
from metajournal.producers.recorded.served import Served
from metajournal.producers.topics import Epochs, TopicEpoch, ensure_topics
from metajournal.schemas.errors import DomainError
from metajournal.schemas.settings import Settings
from tests.consumers.test_subscriptions import commits, own
from tests.consumers.wire import BEGAN_MS, START, Event, Wire, change
from tests.consumers.without_broker import EPOCHS, NAMES, SETTINGS, URN, Client, Record, over
from tests.journals import Filled
from tests.new_topics import make_topics

USERS = Filter.of(scope="USER")


def with_toys(epochs: Epochs, settings: Settings) -> Epochs:
    """What is recorded once toys have joined."""
    topic = settings.journal.topics.journal("toys")
    served = Served("toys", "metajournal-toys", (), has_changes=True, first_epoch=2, cuts={})
    return Epochs({**epochs.topics, topic: TopicEpoch(topic, 2, "id", 1, served)})


def alone() -> Subscription[Any]:
    return changes(SETTINGS, EPOCHS, group="g", since="earliest", wanted=USERS, timeout_s=0)


def every() -> Subscription[Any]:
    topic = ChangeTopic(NAMES.changes("catalog"), "catalog", "catalog", "USER")
    return EveryChange(SETTINGS, EPOCHS, [topic], Offsets({}), timeout_s=0)


@pytest.mark.parametrize("subscribed", [alone, every], ids=["alone", "every"])
def test_changes_of_a_domain_that_joined_later_are_delivered(
    monkeypatch: pytest.MonkeyPatch, subscribed: Callable[[], Subscription[Any]]
) -> None:
    """And a topic that is none of the journal's stays a forgery."""
    records = [Record(0, 0), Record(1, 0, "toys", 2), Record(2, 1), Record(3, 1, "toys", 2), Record(4, 0, "others")]
    over(monkeypatch, client := Client(records))
    asked: list[str] = []

    def refreshed(settings: Settings, topic: str) -> Epochs:
        asked.append(topic)
        return with_toys(EPOCHS, settings)

    monkeypatch.setattr(journal_ends, "check_journal", refreshed)
    monkeypatch.setattr(JournalEnds, "end", lambda *_: 2)
    with subscribed() as found:
        delivered = [getattr(one, "change", one) for one in found]
        assert found.passed_over == 1
    sources = [(one.position.topic, one.position.value) for one in delivered]
    catalog, toys = NAMES.journal("catalog"), NAMES.journal("toys")
    assert sources == [(catalog, START), (toys, 2 * START), (catalog, START + 1), (toys, 2 * START + 1)]
    assert asked == [toys]  # all had arrived by then
    assert client.committed in (5, None)  # nothing of one that keeps nothing


def test_a_change_of_a_domain_that_cannot_be_read_here_is_an_error_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    over(monkeypatch, client := Client([Record(0, 0), Record(1, 0, "toys", 2)]))
    monkeypatch.setattr(JournalEnds, "end", lambda *_: 2)

    def broken(*_: object) -> Epochs:
        raise DomainError("The package is broken.", code="broken-package")

    monkeypatch.setattr(journal_ends, "check_journal", broken)
    with alone() as found:
        next(found)
        for _ in range(2):
            with pytest.raises(DomainError):
                next(found)
        assert found.passed_over == 0
    assert client.committed == 1


@pytest.mark.services
def test_a_member_of_a_group_gets_the_changes_of_a_domain_that_joins_while_it_reads(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = ensure_topics(settings)
    wire, later = Wire(settings), with_toys(epochs, settings)
    topic, target = settings.journal.topics.journal("toys"), wire.names.changes("catalog")
    monkeypatch.setattr(journal_ends, "check_journal", lambda *_: later)  # this process takes no toys in
    wire.batch([Event(0, 0, scopes=("USER",))])
    with changes(settings, epochs, group=own(settings), since="earliest", wanted=USERS, timeout_s=30) as found:
        assert next(found).position.topic == wire.journal
        make_topics(AdminClient(dict(settings.kafka)), [NewTopic(topic, 1)])
        Filled(settings).up_to(topic, 0, 2 * START + 1)
        head: Any = [("ce_id", f"{topic}/0/{2 * START}/0"), ("ce_type", "t"), ("ce_subject", URN)]
        producer = Producer(dict(settings.kafka))
        value = json.dumps(change(Event(0, 0))).encode()
        producer.produce(target, value, f"default/{URN}".encode(), 0, headers=head, timestamp=BEGAN_MS)
        assert producer.flush(10) == 0
        wire.batch([Event(0, 1, scopes=("USER",))])
        assert [str(next(found).position) for _ in range(2)] == [
            f"{topic}/0/{2 * START}",
            f"{wire.journal}/0/{START + 1}",
        ]
        assert found.passed_over == 0
    [kept] = [one for one in commits(settings, own(settings), target) if one.partition == 0]
    assert kept.offset == 3
