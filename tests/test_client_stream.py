"""The client against a running installation: verdicts and changes of events as they come back."""

from __future__ import annotations

from metajournal import EntityRegistered, Journal, PropertiesSet, TagsAdded, dataset
from metajournal.producers.verdicts import Accepted, Duplicate, Rejected, Unchanged
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
