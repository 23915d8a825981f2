"""A broker that goes away is waited out; one that stays away leaves an unknown outcome, and says so."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo, OffsetSpec

from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers.answers import Administrator
from metajournal.producers.emitter import Emitter
from metajournal.producers.kafka import ErrorLog, make_admin
from metajournal.producers.outcomes import OutcomeReader
from metajournal.producers.topics import check_topics, ensure_topics
from metajournal.producers.verdicts import Accepted
from metajournal.schemas.encoding.codec import decode
from metajournal.schemas.errors import NotYetVisibleError, OutcomeUnknownError
from metajournal.schemas.ids import id_bytes
from metajournal.schemas.settings import ClientSettings, Settings
from metajournal.stack.jars import ensure_parts
from metajournal.stack.kafka import start_kafka
from metajournal.stack.parts import Parts
from metajournal.stack.server import Server
from tests.producers.published import publish_outcome
from tests.topics import read
from tests.wait import eventually

pytestmark = pytest.mark.services
PURCHASES = dataset("default", "purchases")


@pytest.fixture
def parts() -> Parts:
    return ensure_parts(("kafka",))


@pytest.fixture
def broker(parts: Parts, tmp_path: Path) -> Iterator[Server]:
    """A broker of this test's own, which it may end."""
    server = start_kafka(parts, tmp_path)
    yield server
    server.stop()


@pytest.fixture
def settings(broker: Server) -> Settings:
    return Settings(kafka={"bootstrap.servers": broker.endpoint})


def test_a_broker_that_comes_back_gets_every_event_once_and_in_order(
    broker: Server, settings: Settings, parts: Parts, tmp_path: Path
) -> None:
    emitter = Emitter(settings, ensure_topics(settings))
    receipts = [emitter.emit(TagsAdded(PURCHASES, [f"t{number}"])) for number in range(2_000)]
    pid = broker.kept.server_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    receipts += [emitter.emit(TagsAdded(PURCHASES, [f"t{number}"])) for number in range(2_000, 4_000)]
    eventually(lambda: broker.kept.exit_code is not None, what="the broker's end")
    broker.stop()
    again = start_kafka(parts, tmp_path, ports=broker.ports)
    try:
        assert again.ports == broker.ports
        emitter.flush()
        positions = [receipt.position.value for receipt in receipts]
        assert positions == sorted(set(positions))
        messages = read(settings, receipts[0].topic)
        ids = [decode(message.value() or b"").header.event_id for message in messages]
        assert ids == [id_bytes(receipt.event_id) for receipt in receipts]
    finally:
        emitter.close()
        again.stop()


def test_after_a_silence_longer_than_a_broker_s_session_every_client_goes_on(
    broker: Server, settings: Settings
) -> None:
    """Its controller takes it for gone meanwhile: partitions have another leader's epoch when it is back."""
    epochs = ensure_topics(settings)
    topic = settings.journal.topics.journal("catalog")
    client, reader = make_admin(settings, ErrorLog()), OutcomeReader(settings)
    admin = Administrator(settings).connect(30)
    emitter = Emitter(settings, epochs)
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    first = emitter.emit(TagsAdded(PURCHASES, ["before"])).position
    place = TopicPartition(topic, first.partition)

    def ends(client: AdminClient, limit: float) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        return client.list_offsets({place: latest}, request_timeout=limit)

    with pytest.raises(NotYetVisibleError):
        reader.outcome(first, 0, 2)
    assert ends(client, 30)[place].result().offset == 1
    assert admin.answers(ends, "Asking the end of", 30)[place].offset == 1
    pid = broker.kept.server_pid
    assert pid is not None

    def taken_for_gone() -> bool:
        os.kill(pid, signal.SIGSTOP)
        try:
            threading.Event().wait(2.5)  # its session is 1.5 s
        finally:
            os.kill(pid, signal.SIGCONT)
        error = ends(client, 30)[place].exception()
        return isinstance(error, KafkaException) and error.args[0].code() == KafkaError.FENCED_LEADER_EPOCH

    eventually(taken_for_gone, 60, "a broker that was taken for gone")
    assert admin.answers(ends, "Asking the end of", 30)[place].offset == 1
    assert emitter.emit(TagsAdded(PURCHASES, ["after"])).position.value == first.value + 1
    publish_outcome(settings, first, first.value + 2, 1)
    assert reader.outcome(first, 0, 30) == Accepted(first)
    assert check_topics(settings) == ensure_topics(settings) == epochs
    reader.close()
    emitter.close()


def test_a_broker_that_stays_away_leaves_an_unknown_outcome_in_the_asked_time(
    broker: Server, settings: Settings
) -> None:
    brief = replace(settings, client=ClientSettings(delivery_timeout_s=2.0))
    emitter = Emitter(brief, ensure_topics(brief))
    emitter.emit(TagsAdded(PURCHASES, ["before"])).position  # noqa: B018
    broker.stop()
    start = time.monotonic()
    receipt = emitter.emit(TagsAdded(PURCHASES, ["lost?"]))
    with pytest.raises(OutcomeUnknownError) as caught:
        receipt.position  # noqa: B018
    assert time.monotonic() - start < 2.0 + 5.0
    assert caught.value.data["event_id"] == receipt.event_id
    assert "repeat=True" in caught.value.hint
    with pytest.raises(OutcomeUnknownError, match="1 events failed") as flushed:
        emitter.flush(1)
    assert flushed.value.data["event_ids"] == (receipt.event_id,)
    emitter.emit(TagsAdded(PURCHASES, ["pending"]))
    with pytest.raises(OutcomeUnknownError, match="1 events were not acknowledged"):
        emitter.close(0.2)
