"""A domain from outside of the tree, from `domains add` over a search hit to verify and rebuild, on real services."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from tests.outside.installation import Beside
from tests.processes import running_indexer, stream
from tests.toys.installing import install_toys
from tests.wait import eventually

BEFORE = """
from metajournal import AccessesRecorded, EntityRegistered, Journal, TagsAdded, dataset, run, urn
with Journal.connect(settings) as journal:
    receipts = [
        journal.emit(EntityRegistered(urn("toy", "attic", "bear"), tags=["old"])),
        journal.emit(EntityRegistered(urn("toy", "loose"))),
        journal.emit(TagsAdded(urn("toy", "cellar", "gone"), ["x"])),
        journal.emit(EntityRegistered(dataset("shop", "orders"))),
        journal.emit(AccessesRecorded(run("shop", "app", "flow", "load", "1"), [("toy:loose", "read", 1000)])),
    ]
    tell([type(one.outcome(120)).__name__ + ":" + getattr(one.outcome(), "reason", "") for one in receipts])
"""
ENDED = """
from metajournal import EntityDeleted, Journal, urn
with Journal.connect(settings) as journal:
    several = [journal.emit(EntityDeleted(urn("toy", *parts))) for parts in (("attic", "bear"), ("loose",))]
    tell([type(one.outcome(120)).__name__ for one in several])
"""
OF_BEFORE = """
from metajournal import EntityRegistered, Journal, TagsAdded, dataset, urn
from metajournal.producers import topics
topics.served_of = lambda record: None  # what a version before this one reads of the record
with Journal.connect(settings) as journal:
    moved = journal.emit(EntityRegistered(urn("toy", "attic", "bear"))).outcome(120)
    fine = journal.emit(TagsAdded(dataset("shop", "orders"), ["seen"]))
    change = next(iter(journal.changes(since="earliest", urn=dataset("shop", "orders"), timeout_s=30)))
    tell([moved.reason, moved.detail, type(fine.outcome(120)).__name__, change.urn])
"""
PLAYING = """
from metajournal import Journal, TagsAdded, urn
from metajournal_toys.events import ToyMade, ToyPlayed
bear = urn("toy", "attic", "bear")
with Journal.connect(settings) as journal:
    toys = journal.domain("toys")
    receipts = [
        toys.make(bear, "mohair", 12), toys.make(bear, "mohair", 12), toys.play(bear, "ada", 30),
        toys.play(bear, "bob", 5), toys.play(urn("toy", "attic", "ghost"), "ada", 1),
        journal.emit(TagsAdded(bear, ["old"])),
    ]
    outcomes = [one.outcome(120) for one in receipts]
    last = receipts[-1].position
    hits = journal.search("mohair", at_least=last, timeout_s=120)
    journal.wait([one.position for one in receipts])
    row = journal.show(bear)
    tell({
        "outcomes": [type(one).__name__ for one in outcomes],
        "reason": outcomes[4].reason, "detail": outcomes[4].detail,
        "hits": [hit.urn for hit in hits.hits], "players": toys.players(bear),
        "record": row.record, "tags": row.user_tags,
        "epoch": last.epoch, "history": [one.deleted for one in journal.history(bear)],
        "changes": [one.record for one in journal.changes("toys", since="earliest", timeout_s=10)],
        "as_of": journal.show(bear, as_of=row.event_time).record,
    })
"""
MANY = """
from metajournal import Journal, urn
from metajournal_toys.events import ToyMade, ToyPlayed
with Journal.connect(settings) as journal:
    many = [urn("toy", f"box{number % 7}", f"toy{number}") for number in range(150)]
    made = [journal.emit(ToyMade(toy, "wood")) for toy in many]
    played = [journal.emit(ToyPlayed(toy, "ada", 2)) for toy in many * 2]
    outcomes = {type(one.outcome(120)).__name__ for one in [*made, *played]}
    journal.wait([one.position for one in played], timeout_s=60)
    tell([sorted(outcomes), journal.domain("toys").players(many[3])])
"""
OF_PLAYER = """
from metajournal import Journal
with Journal.connect(settings) as journal:
    toys = journal.domain("toys")
    tell([len(toys.of_player("ada")), toys.of_player("bob")])
"""
WITHOUT_PACKAGE = """
from metajournal import Journal, MetajournalError, PropertiesSet, urn
from metajournal.terminal.parsing import event_class
def code(ask):
    try:
        ask()
    except MetajournalError as error:
        return [error.code, "metajournal-toys" in f"{error} {error.hint}"]
with Journal.connect(settings) as journal:
    bear = urn("toy", "attic", "bear")
    receipt = journal.emit(PropertiesSet(bear, {"owner": "ada"}))
    change = next(iter(journal.changes(since="earliest", urn=bear, scope="USER", keys="owner", timeout_s=30)))
    tell({
        "outcome": type(receipt.outcome(120)).__name__, "aggregate": bear.aggregate, "topic": receipt.position.topic,
        "changed": change.record["updated"]["properties"],
        "shown": journal.show(bear, at_least=receipt.position).record,
        "domain": code(lambda: journal.domain("toys")), "follow": code(lambda: journal.follow(bear).row()),
        "type": code(lambda: event_class("toys.ToyMade"))[0],
    })
"""
WAYS = """
import metajournal.streaming.engine as engine
def noting(name):
    plain = getattr(engine.Engine, name)
    def noted(self, *given):
        with open({log!r}, "a") as file:
            file.write(name + chr(10))
        return plain(self, *given)
    setattr(engine.Engine, name, noted)
noting("run"), noting("run_wide")
"""


def told(done: Any) -> Any:
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_toys_go_all_the_way(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stream: it judges toys as the catalog's, takes the domain over between two batches, and serves it."""
    settings = replace(settings, stream=replace(settings.stream, wide_events=100, min_trigger_interval_ms=500))
    site = install_toys(tmp_path / "site")
    has, lacks = Beside(settings, tmp_path, (site,)), Beside(settings, tmp_path)
    ensure_topics(settings)
    ways = tmp_path / "ways"
    monkeypatch.setenv("PYTHONPATH", str(site))  # of the stream and the indexer
    running = stream(settings, tmp_path / "stream.log", WAYS.format(log=str(ways)))
    try:
        before_it_is_served(has, lacks)
        with running_indexer(settings, tmp_path / "indexer.log"):
            served(has, lacks)
            assert {"run", "run_wide"} <= set(ways.read_text().split())
            the_same_again(has)
        assert running.stop() == 0
    finally:
        running.kill()


def before_it_is_served(has: Beside, lacks: Beside) -> None:
    """Its kinds are the catalog's, also where the package is installed; then they are not any more."""
    outcomes = ["Accepted:", "Accepted:", "Rejected:unknown-entity", "Accepted:", "Accepted:"]
    assert has.python(BEFORE) == outcomes
    missing = lacks.command("domains", "add", "toys", "--json")
    assert (missing.returncode, "missing-domain" in missing.stdout) == (1, True)
    refused = has.command("domains", "add", "toys", "--json")
    assert refused.returncode == 1
    assert "toy:attic/bear, toy:loose" in refused.stdout, refused
    assert [one["state"] for one in told(has.command("domains", "--json")) if one["name"] == "toys"] == ["installed"]
    assert lacks.python(ENDED) == ["Accepted", "Accepted"]
    assert told(has.command("domains", "add", "toys", "--json"))["kinds"] == ["toy", "toybox"]
    *_, ended = told(has.command("history", "toy:attic/bear", "--json"))
    assert ended["deleted"]
    assert told(has.command("why", ended["position"], "--json"))["event_id"] == ended["event_id"]
    assert [one["state"] for one in told(lacks.command("domains", "--json")) if one["name"] == "toys"] == [
        "served, not installed"
    ]


def served(has: Beside, lacks: Beside) -> None:
    """Emit, verdicts, search, the lake, the change topic; clients of before, and those without the package."""
    moved = lacks.python(OF_BEFORE)
    assert moved == ["moved-kind", {"kind": "toy", "domain": "toys"}, "Accepted", "dataset:shop/orders"]
    found = has.python(PLAYING)
    assert found == {
        "outcomes": ["Accepted", "Unchanged", "Accepted", "Accepted", "Rejected", "Accepted"],
        "reason": "unknown-toy",
        "detail": {"toy": "toy:attic/ghost"},
        "hits": ["toy:attic/bear"],
        "players": [["ada", 30], ["bob", 5]],
        "record": {"material": "mohair", "pieces": 12},
        "tags": ["old"],
        "epoch": 2,
        "history": [False, True, False, False],
        "changes": [
            {"toy": "toy:attic/bear", "player": "ada", "minutes": 30, "altogether": 30},
            {"toy": "toy:attic/bear", "player": "bob", "minutes": 5, "altogether": 5},
        ],
        "as_of": {"material": "mohair", "pieces": 12},
    }
    emitted = has.command("emit", "toys.ToyPlayed", "toy:attic/bear", "--data", '{"player": "bob", "minutes": "1:00"}')
    assert emitted.returncode == 0, emitted.stdout + emitted.stderr
    both = [{"player": "bob", "minutes": 65}, {"player": "ada", "minutes": 30}]
    eventually(lambda: told(has.command("players", "toy:attic/bear", "--json")) == both, 30, "the hour in the lake")
    hour = re.search(r"\S+\.journal\.toys/\d+/\d+", emitted.stdout)
    assert hour is not None
    [place] = told(has.command("why", hour[0], "--json"))["places"]
    assert place["row_counts"] == {"toy_plays": 1}
    assert has.python(MANY) == [["Accepted"], [["ada", 4]]]
    eventually(lambda: has.python(OF_PLAYER) == [151, ["toy:attic/bear"]], 60, "the derived table has all plays")
    without = lacks.python(WITHOUT_PACKAGE)
    assert without == {
        "outcome": "Accepted",
        "aggregate": "toybox:attic",
        "topic": f"{has.settings.journal.prefix}.journal.toys",
        "changed": {"owner": "ada"},
        "shown": {"material": "mohair", "pieces": 12},
        "domain": ["missing-domain", True],
        "follow": ["missing-domain", True],
        "type": "unknown-event-type",
    }


def the_same_again(has: Beside) -> None:
    """Verify and rebuild give the same rows and verdicts, below the cut as above it."""
    checks = told(has.command("verify", "--json"))["checks"]
    assert {one["name"]: one["ok"] for one in checks if not one["ok"]} == {}
    assert {"table-toy_plays", "table-toys_by_player"} <= {one["name"] for one in checks}
    assert told(has.command("rebuild", "lake", "--json"))["ok"]
    assert has.python(OF_PLAYER) == [151, ["toy:attic/bear"]]
    assert told(has.command("rebuild", "index", "--json"))["ok"]
    assert told(has.command("search", "mohair", "--json"))["hits"][0]["urn"] == "toy:attic/bear"
