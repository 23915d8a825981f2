"""The client against a running installation: verdicts and changes of events as they come back."""

from __future__ import annotations

from typing import Any

import pytest

from metajournal import EntityRegistered, Journal, NotYetVisibleError, PropertiesSet, TagsAdded, dataset
from metajournal.domains.repositories.events import Committed, ObjectsRegistered, ObjectsWritten, RepositoryCreated
from metajournal.domains.repositories.urns import branch_urn, commit_urn, object_urn, repository_urn
from metajournal.producers.verdicts import Accepted, Duplicate, Rejected, Unchanged
from metajournal.schemas.errors import InputError
from metajournal.schemas.positions import Position
from tests.installation import Installation

PURCHASES = dataset("client", "purchases")
WAIT_S = 180.0
"""The first verdict may wait for the stream's first batch, which is a cold one."""


def test_receipts_and_changes_tell_what_the_stream_decided(installation: Installation) -> None:
    with Journal.connect(installation.settings) as journal:
        registered = journal.emit(EntityRegistered(PURCHASES, description="What was bought"), actor="alice")
        tagged = journal.emit(TagsAdded(PURCHASES, ["pii"]))
        twice = journal.emit(TagsAdded(PURCHASES, ["pii"]))
        again = journal.emit(TagsAdded(PURCHASES, ["pii"]), event_id=tagged.event_id, repeat=True)
        refused = journal.emit(PropertiesSet(dataset("client", "nobody"), {"a": "b"}))
        stale = journal.emit(TagsAdded(PURCHASES, ["hot"]), expected=registered.position)
        assert registered.outcome(WAIT_S) == Accepted(registered.position)
        assert tagged.outcome(WAIT_S) == Accepted(tagged.position)
        assert twice.outcome(WAIT_S) == Unchanged(twice.position)
        assert again.outcome(WAIT_S) == Duplicate(again.position, tagged.position, Accepted(tagged.position))
        for receipt, reason in ((refused, "unknown-entity"), (stale, "stale-entity")):
            outcome = receipt.outcome(WAIT_S)
            assert isinstance(outcome, Rejected)
            assert outcome.reason == reason
        changes = list(journal.changes("catalog", since=registered.position, timeout_s=5))
        assert [(one.position, one.scope, one.urn) for one in changes] == [(tagged.position, "USER", PURCHASES)]
        assert changes[0].record["changes"]["additions"] == {"properties": {}, "tags": ["pii"]}
        assert changes[0].time == tagged.system_time
        assert journal.tags(PURCHASES) == ("pii",)
        assert journal.metadata(PURCHASES)["SYSTEM"].properties["created_by"] == "alice"
        assert [row.user_tags for row in journal.history(PURCHASES)] == [(), ("pii",)]


def test_a_repositorys_events_are_judged_published_and_found(installation: Installation) -> None:
    """Every journal of this version serves repositories from its beginning."""
    repository, main = repository_urn("shop"), branch_urn("shop", "main")
    entry: dict[str, Any] = {"path": "raw/a.csv", "size": 3, "checksum": "c1", "address": "s3://shop/1"}
    with Journal.connect(installation.settings) as journal:
        created = journal.emit(RepositoryCreated(repository, "main", "s3://shop"))
        assert created.outcome(WAIT_S) == Accepted(created.position)
        with journal.follow(main) as follow:
            journal.emit(ObjectsWritten(main, [entry]))
            committed = journal.emit(Committed(main, "the first gleaning", {"by": "nightly"}))
            late = journal.emit(Committed(main, "again", expected_head=""))
            verdicts = [follow.verdict(one.position, timeout_s=WAIT_S) for one in (committed, late)]
            row = follow.row(at_least=committed.position)
        assert verdicts == [committed.outcome(WAIT_S), late.outcome(WAIT_S)]
        assert verdicts[0] == Accepted(committed.position)
        assert isinstance(verdicts[1], Rejected)
        assert row is not None
        assert row.record is not None
        head = row.record["head"]
        assert verdicts[1].reason == "stale-head"
        assert verdicts[1].detail == {"branch": main, "expected": "", "found": head}
        changes = [one.record for one in journal.changes("repositories", since=created.position, timeout_s=5)]
        assert [change["event_type"] for change in changes] == ["ObjectsWritten", "Committed"]
        assert changes[1]["event_payload"]["commit"] == head
        registered = journal.emit(ObjectsRegistered(repository, [entry["path"]]))
        tagged = journal.emit(TagsAdded(object_urn("shop", "raw/a.csv"), ["harvested"]))
        assert registered.outcome(WAIT_S) == Accepted(registered.position)

        def found(query: str) -> list[str]:
            return [hit.urn for hit in journal.search(query, at_least=tagged.position, timeout_s=WAIT_S).hits]

        assert found("tags:harvested") == ["object:shop/raw/a.csv"]
        assert found("gleaning") == [commit_urn("shop", head)]
        assert found(f"head:{head}") == [main]


def test_who_gives_the_position_sees_their_own_write_in_the_lake(installation: Installation) -> None:
    own = dataset("client", "own-write")
    with Journal.connect(installation.settings) as journal:
        for number in range(20):
            receipt = journal.emit(PropertiesSet(own, {"n": str(number)}) if number else EntityRegistered(own))
            shown = journal.show(own, at_least=receipt.position, timeout_s=WAIT_S)
            assert shown.logical_timestamp == receipt.position.value
        journal.wait(receipt.position)
        assert len(journal.history(own, at_least=receipt.position)) == 20
        last = receipt.position
        beyond = Position(last.topic, last.partition, last.value + 1_000)
        with pytest.raises(NotYetVisibleError, match="The lake is behind the requested position after 0 s"):
            journal.show(own, at_least=beyond, timeout_s=0)
        with pytest.raises(InputError, match="at_least must be a position"):
            journal.show(own, at_least="soon")  # type: ignore[arg-type]


def test_a_follower_says_at_once_what_the_stream_says_later(installation: Installation) -> None:
    followed = dataset("client", "followed")
    with Journal.connect(installation.settings) as journal:
        journal.emit(EntityRegistered(dataset("client", "first-of-all"))).outcome(WAIT_S)  # there is a lake
        with journal.follow(followed) as follow:
            registered = journal.emit(EntityRegistered(followed))
            receipts = [registered, *(journal.emit(TagsAdded(followed, [tag])) for tag in ("a", "b", "a"))]
            receipts.append(journal.emit(TagsAdded(followed, ["c"]), expected=registered.position))
            receipts.append(journal.emit(TagsAdded(followed, ["a"]), event_id=receipts[1].event_id, repeat=True))
            told = [follow.verdict(one.position, timeout_s=WAIT_S) for one in receipts]
            row = follow.row(at_least=receipts[-1].position)
        assert told == [one.outcome(WAIT_S) for one in receipts]
        assert row == journal.show(followed, at_least=receipts[-1].position, timeout_s=WAIT_S)
        assert row is not None
        assert row.user_tags == ("a", "b")
