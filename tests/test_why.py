"""`why`: one event followed through journal, rules, tables and index, without reading the whole journal."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from metajournal import EntityRegistered, InputError, Journal, Position, Settings, TagsAdded, dataset, program, values
from metajournal.commands.trace_views import trace_view
from metajournal.consumers import finding
from metajournal.consumers.finding import Looked
from metajournal.domains.catalog.events import EntityDeleted
from metajournal.domains.catalog.urns import app
from metajournal.lake import scan
from metajournal.lake.events import judged_events, key_columns, rows_made
from metajournal.lake.tables import Lake
from metajournal.lake.views.views import Views
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.errors import InvalidPositionError, KafkaUnavailableError, UnknownEventError
from metajournal.schemas.ids import id_bytes
from metajournal.schemas.settings import ElasticsearchSettings
from metajournal.tracing import NOT_FOLDED, made_at, read_event, read_id, trace
from tests.builders import header_for, record_of
from tests.installation import Installation
from tests.streaming.harness import TOPIC, Fold, placed
from tests.streaming.test_engine import PARTITIONS, journal_of

SHOP = app("default", "shop")
AWAY = Settings(elasticsearch=ElasticsearchSettings(url="http://127.0.0.1:1"))
EPOCHS = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", PARTITIONS)})
JOB = program("default", "shop", "spark", "job")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for an index that is away."""
    monkeypatch.setattr("metajournal.indexer.search.visible._ASKED_S", 0.1)


@pytest.fixture
def fold(tmp_path: Path) -> Fold:
    """A lake with an app, its program, a tag of something unknown, the same tag twice, and the app's end."""
    fold = Fold(tmp_path, PARTITIONS)
    events = [
        EntityRegistered(SHOP), EntityRegistered(JOB), TagsAdded(dataset("default", "never"), ["x"]),
        TagsAdded(JOB, ["t"]), TagsAdded(JOB, ["t"]), EntityDeleted(SHOP),
    ]  # fmt: skip
    fold.batch(journal_of(*events))
    return fold


def by_type(fold: Fold) -> list[dict[str, Any]]:
    return sorted(fold.journal(), key=lambda row: row["event_id"])


def test_an_event_is_found_with_its_outcome_and_all_rows_that_it_made(fold: Fold) -> None:
    lake = Views(Lake(str(fold.path))).take()
    words = []
    for row in by_type(fold):
        [found] = judged_events(lake, row["event_id"])
        assert (found.position.value, found.position.partition) == (row["logical_timestamp"], row["journal_partition"])
        made = rows_made(lake, found, "catalog")
        assert [one.logical_timestamp for one in made] == [found.position.value] * len(made)
        words.append((found.type, found.outcome, found.reason, [(one.key["urn"], one.deleted) for one in made]))
    assert words == [
        ("catalog.EntityRegistered.1", "accepted", None, [(SHOP, False)]),
        ("catalog.EntityRegistered.1", "accepted", None, [(JOB, False)]),
        ("catalog.TagsAdded.1", "rejected", "unknown-entity", []),
        ("catalog.TagsAdded.1", "accepted", None, [(JOB, False)]),
        ("catalog.TagsAdded.1", "unchanged", None, []),
        ("catalog.EntityDeleted.1", "accepted", None, [(SHOP, True), (JOB, True)]),
    ]
    assert key_columns("entities") == ["urn"]
    assert judged_events(lake, "00000000-0000-7000-8000-000000000000") == []


@pytest.mark.usefixtures("impatient")
def test_an_event_is_found_by_its_position_too(fold: Fold, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Views(Lake(str(fold.path))).take()
    for row in by_type(fold):
        at = Position(row["topic"], row["journal_partition"], row["logical_timestamp"])
        by_id = trace(AWAY, lambda: EPOCHS, lake, row["event_id"])
        assert trace(AWAY, lambda: EPOCHS, lake, at) == by_id
        assert trace(AWAY, lambda: EPOCHS, lake, str(at)) == by_id
    monkeypatch.setattr(finding, "find_at", lambda *_, **__: None)
    with pytest.raises(UnknownEventError, match=r"There is no readable event at"):
        trace(AWAY, lambda: EPOCHS, lake, replace(at, value=at.value + 1_000))
    for wrong in (replace(at, topic="other"), replace(at, partition=PARTITIONS), replace(at, value=1 << 50)):
        with pytest.raises(InvalidPositionError, match="not a position of this journal"):
            trace(AWAY, lambda: EPOCHS, lake, wrong)
    with pytest.raises(InvalidPositionError):
        read_event("dataset:a/b")


def test_rows_of_a_batch_that_is_not_finished_are_not_told(fold: Fold) -> None:
    [event_id] = {row["event_id"] for row in by_type(fold)[:1]}
    lake = Views(Lake(str(fold.path))).take()
    partition = judged_events(lake, event_id)[0].position.partition
    marks = {**lake.journal.transactions, f"{TOPIC}/{partition}": 0}
    assert judged_events(replace(lake, journal=replace(lake.journal, transactions=marks)), event_id) == []


def test_a_look_up_opens_only_the_files_that_can_hold_the_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fold = Fold(tmp_path, PARTITIONS)
    journal = journal_of(*(EntityRegistered(dataset("default", f"d{number}")) for number in range(12)))
    for end in range(1, 13):
        fold.batch(journal[:end])
    opened: list[int] = []
    source = scan.source

    def counted(cursor: Any, table: Any, paths: list[str]) -> str:
        opened.append(len(paths))
        return source(cursor, table, paths)

    monkeypatch.setattr(scan, "source", counted)
    lake = Views(Lake(str(tmp_path))).take()
    [found] = judged_events(lake, fold.journal()[0]["event_id"])
    assert opened == [1]
    assert len(lake.journal.listed) == 12
    rows_made(lake, found, "catalog")
    assert opened == [1, 1]


@pytest.mark.usefixtures("impatient")
def test_a_shelved_event_is_told_with_its_reason_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal table gives a shelved record no id; its own header does, where it can be read."""
    fold, identity = Fold(tmp_path, PARTITIONS), UUID("019aa3a1-5b7c-7def-8123-456789abcdef")
    at = 0x019AA3A15B7C
    event = EntityRegistered(SHOP)
    header = header_for(event, event_id=identity.bytes, tenant="acme")
    wrong_key = record_of(event, 0, header=header, key=b"default/other", append_time=at)
    cut = record_of(event, 1, header=header, key=wrong_key.key, append_time=at)
    earlier = record_of(event, 2, header=header, key=wrong_key.key, append_time=at - 3 * 86_400_000)
    records = placed([earlier, wrong_key, cut._replace(value=(cut.value or b"")[:40])], PARTITIONS)
    fold.batch(records)
    assert {row["outcome"] for row in fold.journal()} == {"shelved"}
    lake = Views(Lake(str(tmp_path))).take()
    [step, *more] = trace(AWAY, lambda: EPOCHS, lake, str(identity)).steps
    assert (step.outcome, step.reason, step.position.value) == ("shelved", "wrong-key", records[1].position)
    assert (step.tenant, step.type, step.rows, step.behind) == ("acme", "catalog.EntityRegistered.1", (), 0)
    assert trace(AWAY, lambda: EPOCHS, lake, step.position) == trace(AWAY, lambda: EPOCHS, lake, str(identity))
    nameless = trace(AWAY, lambda: EPOCHS, lake, replace(step.position, value=records[2].position))
    assert (nameless.event_id, nameless.steps[0].outcome) == (None, "shelved")
    assert trace_view(values.trace_json(nameless)) is not None
    assert not more, "what is older than the id's time is another record, and one without a header is none"
    monkeypatch.setattr("metajournal.consumers.finding.find_event", lambda *_, **__: Looked([], True))
    with pytest.raises(UnknownEventError, match="can be read") as unknown:
        trace(AWAY, lambda: EPOCHS, lake, "019aa3a1-5b7c-7def-8123-456789abcdee")
    assert "dead-letter topic" in (unknown.value.hint or "")


@pytest.mark.usefixtures("impatient")
def test_an_index_that_is_away_and_an_unknown_event_are_said(fold: Fold, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(lake=fold.settings.lake, elasticsearch=Settings().elasticsearch)
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", PARTITIONS)})
    lake = Views(Lake(str(fold.path))).take()
    away = replace(settings, elasticsearch=replace(settings.elasticsearch, url="http://127.0.0.1:1"))
    found = trace(away, lambda: epochs, lake, by_type(fold)[0]["event_id"].upper())
    assert found.steps[0].seen.name is None
    assert "did not answer" in found.steps[0].seen.said
    monkeypatch.setattr("metajournal.consumers.finding.find_event", lambda *_, **__: Looked([], True))
    with pytest.raises(UnknownEventError, match="neither in the lake nor"):
        trace(away, lambda: epochs, lake, "019aa3a1-5b7c-7def-8123-456789abcdef")
    monkeypatch.setattr("metajournal.consumers.finding.find_event", lambda *_, **__: Looked([], False))
    with pytest.raises(UnknownEventError, match="could be read in time") as unsure:
        trace(away, lambda: epochs, lake, "019aa3a1-5b7c-7def-8123-456789abcdef")
    assert unsure.value.data["whole"] is False


@pytest.mark.services
def test_a_record_that_kafka_holds_and_does_not_give_in_time_is_never_called_unknown(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = installation.settings
    with Journal.connect(settings) as journal:
        at = journal.emit(TagsAdded(SHOP, ["late"])).position
    found = finding.find_at(settings, at, timeout_s=30)
    assert found is not None
    assert found.position == at
    monkeypatch.setattr(finding, "_read", lambda *_: iter(()))  # as one that got nothing until the time was over
    with pytest.raises(KafkaUnavailableError, match="was not read within 2 s"):
        finding.find_at(settings, at, timeout_s=2)


def test_an_id_tells_its_time_where_it_has_one_and_what_is_none_is_refused() -> None:
    assert made_at(read_id("019aa3a1-5b7c-7def-8123-456789abcdef")) == 0x019AA3A15B7C
    assert made_at(read_id("019aa3a1-5b7c-4def-8123-456789abcdef")) is None
    for text in ("", "x", "019aa3a1", "dataset:a"):
        with pytest.raises(InputError) as refused:
            read_id(text)
        assert refused.value.code == "invalid-event-id"


@pytest.mark.services
def test_an_event_that_is_not_folded_yet_is_found_in_kafka(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal.connect(settings, create_topics=True) as journal:
        for number in range(20):
            journal.emit(TagsAdded(dataset("default", f"d{number}"), ["x"]))
        receipt = journal.emit(TagsAdded(dataset("default", "d3"), ["y"]), actor="alice")
        with journal.unit() as unit:
            unit.emit(TagsAdded(dataset("default", "d3"), ["z"]))
        [step] = journal.why(receipt.event_id, timeout_s=60).steps
        assert (step.position, step.append_time) == (receipt.position, receipt.system_time)
        assert (step.outcome, step.actor, step.behind) == (NOT_FOLDED, "alice", receipt.position.offset + 1)
        assert journal.why(receipt.position, timeout_s=60).event_id == receipt.event_id
        assert journal.why(str(receipt.position), timeout_s=60).steps == (step,)
        with pytest.raises(UnknownEventError, match="There is no readable event at"):
            journal.why(replace(receipt.position, value=receipt.position.value + 1_000), timeout_s=60)
        [united] = journal.why(unit.receipts[0].event_id, timeout_s=60).steps
        assert united.unit_id == unit.id
        shown = values.trace_json(journal.why(receipt.event_id, timeout_s=60))
        assert json.loads(json.dumps(shown))["places"][0]["offset"] == receipt.position.offset
        with pytest.raises(UnknownEventError, match="neither in the lake nor"):
            journal.why("019aa3a1-5b7c-7def-8123-456789abcdef", timeout_s=60)
        epochs = {topic: one.epoch for topic, one in journal.epochs.items()}
        asked = {(receipt.topic, number): 0 for number in range(settings.journal.partitions)}
        late = finding.find_event(
            settings, id_bytes(receipt.event_id), asked, epochs,
            since_ms=int(time.time() * 1000) + 2 * finding.CLOCKS_MS, timeout_s=60,
        )  # fmt: skip
        assert late == Looked([], True)  # what is older than an event can be is not read


@pytest.mark.services
def test_why_answers_on_an_installation_with_place_outcome_rows_and_index(installation: Installation) -> None:
    words = ("emit", "EntityRegistered", "dataset:traced/orders", "--tag", "a", "--json")
    emitted = json.loads(installation.metajournal(*words).stdout)
    searched = installation.metajournal("search", "traced", "--at-least", emitted["position"])
    assert searched.returncode == 0, searched.stderr
    told = json.loads(installation.metajournal("why", emitted["event_id"], "--json").stdout)
    [place] = told["places"]
    assert (place["position"], place["outcome"], place["behind"]) == (emitted["position"], "accepted", 0)
    assert place["append_time"] == emitted["system_time"]
    [row] = place["rows"]
    assert (row["table"], row["key"]["urn"]) == ("entities", "dataset:traced/orders")
    assert (place["index"]["said"], place["index"]["name"][:12]) == ("shown", "metajournal-")
    people = installation.metajournal("why", emitted["event_id"]).stdout
    assert f"partition {place['partition']}, offset {place['offset']}" in people
    assert "shown in metajournal-" in people
    assert "entities  dataset:traced/orders" in people
    assert "event time" in people
    unknown = installation.metajournal("why", "019aa3a1-5b7c-7def-8123-456789abcdef")
    assert (unknown.returncode, unknown.stderr[:21]) == (1, "error[unknown-event]:")
    assert trace_view(told) is not None
