"""A recorded topic that is missing, or is another one, refuses its domain alone; the catalog's refuses everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from metajournal import EntityRegistered, FilesRecorded, Journal, TagsAdded, dataset
from metajournal.domains.files.urns import file_urn
from metajournal.producers.topics import Epochs, check_topics, ensure_topics
from metajournal.schemas.errors import DomainError, TopicMismatchError
from metajournal.schemas.settings import Settings
from metajournal.stack.supervisor import read_told
from metajournal.streaming.between.adding import added
from tests.archive import a_file
from tests.joining.test_taking_over import folding, verdicts
from tests.new_topics import remake_topics
from tests.outside.installation import Beside
from tests.outside.test_moved_kinds import GAMES
from tests.processes import running_indexer
from tests.wait import eventually

pytestmark = [pytest.mark.services]
_CONFIG = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(4 << 20)}


@pytest.fixture
def admin(settings: Settings) -> AdminClient:
    return AdminClient(dict(settings.kafka))


def without(settings: Settings, admin: AdminClient, topic: str) -> Epochs:
    """What is found once a topic is deleted."""
    admin.delete_topics([topic])[topic].result()
    eventually(lambda: topic not in admin.list_topics(timeout=5).topics, 30, f"{topic} is gone")
    return check_topics(settings)


@pytest.mark.parametrize("name", ["journal", "state", "outcomes", "changes"])
def test_a_missing_topic_refuses_its_domain_alone(settings: Settings, admin: AdminClient, name: str) -> None:
    before = ensure_topics(settings)
    topics = settings.journal.topics
    topic = getattr(topics, name)("files")
    epochs = without(settings, admin, topic)
    assert epochs.domains == ("catalog", "access", "repositories")
    others = {topics.journal(domain) for domain in ("catalog", "access", "repositories")}
    assert (epochs.topics, {*epochs}) == (before.topics, others)
    with Journal.connect(settings) as journal:
        assert journal.emit(TagsAdded(dataset("shop", "orders"), ["x"])).position.topic == topics.journal("catalog")
        assert list(journal.changes(timeout_s=0.1)) == []
        file = file_urn("here", "log", "f1")
        asked: list[Callable[[], object]] = [
            lambda: journal.emit(FilesRecorded([a_file(where="here", what="log", id="f1")])),
            lambda: journal.emit(TagsAdded(file, ["x"])),
            lambda: journal.changes("files"),
            lambda: journal.states("files"),
            lambda: journal.follow(file),
            lambda: journal.show(file, as_at="2020-01-01"),
            lambda: journal.show(file, at_least={(topics.journal("files"), 0): 1 << 40}),
            lambda: journal.wait({(topics.journal("files"), 0): 1 << 40}),
            lambda: epochs[topics.journal("files")],
        ]
        for ask in asked:
            with pytest.raises(TopicMismatchError, match="The domain files is refused, everything else is") as caught:
                ask()
            assert caught.value.data["differences"] == (f"{topic} is missing",)
            assert "next start of the stream" in caught.value.hint
    again = ensure_topics(settings)  # as the start of the stream does: what can be made is made, a journal topic never
    files = () if name == "journal" else ("files",)
    assert again.domains == ("catalog", *files, "access", "repositories")
    assert (topic in admin.list_topics(timeout=5).topics) == (name != "journal")


def test_a_topic_made_anew_or_with_another_partition_refuses_its_domain_alone(
    settings: Settings, admin: AdminClient
) -> None:
    before = ensure_topics(settings)
    topic = settings.journal.topics.journal("files")
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result()
    eventually(lambda: topic in check_topics(settings).refused, 30, "the fifth partition")
    assert "has 5 partitions, recorded are 4" in check_topics(settings).refused[topic][0]
    remake_topics(admin, [NewTopic(topic, 4, config=_CONFIG)])
    for look in (check_topics, ensure_topics):
        (difference,) = look(settings).refused[topic]
        assert f"recorded is {before[topic].topic_id}" in difference
        assert look(settings).domains == ("catalog", "access", "repositories")


def test_the_catalogs_topic_refuses_everything(settings: Settings, admin: AdminClient) -> None:
    """Undeclared kinds, lineage and the annotations' change topics stand in it: no other domain can do without."""
    ensure_topics(settings)
    topic = settings.journal.topics.journal("catalog")
    with pytest.raises(TopicMismatchError, match=f"{topic} is missing"):
        without(settings, admin, topic)
    with pytest.raises(TopicMismatchError, match=f"{topic} is missing") as caught:
        ensure_topics(settings)
    assert "`metajournal restore topics`" in caught.value.hint
    assert topic not in admin.list_topics(timeout=5).topics


def test_nothing_joins_while_a_domain_is_refused(settings: Settings, admin: AdminClient) -> None:
    """Nobody knows its cut: records of the refused topic may wait that name one of the new kinds."""
    ensure_topics(settings)
    epochs = without(settings, admin, settings.journal.topics.journal("files"))
    with pytest.raises(DomainError, match="games cannot join while files is refused"):
        added(settings, GAMES, "metajournal-games", epochs, None, {})  # type: ignore[arg-type]


@pytest.mark.long
def test_the_stream_and_the_indexer_serve_all_other_domains(
    settings: Settings, tmp_path: Path, admin: AdminClient
) -> None:
    """What was folded of the refused one stays, also in a rebuild; status, doctor, domains and verify say why."""
    ensure_topics(settings)
    beside, topic = Beside(settings, tmp_path), settings.journal.topics.journal("files")
    file = file_urn("here", "log", "f1")
    process = folding(settings, tmp_path / "before.log")
    with running_indexer(settings, tmp_path / "indexer.log"), Journal.connect(settings) as journal:
        recorded = journal.emit(FilesRecorded([a_file(where="here", what="log", id="f1")]))
        assert journal.show(file, at_least=recorded.position, timeout_s=120).urn == file
        assert process.stop() == 0
    once = verdicts(settings)
    without(settings, admin, topic)
    process = folding(settings, tmp_path / "refused.log")
    try:
        with running_indexer(settings, tmp_path / "indexer.log"), Journal.connect(settings) as journal:
            receipt = journal.emit(EntityRegistered(dataset("shop", "orders"), tags=["served"]))
            assert type(receipt.outcome(120)).__name__ == "Accepted"
            hits = journal.search("tags:served", at_least=receipt.position, timeout_s=120).hits
            assert [hit.urn for hit in hits] == [dataset("shop", "orders")]
            assert journal.show(file).urn == file  # as far as the lake holds it
            (unserved,) = (read_told(Path(settings.stack.home or "") / "stream.json"))["unserved"]
            assert (unserved["name"], f"{topic} is missing" in unserved["why"]) == ("files", True)
            rows = {row["name"]: row for row in json.loads(beside.command("domains", "--json").stdout)}
            assert (rows["files"]["state"], rows["catalog"]["state"]) == ("refused", "served")
            assert f"{topic} is missing" in rows["files"]["problem"]
            checks = {one["part"]: one for one in json.loads(beside.command("doctor", "--json").stdout)["checks"]}
            assert f"{topic} is missing" in checks["domain files"]["found"]
            verified = json.loads(beside.command("verify", "--no-index", "--json").stdout)["checks"]
            assert [one["name"] for one in verified if not one["ok"]] == ["domain-files"]
            rebuilt = json.loads(beside.command("rebuild", "lake", "--json").stdout)
            assert rebuilt["ok"], rebuilt
            journal.wait(receipt, timeout_s=60)
            assert journal.show(file).urn == file
        assert process.stop() == 0
    finally:
        process.kill()
    assert set(once) <= set(verdicts(settings))
