"""`metajournal emit --unit`: lines that are in the journal all together or not at all, on everything real."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest

from metajournal.client import Journal
from metajournal.commands.emitting import Sending
from metajournal.schemas.errors import InvalidUnitError
from metajournal.schemas.limits import MAX_UNIT_EVENTS
from metajournal.schemas.settings import Settings
from tests.installation import Installation
from tests.topics import read


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    with Journal.connect(settings, create_topics=True) as journal:
        yield journal


def tagged(name: str, **more: object) -> str:
    return json.dumps({"type": "TagsAdded", "entity": f"dataset:units/{name}", "tags": ["x"], **more})


def test_every_fault_of_every_line_is_listed_with_its_line_and_nothing_is_sent(
    journal: Journal, settings: Settings
) -> None:
    send = Sending(journal, outcome=False)
    with pytest.raises(InvalidUnitError) as unread:
        send.unit([tagged("a"), "", "nonsense", tagged("b", colour="red"), '{"type": "Tagged"}'])
    assert [fault.field for fault in unread.value.faults] == ["line 3", "line 4: colour", "line 5"]
    with pytest.raises(InvalidUnitError) as invalid:
        send.unit([tagged("a"), "", tagged("b", tags=[""]), tagged("c", expected=-1), tagged("d", tenant="other")])
    assert [fault.field for fault in invalid.value.faults] == ["line 3: tags[0]", "line 4: expected", "line 5: tenant"]
    with pytest.raises(InvalidUnitError, match="at most 1,000"):
        send.unit(tagged("a") for _ in range(10 * MAX_UNIT_EVENTS))
    assert read(settings, settings.journal.topics.journal("catalog")) == []


def test_no_line_is_an_empty_unit(journal: Journal) -> None:
    assert Sending(journal, outcome=True).unit(["\n"])["events"] == []


def test_a_unit_is_sent_judged_for_each_aggregate_and_sent_again_without_effect(installation: Installation) -> None:
    space = "judged"  # not made up by chance: its aggregates must lie in several partitions
    lines = [
        {"type": "EntityRegistered", "entity": f"dataset:{space}/{name}", "properties": {"owner": "alice"}}
        for name in ("a", "b", "c", "d")
    ]
    lines.insert(2, {"type": "TagsAdded", "entity": f"dataset:{space}/missing", "tags": ["x"]})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    first = installation.metajournal("emit", "--unit", "-", "--json", "--timeout", "60", stdin=text)
    assert first.returncode == 1, first.stdout + first.stderr
    said = json.loads(first.stdout)
    assert [one["outcome"] for one in said["events"]] == ["accepted", "accepted", "rejected", "accepted", "accepted"]
    assert said["events"][2]["reason"] == "unknown-entity"
    assert len({one["position"].split("/")[1] for one in said["events"]}) > 1

    for line, one in zip(lines, said["events"], strict=True):
        line["event_id"] = one["event_id"]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    again = installation.metajournal("emit", "--unit-id", said["unit"], "-", "--json", "--timeout", "60", stdin=text)
    told = json.loads(again.stdout)
    assert told["unit"] == said["unit"]
    assert [one["outcome"] for one in told["events"]] == ["duplicate"] * 5
    assert [one["original"]["outcome"] for one in told["events"]] == [one["outcome"] for one in said["events"]]
    assert (again.returncode, told["events"][2]["ok"], told["events"][0]["ok"]) == (1, False, True)
    assert [one["of"] for one in told["events"]] == [one["position"] for one in said["events"]]
    history = installation.metajournal("history", f"dataset:{space}/a", "--json")
    assert len(json.loads(history.stdout)) == 1


def test_a_unit_in_words_names_its_id_and_each_event(installation: Installation) -> None:
    entity = f"dataset:units{uuid.uuid4().hex[:6]}/a"
    line = json.dumps({"type": "EntityRegistered", "entity": entity})
    told = installation.metajournal("emit", "-", "--unit", "--no-wait", stdin=line)
    assert told.returncode == 0, told.stdout + told.stderr
    head, event = told.stdout.strip().split("\n")
    assert head.startswith("unit ")
    assert head.endswith("is in the journal, 1 event")
    assert entity in event
    refused = installation.metajournal("emit", "TagsAdded", entity, "--tag", "x", "--unit")
    assert refused.returncode == 2
    assert "is read from lines" in refused.stderr
