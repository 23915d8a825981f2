"""An installation of an earlier version, taken over by one start of one with a domain more, on real services."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metajournal.lake.tables import Lake
from metajournal.schemas.settings import Settings
from metajournal.stack.supervisor import read_told
from tests.joining.own import version_before, version_with_toys
from tests.outside.installation import Beside
from tests.outside.test_record import epochs_of
from tests.outside.test_toys import told
from tests.processes import Running, running_indexer, stream
from tests.wait import eventually

pytestmark = [pytest.mark.long, pytest.mark.services]
BEFORE = """
from metajournal import AccessesRecorded, EntityDeleted, EntityRegistered, Journal, TagsAdded, dataset, run, urn
from metajournal.producers.topics import ensure_topics
ensure_topics(settings)
with Journal.connect(settings) as journal:
    several = [
        EntityRegistered(urn("toy", "attic", "bear"), tags=["old"]), EntityRegistered(urn("toy", "loose")),
        TagsAdded(urn("toy", "cellar", "gone"), ["x"]), EntityRegistered(dataset("shop", "orders")),
        AccessesRecorded(run("shop", "app", "flow", "load", "1"), [("toy:loose", "read", 1000)]),
        EntityDeleted(urn("toy", "attic", "bear")),
    ]
    receipts = [journal.emit(event) for event in several]
    tell([type(one.outcome(120)).__name__ + ":" + getattr(one.outcome(), "reason", "") for one in receipts])
"""
MISPLACED = """
from metajournal import EntityRegistered, urn
from metajournal.producers.kafka import ErrorLog, make_producer
from metajournal.schemas.encoding.codec import encode
from metajournal.schemas.hashing import DIGEST_HEADER, digest, partition_of, record_key
from metajournal.schemas.header import Header
from metajournal.producers.ids import EventIds
box, topic = urn("toybox", "attic"), settings.journal.topics.journal("catalog")
event = EntityRegistered(box)
header = Header(EventIds()(1), "default", event.TYPE, box, event.entities, "ada", 1, None, None, None, False)
value, key = encode(event, header), record_key("default", box)
producer = make_producer(settings, ErrorLog())
producer.produce(topic, value, key, partition_of(key, 4), headers=[(DIGEST_HEADER, digest(value))])
producer.flush(30)
tell(None)
"""
BOTH_LIVE = """
from metajournal import EntityDeleted, EntityRegistered, Journal, MetajournalError, TagsAdded, dataset, urn
from metajournal.domains.toys.events import ToyMade
with Journal.connect(settings) as journal:
    try:
        journal.emit(ToyMade("toy:attic/bear", "mohair"))
    except MetajournalError as error:
        refused = error.code
    served = journal.emit(TagsAdded(dataset("shop", "orders"), ["late"])).outcome(120)
    tags = journal.emit(TagsAdded(urn("toy", "loose"), ["still"]))
    known = [type(tags.outcome(120)).__name__, journal.show(urn("toy", "loose"), at_least=tags.position).user_tags]
    ended = journal.emit(EntityDeleted(urn("toy", "loose"))).outcome(120)
    tell([refused, type(served).__name__, *known, type(ended).__name__])
"""
WAITING = """
from metajournal import EntityRegistered, Journal, urn
with Journal.connect(settings) as journal:
    receipt = journal.emit(EntityRegistered(urn("toy", "attic", "late")))
    tell([receipt.position.topic, receipt.position.partition, receipt.position.value])
"""
PLAYING = """
from metajournal import Journal, TagsAdded, urn
from metajournal.domains.toys.events import ToyMade, ToyPlayed
from metajournal.domains.toys.client import CLIENT
bear = urn("toy", "attic", "bear")
with Journal.connect(settings) as journal:
    several = [
        ToyMade(bear, "mohair", 12), ToyPlayed(bear, "ada", 30), ToyPlayed(urn("toy", "attic", "ghost"), "ada", 1),
        TagsAdded(bear, ["new"]), TagsAdded(urn("toybox", "attic"), ["box"]),
    ]
    receipts = [journal.emit(event) for event in several]
    outcomes = [one.outcome(120) for one in receipts]
    hits = journal.search("mohair", at_least=receipts[3].position, timeout_s=120)
    journal.wait([one.position for one in receipts])
    tell({
        "outcomes": [type(one).__name__ + ":" + getattr(one, "reason", "") for one in outcomes],
        "topics": sorted({one.position.topic for one in receipts}), "epoch": receipts[0].position.epoch,
        "hits": [hit.urn for hit in hits.hits], "players": CLIENT(journal).players(bear),
        "row": [journal.show(bear).record, journal.show(bear).user_tags],
        "history": [one.deleted for one in journal.history(bear)],
        "changes": [one.record["player"] for one in journal.changes("toys", since="earliest", timeout_s=5)],
    })
"""
OF_BEFORE = """
from metajournal import EntityRegistered, Journal, TagsAdded, dataset, urn
if {first}:
    from metajournal.producers import topics
    topics.served_of = lambda record: None  # what the first version reads of the record
with Journal.connect(settings) as journal:
    bear = urn("toy", "attic", "bear")
    toy = journal.emit(EntityRegistered(bear) if {first} else TagsAdded(bear, ["new"])).outcome(120)
    fine = journal.emit(TagsAdded(dataset("shop", "orders"), ["seen{first}"]))
    change = next(iter(journal.changes(since="earliest", urn=dataset("shop", "orders"), timeout_s=30)))
    tell([getattr(toy, "reason", type(toy).__name__), type(fine.outcome(120)).__name__, change.urn])
"""


def verdicts(settings: Settings) -> list[tuple[Any, ...]]:
    """What the journal table says of every event of the catalog's topic."""
    journal = Lake(settings.lake.path).journal
    rows = journal.sql("select topic, journal_partition, logical_timestamp, outcome, reason from journal")
    catalog = [tuple(row.values()) for row in rows.to_pylist() if row["topic"].endswith(".catalog")]
    return sorted(catalog, key=lambda row: row[:3])


def state_of(settings: Settings) -> dict[str, Any]:
    return read_told(Path(settings.stack.home or "") / "stream.json")


def folding(settings: Settings, log: Path) -> Running:
    """A stream that runs."""
    process = stream(settings, log)
    eventually(lambda: state_of(settings).get("pid") == process.process.pid and running(settings), 120, f"see {log}")
    return process


def running(settings: Settings) -> bool:
    return bool(state_of(settings)["state"] == "running")


def test_one_start_takes_an_earlier_versions_journal_over(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the new domain join, once nothing of its kinds lives in the catalog; everything else is served always."""
    earlier, later = version_before(tmp_path / "before"), version_with_toys(tmp_path / "new")
    before, new = Beside(settings, tmp_path, (earlier,)), Beside(settings, tmp_path, (later,))
    monkeypatch.setenv("PYTHONPATH", str(earlier))  # of the streams and the indexer
    of_the_earlier_version(settings, tmp_path, before)
    old = verdicts(settings)
    monkeypatch.setenv("PYTHONPATH", str(later))
    with running_indexer(settings, tmp_path / "indexer.log"):
        stays_out_alone(settings, tmp_path, new)
        waiting = new.python(WAITING)  # nobody judges it before the domain joins
        joins_at_one_of_two_starts(settings, tmp_path, new, before, waiting)
    assert set(old) <= set(verdicts(settings))


def of_the_earlier_version(settings: Settings, tmp_path: Path, before: Beside) -> None:
    """Toys are of a kind that nobody declares; a box stands in no topic of it."""

    before.python("from metajournal.producers.topics import ensure_topics\nensure_topics(settings)\ntell(None)")
    running_before = folding(settings, tmp_path / "before.log")
    try:
        expected = ["Accepted:", "Accepted:", "Rejected:unknown-entity", "Accepted:", "Accepted:", "Accepted:"]
        assert before.python(BEFORE) == expected
        before.python(MISPLACED)
        eventually(lambda: "wrong-topic" in {row[4] for row in verdicts(settings)}, 60, "the misplaced box is shelved")
        assert running_before.stop() == 0
    finally:
        running_before.kill()


def stays_out_alone(settings: Settings, tmp_path: Path, new: Beside) -> None:
    """While a toy lives in the catalog, its kind stays the catalog's; and status, doctor and domains say what to do."""
    process = folding(settings, tmp_path / "living.log")
    try:
        assert settings.journal.topics.journal("toys") not in epochs_of(settings)
        (unserved,) = state_of(settings)["unserved"]
        assert (unserved["name"], "toy:loose" in unserved["why"]) == ("toys", True)
        assert "EntityDeleted" in unserved["mend"]
        (row,) = [row for row in told(new.command("domains", "--json")) if row["name"] == "toys"]
        assert (row["state"], "toy:loose" in row["problem"]) == ("not served yet", True)
        doctor = json.loads(new.command("doctor", "--json").stdout)
        (check,) = [check for check in doctor["checks"] if check["part"] == "domain toys"]
        assert (check["verdict"], "toy:loose" in check["found"]) == ("wrong", True)
        assert new.python(BOTH_LIVE) == ["unserved-domain", "Accepted", "Accepted", ["still"], "Accepted"]
        assert told(new.command("verify", "--json"))["ok"]
        assert process.stop() == 0
    finally:
        process.kill()


def joins_at_one_of_two_starts(
    settings: Settings, tmp_path: Path, new: Beside, before: Beside, waiting: list[Any]
) -> None:
    both = [stream(settings, tmp_path / f"start{number}.log") for number in range(2)]
    try:
        eventually(lambda: any(one.process.poll() is not None for one in both), 120, "one of the starts is refused")
        (process,) = [one for one in both if one.process.poll() is None]
        topic = settings.journal.topics.journal("toys")
        eventually(lambda: topic in epochs_of(settings), 120, f"toys are served: {process.log}")
        names, record = settings.journal.topics, epochs_of(settings)[topic]
        assert record["cuts"][names.journal("catalog")][waiting[1]] == waiting[2]
        found = new.python(PLAYING)
        assert found == {
            "outcomes": ["Accepted:", "Accepted:", "Rejected:unknown-toy", "Accepted:", "Rejected:unknown-entity"],
            "topics": [topic],
            "epoch": 2,
            "hits": ["toy:attic/bear"],
            "players": [["ada", 30]],
            "row": [{"material": "mohair", "pieces": 12}, ["new"]],
            "history": [False, True, False, False],
            "changes": ["ada"],
        }
        assert ("rejected", "moved-kind") in [row[3:] for row in verdicts(settings) if list(row[:3]) == waiting]
        assert before.python(OF_BEFORE.format(first=True)) == ["moved-kind", "Accepted", "dataset:shop/orders"]
        assert before.python(OF_BEFORE.format(first=False)) == ["Unchanged", "Accepted", "dataset:shop/orders"]
        (row,) = [row for row in told(new.command("domains", "--json")) if row["name"] == "toys"]
        assert (row["state"], row["topic"]) == ("served", topic)
        assert state_of(settings)["unserved"] == []
        the_same_again(settings, new)
        assert process.stop() == 0
    finally:
        for one in both:
            one.kill()


def the_same_again(settings: Settings, new: Beside) -> None:
    """Verify folds the whole journal anew, and so does a rebuild, below the cut as above it."""
    once = verdicts(settings)
    checks = told(new.command("verify", "--json"))["checks"]
    assert {one["name"]: one for one in checks if not one["ok"]} == {}
    assert {"table-toy_plays", "table-toys_by_player"} <= {one["name"] for one in checks}
    assert told(new.command("rebuild", "lake", "--from", "kafka", "--json"))["ok"]
    assert verdicts(settings) == once
    assert told(new.command("rebuild", "index", "--json"))["ok"]
    assert told(new.command("search", "mohair", "--json"))["hits"][0]["urn"] == "toy:attic/bear"


def test_a_batch_that_the_earlier_version_began_is_judged_before_the_domain_joins(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows stand in the lake already: the toy that they tell of lives in the catalog, and keeps the domain out."""
    earlier, later = version_before(tmp_path / "before"), version_with_toys(tmp_path / "new")
    before, new = Beside(settings, tmp_path, (earlier,)), Beside(settings, tmp_path, (later,))
    before.python("from metajournal.producers.topics import ensure_topics\nensure_topics(settings)\ntell(None)")
    waiting = before.python(WAITING)
    monkeypatch.setenv("PYTHONPATH", str(earlier))
    killed = replace(settings, stream=replace(settings.stream, crash_at="after-history:1"))
    assert stream(killed, tmp_path / "killed.log").ended(120) != 0
    assert verdicts(settings) == []
    monkeypatch.setenv("PYTHONPATH", str(later))
    process = folding(settings, tmp_path / "later.log")
    try:
        eventually(lambda: bool(state_of(settings).get("unserved")), 60, f"the domain stays out: {process.log}")
        assert verdicts(settings) == [(*waiting, "accepted", None)]
        (unserved,) = state_of(settings)["unserved"]
        assert "toy:attic/late" in unserved["why"]
        assert settings.journal.topics.journal("toys") not in epochs_of(settings)
        assert told(new.command("verify", "--no-index", "--json"))["ok"]
        assert process.stop() == 0
    finally:
        process.kill()
