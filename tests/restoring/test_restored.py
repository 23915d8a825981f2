"""Topics that Kafka has lost are restored from the journal table: old events as they were, new ones behind them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from metajournal import EntityRegistered, Journal, PropertiesSet, TagsAdded, dataset
from metajournal.consumers.records import Change
from metajournal.lake.storage.locks import only_one
from metajournal.lake.tables import Lake
from metajournal.producers.kafka import ErrorLog, make_transactional
from metajournal.producers.recorded.restored import is_gap
from metajournal.producers.topics import check_topics, ensure_topics, read_epochs
from metajournal.producers.verdicts import Accepted, Duplicate, Rejected
from metajournal.schemas.errors import MetajournalError, StreamError, UnknownEntityError
from metajournal.schemas.positions import Position, epoch_of, offset_of
from metajournal.schemas.settings import Settings
from metajournal.streaming.crash import RESTORING
from metajournal.streaming.rebuild import InProcess, Progress, rebuild_lake
from metajournal.streaming.restoring.loss import EMPTY
from metajournal.streaming.restoring.restore import restore_topics
from metajournal.streaming.verify import verify_lake
from tests.consumers.stream import BrokerStream
from tests.index import shows_the_lake
from tests.processes import Running, running_indexer, running_stream
from tests.restoring.losing import digests, fold_here, journal_marks, lose, told
from tests.streaming.harness import Crash, EndsAt
from tests.streaming.test_stream_kills import generated, with_stream
from tests.topics import folded_to_the_end, read, write
from tests.wait import eventually

pytestmark = [pytest.mark.services]
ORDERS, PAYMENTS = dataset("shop", "orders"), dataset("shop", "payments")
_WITHIN_S = 120.0


def fold(settings: Settings, log: Path) -> None:
    """Have a stream fold all that the topics hold, and end."""
    with running_stream(settings, log) as process:
        eventually(lambda: folded_to_the_end(settings), _WITHIN_S, f"the fold to the journal's end ({log})")
        assert process.stop() == 0, process.tail()


def emit_some(settings: Settings) -> list[Any]:
    """Events of every sort: accepted, rejected, repeated, of units committed and aborted, of several domains."""
    write(settings, generated(80))
    with Journal.connect(settings) as journal:
        receipts = [journal.emit(EntityRegistered(ORDERS, description="Sales")), journal.emit(TagsAdded(ORDERS, ["a"]))]
        aborted = make_transactional(settings, ErrorLog(), f"metajournal.unit.{settings.journal.prefix}")
        aborted.init_transactions()
        aborted.begin_transaction()
        for number in range(20):
            aborted.produce(settings.journal.topics.journal("catalog"), b"never", f"key {number}".encode())
        aborted.flush()
        aborted.abort_transaction()
        unit = journal.emit_unit([EntityRegistered(PAYMENTS), PropertiesSet(ORDERS, {"n": "1"})])
        receipts += [*unit.receipts]
        receipts.append(journal.emit(TagsAdded(dataset("shop", "nobody"), ["x"])))
        receipts.append(journal.emit(TagsAdded(ORDERS, ["a"]), event_id=receipts[1].event_id, repeat=True))
        journal.flush()
        return [(receipt.event_id, receipt.position) for receipt in receipts]


def all_fine(settings: Settings) -> None:
    checks = {
        check.name: check
        for check in verify_lake(settings, check_topics(settings), Lake(settings.lake.path), InProcess())
    }
    assert all(check.ok for check in checks.values()), checks


def verbatim(settings: Settings, topic: str) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Key, value, headers and append time of every record by partition and offset, but those that only fill one."""
    return {
        (message.partition() or 0, message.offset() or 0): (
            message.key(), message.value(), message.headers(), message.timestamp()[1]
        )
        for message in read(settings, topic)
        if not is_gap(message.headers())
    }  # fmt: skip


def test_all_topics_are_restored_and_old_events_are_as_they_were(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    events = emit_some(settings)
    fold(settings, tmp_path / "before.log")
    marks, names = journal_marks(settings), settings.journal.topics
    before, was = digests(settings, marks), told(settings, [ORDERS, PAYMENTS], [place for _, place in events])
    catalog = names.journal("catalog")
    records = verbatim(settings, catalog)
    lose(settings)
    with pytest.raises(MetajournalError):
        Journal.connect(settings)
    said: list[Progress] = []
    dry = restore_topics(settings, InProcess(), dry_run=True)
    assert {topic.state for topic in dry.loss.topics} == {"missing"}
    assert dry.loss.epochs_lost and dry.loss.schemas_lost  # noqa: PT018
    done = restore_topics(settings, InProcess(), say=said.append)
    assert said[-1].records == said[-1].of == sum(map(offset_of, marks.values()))
    assert done.records == len(Lake(settings.lake.path).journal.query("topic", "true"))
    assert verbatim(settings, catalog) == records, "key, value, headers, append time and offset of every record"
    epochs = read_epochs(settings)
    assert {known.epoch for topic, known in epochs.items() if known.served is None} == {2}
    assert digests(settings, marks) == before
    assert told(settings, [ORDERS, PAYMENTS], [place for _, place in events]) == was
    all_fine(settings)
    assert restore_topics(settings, InProcess()).loss.is_any is False, "what is restored is not restored again"

    with running_stream(settings, tmp_path / "after.log") as process, Journal.connect(settings) as journal:
        follow = journal.follow(ORDERS)
        with follow:
            new = journal.emit(TagsAdded(ORDERS, ["new"]), expected=journal.show(ORDERS).logical_timestamp)
            assert follow.verdict(new.position, timeout_s=_WITHIN_S) == Accepted(new.position)
        repeated = journal.emit(TagsAdded(ORDERS, ["a"]), event_id=events[1][0], repeat=True)
        stale = journal.emit(TagsAdded(ORDERS, ["b"]), expected=events[1][1])
        assert epoch_of(new.position.value) == 2
        assert offset_of(new.position.value) == offset_of(marks[catalog, new.position.partition])
        assert new.outcome(_WITHIN_S) == Accepted(new.position)
        assert isinstance(repeated.outcome(_WITHIN_S), Duplicate)
        assert isinstance(stale.outcome(_WITHIN_S), Rejected)
        shown = journal.show(ORDERS, at_least=new.position, timeout_s=_WITHIN_S)
        assert shown is not None
        assert shown.user_tags == ("a", "new")
        changed = list(journal.changes("catalog", since=new.position, timeout_s=5))
        assert changed == []
        changed = list(journal.changes("catalog", since=events[-1][1], timeout_s=5))
        assert [change.position for change in changed if change.urn == ORDERS][-1] == new.position
        eventually(lambda: folded_to_the_end(settings), _WITHIN_S, f"the fold goes on ({process.log})")
        assert process.stop() == 0, process.tail()
    assert digests(settings, marks) == before
    all_fine(settings)
    assert rebuild_lake(settings, check_topics(settings), InProcess(), offline=True).equal
    from_kafka = rebuild_lake(settings, check_topics(settings), InProcess(), offline=True, from_kafka=True)
    assert from_kafka.equal, "the restored topic gives what the lake holds"
    assert digests(settings, marks) == before


RESTORE = """
import pickle, sys
settings, *_ = pickle.load(sys.stdin.buffer)
from metajournal.streaming.rebuild import InProcess
from metajournal.streaming.restoring import refill
from metajournal.streaming.restoring.loss import EMPTY
from metajournal.streaming.restoring.restore import restore_topics
refill._SERVE_EVERY = 5
restore_topics(settings, InProcess())
"""


def test_a_restoration_that_is_killed_anywhere_is_resumed_and_nothing_is_twice(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    events = emit_some(settings)
    fold_here(settings)
    marks = journal_marks(settings)
    before, was = digests(settings, marks), told(settings, [ORDERS], [place for _, place in events])
    lose(settings)
    ids = set()
    for point in ("restore-made:1", "restore-writing:1", "restore-writing:3", *(f"{name}:1" for name in RESTORING[2:])):
        killed = Running(RESTORE, with_stream(settings, crash_at=point), tmp_path / f"{point}.log")
        assert killed.ended(_WITHIN_S) == -9, (point, killed.tail())
        ids.add(topic_id(settings))
        if point != "restore-recorded:1":
            with pytest.raises(MetajournalError):
                Journal.connect(settings)
    done = restore_topics(settings, InProcess())
    assert not done.loss.lost, "all was done when the last one was killed"
    assert ids == {topic_id(settings)}, "each one went on with the topics of the one before"
    assert digests(settings, marks) == before
    assert told(settings, [ORDERS], [place for _, place in events]) == was
    with Journal.connect(settings) as journal:
        new = journal.emit(TagsAdded(ORDERS, ["new"]))
    fold_here(settings)
    all_fine(settings)
    with Journal.connect(settings) as journal:
        assert journal.show(ORDERS, at_least=new.position).user_tags == ("a", "new")
    assert not restore_topics(settings, InProcess()).loss.is_any
    lake = Path(settings.lake.path)
    assert (lake / "epochs.json").exists()
    assert not (lake / "restore.json").exists()


def topic_id(settings: Settings) -> str:
    """The id of the catalog's journal topic."""
    name = settings.journal.topics.journal("catalog")
    admin = AdminClient(dict(settings.kafka))
    return str(admin.describe_topics(TopicCollection([name]))[name].result().topic_id)


def until(position: Position, changes: Iterable[Change]) -> Iterator[Change]:
    """Changes up to that of one event."""
    for change in changes:
        yield change
        if change.position == position:
            return


def test_a_subscriber_and_an_indexer_go_on_where_only_journal_topics_were_lost(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    emit_some(settings)
    names, index_log = settings.journal.topics, tmp_path / "index.log"
    with (
        running_stream(settings, tmp_path / "before.log") as process,
        running_indexer(settings, index_log),
    ):
        with (
            Journal.connect(settings) as journal,
            journal.subscribe("catalog", since="earliest", group=settings.journal.prefix) as subscription,
        ):
            first = list(islice(subscription, 3))
            subscription.ack()
        eventually(lambda: folded_to_the_end(settings), _WITHIN_S, f"the fold ({process.log})")
        eventually(lambda: shows_the_lake(settings), _WITHIN_S, "the index at the lake's marks")
        assert process.stop() == 0, process.tail()
    lost = lose(settings, [names.journal("catalog")])
    done = restore_topics(settings, InProcess())
    assert [topic.topic for topic in done.loss.lost] == lost
    assert not done.loss.epochs_lost
    assert not done.loss.created
    with running_stream(settings, tmp_path / "after.log"), running_indexer(settings, index_log):
        with Journal.connect(settings) as journal:
            new = journal.emit(TagsAdded(PAYMENTS, ["found"]))
            delivered = [change.id for change in first]
            with journal.subscribe("catalog", group=settings.journal.prefix, timeout_s=60) as subscription:
                delivered += [change.id for change in until(new.position, subscription)]
            assert len(delivered) == len(set(delivered)), "each change once"
            whole = [change.id for change in journal.changes("catalog", since="earliest", timeout_s=5)]
            assert sorted(delivered) == sorted(whole), "and none is missing"
            hits = journal.search("found", at_least=new.position, timeout_s=_WITHIN_S).hits
            assert [hit.urn for hit in hits] == [str(PAYMENTS)]
        eventually(lambda: shows_the_lake(settings), _WITHIN_S, "the index at the lake's marks")


def test_topics_are_restored_again_and_a_lost_lake_is_folded_from_a_restored_topic(
    settings: Settings, tmp_path: Path
) -> None:
    """Three epochs stand in one topic; without a lake, or with an old one, the stream gives the same tables from it."""
    ensure_topics(settings)
    events = emit_some(settings)
    fold_here(settings)
    shutil.copytree(settings.lake.path, tmp_path / "old-lake")
    for number in (2, 3):
        lose(settings)
        restore_topics(settings, InProcess())
        with Journal.connect(settings) as journal:
            place = journal.emit(TagsAdded(ORDERS, [f"epoch-{number}"])).position
            assert epoch_of(place.value) == number
            journal.emit_unit([TagsAdded(PAYMENTS, [f"epoch-{number}"]), TagsAdded(ORDERS, [f"unit-{number}"])])
        fold_here(settings)
    marks = journal_marks(settings)
    before, was = digests(settings, marks), told(settings, [ORDERS], [place for _, place in events])
    all_fine(settings)
    for name, old in (("none", None), ("old", tmp_path / "old-lake")):
        elsewhere = replace(settings, lake=replace(settings.lake, path=str(tmp_path / f"lake-{name}")))
        if old is not None:
            shutil.copytree(old, elsewhere.lake.path)
        if old is None:
            fold(with_stream(elsewhere, max_events_per_batch=17, wide_events=1), tmp_path / "none.log")
        else:
            fold_here(elsewhere)
        reached = journal_marks(elsewhere)  # without the domains of which nothing was ever recorded
        assert {topic for topic, _ in reached} == {settings.journal.topics.journal("catalog")}
        assert reached == {key: marks[key] for key in reached}
        assert digests(elsewhere, marks) == before, name
        assert told(elsewhere, [ORDERS], [place for _, place in events]) == was
        all_fine(elsewhere)


def test_what_must_not_be_restored_is_refused(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    catalog = settings.journal.topics.journal("catalog")
    with pytest.raises(StreamError, match="no journal table"):
        restore_topics(settings, InProcess())
    emit_some(settings)
    fold_here(settings)
    with only_one(settings.lake.path, "stream", hint=""), pytest.raises(StreamError) as runs:
        restore_topics(settings, InProcess())
    assert runs.value.code == "stream-runs"
    with only_one(settings.lake.path, "rebuild", hint=""), pytest.raises(StreamError) as rebuilds:
        restore_topics(settings, InProcess())
    assert rebuilds.value.code == "rebuild-runs"
    assert not restore_topics(settings, InProcess()).loss.is_any
    lose(settings)
    ensure_topics(settings)  # as whoever does not know of the loss does
    write(settings, generated(3))
    with pytest.raises(StreamError) as holds:
        restore_topics(settings, InProcess())
    assert holds.value.code == "topic-holds-records"
    lose(settings)
    copy = Path(settings.lake.path) / "epochs.json"
    kept = copy.read_bytes()
    copy.unlink()
    with pytest.raises(StreamError) as unknown:
        restore_topics(settings, InProcess())
    assert unknown.value.code == "epochs-unknown"
    ensure_topics(settings)  # whoever creates them again does not know what had been recorded
    with pytest.raises(StreamError) as forgotten:
        restore_topics(settings, InProcess())
    assert forgotten.value.code == "epochs-unknown"
    copy.write_bytes(kept)
    assert {topic.state for topic in restore_topics(settings, InProcess(), dry_run=True).loss.topics} >= {EMPTY}
    Lake(settings.lake.path).tables["entities"].delta.delete("seq >= 0")
    with pytest.raises(StreamError) as wrong:
        restore_topics(settings, InProcess())
    assert wrong.value.code == "lake-inconsistent"
    assert not read(settings, catalog), "nothing was changed"
    empty_id = topic_id(settings)
    assert restore_topics(settings, InProcess(), accept=True).records
    assert topic_id(settings) != empty_id, "who knows the empty topic does not take the restored one for it"
    assert read(settings, catalog)


def test_rows_of_a_batch_that_was_under_way_are_removed(settings: Settings, tmp_path: Path) -> None:
    """Its events are in no topic and not in the journal table: nothing may show them once the marks move on."""
    ensure_topics(settings)
    emit_some(settings)
    fold_here(settings)
    marks = journal_marks(settings)
    before = digests(settings, marks)
    with Journal.connect(settings) as journal:
        journal.emit(TagsAdded(ORDERS, ["lost"]))
        lost = journal.emit(EntityRegistered(dataset("shop", "lost"))).position
    process = BrokerStream(settings)
    process.engine._crash = EndsAt("after-outcomes")
    with pytest.raises(Crash):
        process.fold()
    lose(settings)
    done = restore_topics(settings, InProcess())
    assert done.ahead[lost.topic, lost.partition] >= 1
    assert digests(settings, marks) == before
    with Journal.connect(settings) as journal:
        assert journal.show(ORDERS).user_tags == ("a",)
        with pytest.raises(UnknownEntityError):
            journal.show(dataset("shop", "lost"))
        place = journal.emit(EntityRegistered(dataset("shop", "lost"))).position
    fold_here(settings)
    all_fine(settings)
    with Journal.connect(settings) as journal:
        assert journal.show(dataset("shop", "lost"), at_least=place) is not None
