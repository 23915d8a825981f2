"""Units whose process or broker fails in the middle: what is not committed is never seen and delays nobody for long."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from metajournal.client import Journal
from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
from metajournal.producers import transactions
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.encoding.codec import decode
from metajournal.schemas.errors import KafkaUnavailableError, OutcomeUnknownError
from metajournal.schemas.ids import id_bytes
from metajournal.schemas.settings import ClientSettings, JournalSettings, Settings
from metajournal.stack.jars import ensure_parts
from metajournal.stack.kafka import start_kafka
from metajournal.stack.parts import Parts
from metajournal.stack.server import Server
from tests.model import Model
from tests.processes import end_with_parent
from tests.topics import journal_records, read
from tests.wait import eventually

pytestmark = pytest.mark.services
SOME = [dataset("default", f"table_{number}") for number in range(12)]
HELD_UP_S = 9.0
"""Most seconds that a dead producer holds readers up: 5 of its transaction, and how often the broker looks."""

_STOPS_BEFORE_ITS_COMMIT = """
import pickle, sys
from metajournal.client import Journal
from metajournal.producers import transactions
from metajournal.domains.catalog.events import TagsAdded
from metajournal.domains.catalog.urns import dataset
settings = pickle.load(sys.stdin.buffer)
committed, tries = transactions._Sender._committed, []
def waiting(self, producer, deadline):
    tries.append(self)
    if len(tries) == 1:
        print("written", flush=True)
        import os, signal
        os.kill(os.getpid(), signal.SIGSTOP)
    committed(self, producer, deadline)
transactions._Sender._committed = waiting
with Journal.connect(settings) as journal:
    unit = journal.emit_unit([TagsAdded(dataset("default", f"table_{number}"), ["child"]) for number in range(12)])
    print(len(tries), *unit.event_ids, flush=True)
"""


@pytest.fixture
def child(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """A process that stops itself when all of its unit is written and nothing is committed."""
    ensure_topics(settings)
    process = subprocess.Popen(
        [sys.executable, "-c", _STOPS_BEFORE_ITS_COMMIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=end_with_parent,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(pickle.dumps(settings))
    process.stdin.close()
    assert process.stdout.readline() == b"written\n"
    yield process
    process.kill()
    process.wait(30)
    process.stdout.close()


def tags(settings: Settings) -> set[str]:
    """The tags of all committed events."""
    messages = read(settings, settings.journal.topics.journal("catalog"))
    return {tag for one in messages for tag in decode(one.value() or b"").event.tags}


def emitted_behind(settings: Settings) -> None:
    """One event of another process behind each of the child's."""
    with Journal.connect(settings) as journal:
        for entity in SOME:
            journal.emit(TagsAdded(entity, ["behind"]))


def test_a_producer_killed_in_the_middle_of_a_unit_holds_readers_up_for_seconds_and_is_never_seen(
    child: subprocess.Popen[bytes], settings: Settings
) -> None:
    began = time.monotonic()
    child.kill()
    emitted_behind(settings)
    assert tags(settings) == {"behind"}
    assert time.monotonic() - began < HELD_UP_S
    assert len(read(settings, settings.journal.topics.journal("catalog"))) == len(SOME)


def test_the_late_commit_of_a_producer_that_slept_fails_and_its_unit_is_made_anew(
    child: subprocess.Popen[bytes], settings: Settings
) -> None:
    emitted_behind(settings)
    assert tags(settings) == {"behind"}  # the broker has aborted what the sleeper wrote
    child.send_signal(signal.SIGCONT)
    assert child.stdout is not None
    tries, *ids = child.stdout.readline().split()
    assert (int(tries), child.wait(30)) == (2, 0)
    found = [decode(one.value() or b"") for one in read(settings, settings.journal.topics.journal("catalog"))]
    of_child = [one.header for one in found if one.event.tags == ("child",)]
    assert sorted(one.event_id for one in of_child) == sorted(id_bytes(one.decode()) for one in ids)


@pytest.fixture
def parts() -> Parts:
    return ensure_parts(("kafka",))


@pytest.fixture
def broker(parts: Parts, tmp_path: Path) -> Iterator[list[Server]]:
    """A broker of this test's own, which it may end; the last of the list is the running one."""
    servers = [start_kafka(parts, tmp_path / "kafka")]
    yield servers
    servers[-1].stop()


def kill(server: Server) -> None:
    pid = server.kept.server_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: server.kept.exit_code is not None, what="the broker's end")
    server.stop()


def own_settings(broker: Server, delivery_timeout_s: float) -> Settings:
    return Settings(
        journal=JournalSettings(actor="tests"),
        kafka={"bootstrap.servers": broker.endpoint},
        client=ClientSettings(delivery_timeout_s=delivery_timeout_s),
    )


def test_a_broker_that_is_gone_at_the_commit_leaves_an_unknown_outcome_that_sending_again_mends(
    broker: list[Server], parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = own_settings(broker[0], 2.0)
    epochs = ensure_topics(settings)
    committed = transactions._Sender._committed

    def without_broker(self: Any, producer: Producer, deadline: float) -> None:
        kill(broker[-1])
        committed(self, producer, time.monotonic() + 1.0)

    with Journal(settings, epochs) as journal:
        journal.emit_unit([TagsAdded(SOME[0], ["warm"])])
        unit = journal.unit()
        for entity in SOME:
            unit.emit(TagsAdded(entity, ["unit"]))
        monkeypatch.setattr(transactions._Sender, "_committed", without_broker)
        with pytest.raises(OutcomeUnknownError) as caught:
            unit.commit()
        monkeypatch.undo()
        assert caught.value.data == {"unit_id": unit.id, "event_ids": unit.event_ids}
        began = time.monotonic()
        with pytest.raises(OutcomeUnknownError, match="sending it again failed"):
            unit.commit()
        with pytest.raises(KafkaUnavailableError, match="None of its 1 events is in the journal"):
            journal.emit_unit([TagsAdded(SOME[0], ["absent"])])
        assert time.monotonic() - began < 2 * (settings.client.delivery_timeout_s + 2.0)
        broker.append(start_kafka(parts, tmp_path / "kafka", ports=broker[0].ports))
        eventually(lambda: commits(unit), 30, "a commit on the broker that is back")
        positions = unit.positions
    records = journal_records(settings)
    model = Model.of(records)
    judged = [(one.partition, model.verdicts[one.partition, one.value]) for one in positions]
    originals = {(partition, one.data["of"]) for partition, one in judged if one.outcome == "duplicate"}
    assert len(originals) in (0, len(SOME))  # the first attempt was committed whole, or not at all
    assert tags(settings) == {"warm", "unit"}
    assert len(records) == 1 + len(SOME) + len(originals)


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def commits(unit: Any) -> bool:
    try:
        unit.commit()
    except OutcomeUnknownError:
        return False
    return True


def test_while_a_unit_waits_for_a_broker_that_does_not_answer_single_events_are_taken_at_once(
    broker: list[Server],
) -> None:
    settings = own_settings(broker[0], 20.0)
    epochs = ensure_topics(settings)
    with Journal(settings, epochs) as journal:
        journal.emit_unit([TagsAdded(SOME[0], ["warm"])])
        journal.emit(TagsAdded(SOME[0], ["warm"])).position  # noqa: B018
        pid = broker[0].kept.server_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            committing = started(lambda: journal.emit_unit([TagsAdded(one, ["unit"]) for one in SOME]))
            began = time.monotonic()
            receipts = [journal.emit(TagsAdded(SOME[0], [f"t{number}"])) for number in range(1000)]
            assert time.monotonic() - began < settings.client.delivery_timeout_s / 2
            assert committing.is_alive()
        finally:
            os.kill(pid, signal.SIGCONT)
        committing.join(30)
        assert not committing.is_alive()
        journal.flush()
        assert all(receipt.acknowledged for receipt in receipts)
    assert "unit" in tags(settings)
