"""An acknowledged event behind somebody's open unit is in the journal: it is waited for, and never called missing."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from metajournal import EntityRegistered, InputError, Journal, KafkaUnavailableError, NotYetVisibleError, dataset
from metajournal.consumers import finding, journal_reader, watermarks
from metajournal.consumers.finding import Looked, find_at, find_event
from metajournal.consumers.journal_reader import JournalReader
from metajournal.consumers.subscription import changes
from metajournal.consumers.watermarks import LookUp
from metajournal.producers.receipts import Receipt
from metajournal.producers.waiting.futures import AwaitableFuture
from metajournal.schemas.errors import UnknownEventError
from metajournal.schemas.ids import id_bytes
from metajournal.schemas.positions import Position
from metajournal.schemas.settings import Settings
from tests.connecting import connected
from tests.consumers.stream import BrokerStream
from tests.consumers.wire import START

ORDERS, OTHERS = dataset("units", "orders"), dataset("units", "others")
TOPIC = "metajournal.journal.catalog"
PLACE = TOPIC, 0
WAIT_S = 60.0


# --- over a broker that shows what stands below offset 3, and holds what stands below 8


class Client:
    """A consumer that is shown nothing behind an open unit."""

    def __init__(self, shown: int = 3, dated: int = -1) -> None:
        self.shown, self.dated = shown, dated

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, self.shown

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(one.topic, one.partition, self.dated) for one in asked]

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.begun = [one.offset for one in partitions]

    def consume(self, most: int, pause_s: float) -> list[Any]:
        threading.Event().wait(min(pause_s, 0.01))
        return []

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(one.topic, one.partition, self.shown) for one in partitions]

    def close(self) -> None: ...


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    client = Client()
    for module in (finding, watermarks):
        monkeypatch.setattr(module, "make_consumer", lambda *_, **__: client)
    monkeypatch.setattr(finding, "stored_ends", lambda _, places, __: dict.fromkeys(places, 8))
    monkeypatch.setattr(watermarks, "LOOK_UP_S", 0.1)
    return client


class Ends:
    """What is known of the journal's ends."""

    def end(self, place: object) -> int:
        return 8


def test_an_event_that_is_not_shown_in_time_is_not_called_missing(client: Client) -> None:
    with pytest.raises(KafkaUnavailableError, match="was not read within") as caught:
        find_at(Settings(), Position(*PLACE, START + 5), timeout_s=0.1)
    assert "not committed yet" in (caught.value.hint or "")
    assert find_at(Settings(), Position(*PLACE, START + 8), timeout_s=0.1) is None


@pytest.mark.parametrize(("dated", "begun"), [(-1, 3), (1, 1)], ids=["all behind", "some before"])
def test_a_look_that_ends_before_what_the_journal_holds_is_not_whole(client: Client, dated: int, begun: int) -> None:
    client.dated = dated
    looked = find_event(Settings(), bytes(16), {PLACE: START}, {TOPIC: 1}, since_ms=0, timeout_s=0.1)
    assert looked == Looked([], whole=False)
    assert client.begun == [begun]
    client.shown = 8
    looked = find_event(Settings(), bytes(16), {PLACE: START}, {TOPIC: 1}, since_ms=0, timeout_s=0.1)
    assert looked == Looked([], whole=True)


def test_the_time_of_an_event_that_is_not_shown_in_time_is_not_yet_told(client: Client) -> None:
    ends: Any = Ends()
    with LookUp(Settings(), ends) as look_up:
        with pytest.raises(NotYetVisibleError, match="a unit before it is not committed") as caught:
            look_up.append_time(Position(*PLACE, START + 5))
        assert caught.value.behind == {PLACE: 3}
        with pytest.raises(InputError, match="There is no event"):
            look_up.append_time(Position(*PLACE, START + 8))


def test_all_that_a_partition_holds_is_more_than_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked:
        def end(self, *_: object, committed: bool = True) -> AwaitableFuture[int]:
            future: AwaitableFuture[int] = AwaitableFuture()
            future.set_result(3 if committed else 8)
            return future

    monkeypatch.setattr(journal_reader, "shared_ends", lambda _: Asked())
    assert JournalReader(Settings()).end_of(PLACE).result(0) == 8


# --- over Kafka


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    with connected(settings, partitions=1) as journal:
        yield journal


@contextmanager
def open_unit(journal: Journal) -> Iterator[Producer]:
    """Somebody's transaction, of which one record is written; it is ended with the block, or before."""
    own = {"transactional.id": f"tests-{uuid.uuid4().hex}", "transaction.timeout.ms": 300_000, "log_level": 0}
    producer = Producer({**journal.settings.kafka, **own})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(journal.settings.journal.topics.journal("catalog"), b"open", b"key", 0)
    assert producer.flush(30) == 0
    try:
        yield producer
    finally:
        with suppress(KafkaException):  # it was ended before
            producer.abort_transaction(30)


@contextmanager
def ending(producer: Producer) -> Iterator[None]:
    """End a transaction beside, while something else waits for that."""
    later = threading.Timer(0.5, producer.abort_transaction, (30,))
    later.start()
    try:
        yield
    finally:
        later.join()


def emitted(journal: Journal) -> Receipt:
    receipt = journal.emit(EntityRegistered(ORDERS))
    receipt.position  # noqa: B018  (waits)
    return receipt


@pytest.mark.services
def test_why_does_not_call_an_acknowledged_event_unknown(journal: Journal) -> None:
    emitted(journal)
    with open_unit(journal):
        receipt = emitted(journal)
        with pytest.raises(KafkaUnavailableError, match="was not read within 5 s"):
            journal.why(receipt.position, timeout_s=5)  # the ends are asked for in the same time
        with pytest.raises(UnknownEventError, match="could be read in time") as caught:
            journal.why(receipt.event_id, timeout_s=5)
        assert caught.value.data["whole"] is False
    [step] = journal.why(receipt.event_id, timeout_s=WAIT_S).steps
    assert step.position == receipt.position
    assert journal.why(receipt.position, timeout_s=WAIT_S).event_id == receipt.event_id
    looked = find_event(
        journal.settings, id_bytes(receipt.event_id), {(receipt.topic, 0): 0}, {receipt.topic: 1},
        since_ms=0, timeout_s=WAIT_S,
    )  # fmt: skip
    assert [event.position for event in looked.events] == [receipt.position]
    with pytest.raises(UnknownEventError, match="neither in the lake"):
        journal.why("019aa3a1-5b7c-7def-8123-456789abcdef", timeout_s=WAIT_S)


@pytest.mark.services
def test_why_waits_for_a_unit_that_ends_in_time(journal: Journal) -> None:
    with open_unit(journal) as producer:
        receipt = emitted(journal)
        with ending(producer):
            [step] = journal.why(receipt.event_id, timeout_s=WAIT_S).steps
        assert step.position == receipt.position


@pytest.mark.services
def test_a_subscription_begins_behind_an_event_that_is_not_shown_yet(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_unit(journal) as producer:
        receipt = emitted(journal)
        cut = {(receipt.topic, 0): receipt.position.value + 1}
        changes(journal.settings, journal.epochs, since=cut).close()
        with pytest.raises(InputError, match="has not reached"):
            changes(journal.settings, journal.epochs, since={(receipt.topic, 0): receipt.position.value + 2})
        with monkeypatch.context() as patched:
            patched.setattr(watermarks, "LOOK_UP_S", 1.0)
            with pytest.raises(NotYetVisibleError):
                changes(journal.settings, journal.epochs, since=receipt)
        with ending(producer):
            changes(journal.settings, journal.epochs, since=receipt).close()


@pytest.mark.services
def test_a_row_has_ones_own_acknowledged_event_or_is_refused(journal: Journal) -> None:
    stream = BrokerStream(journal.settings)
    journal.emit(EntityRegistered(OTHERS)).position  # noqa: B018  (waits)
    stream.fold()
    with journal.follow(ORDERS) as follow, open_unit(journal) as producer:
        emitted(journal)
        with pytest.raises(NotYetVisibleError):
            follow.row(timeout_s=1)
        with ending(producer):
            assert follow.row(timeout_s=WAIT_S) is not None
