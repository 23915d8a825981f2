"""What the epochs topic tells of a domain of our own: of a journal that is new, and of one of an earlier version."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metajournal.producers.compacted import read_all
from metajournal.schemas.settings import Settings
from tests.joining.own import version_before, version_with_toys
from tests.outside.installation import Beside
from tests.outside.test_record import epochs_of, read_by_0_1_0

pytestmark = pytest.mark.usefixtures("kafka")
MADE = """
from metajournal.producers.topics import ensure_topics
tell(ensure_topics(settings).domains)
"""
CONNECTED = """
from metajournal import Journal, MetajournalError, TagsAdded, dataset, urn
from metajournal.schemas.events import event_types
def told(ask):
    try:
        return ask()
    except MetajournalError as error:
        return [error.code, "Start" in error.hint or "start it (`metajournal up`)" in error.hint]
made = event_types().get("toys.ToyMade.1")
with Journal.connect(settings, create_topics={create}) as journal:
    emit = lambda event: journal.emit(event).position.topic
    tell({{
        "domains": journal.epochs.domains,
        "toy": told(lambda: emit(TagsAdded(urn("toy", "attic", "bear"), ["x"]))),
        "odd": told(lambda: emit(TagsAdded(urn("toy", "a", "b", "c"), ["x"]))),
        "box": told(lambda: emit(TagsAdded(urn("toybox", "attic"), ["x"]))),
        "made": told(lambda: emit(made("toy:attic/bear", "wood"))) if made else None,
        "unit": told(lambda: journal.emit_unit([TagsAdded(urn("toybox", "attic"), ["x"])])) and None,
        "changes": told(lambda: len(list(journal.changes("toys", timeout_s=0.1)))),
        "dataset": told(lambda: emit(TagsAdded(dataset("shop", "orders"), ["x"]))),
    }})
"""


def test_a_new_journal_has_all_of_our_own_domains_from_its_beginning(settings: Settings, tmp_path: Path) -> None:
    """Two processes that make it at once record the same; an earlier version reads it, and goes on."""
    new = Beside(settings, tmp_path, (version_with_toys(tmp_path / "new"),))
    with ThreadPoolExecutor(2) as pool:
        domains = list(pool.map(new.python, [MADE, MADE]))
    assert domains == [["catalog", "files", "access", "repositories", "toys"]] * 2
    names, recorded = settings.journal.topics, epochs_of(settings)
    record = recorded[names.journal("toys")]
    begin = 1 << 40
    assert record["cuts"] == {names.journal("catalog"): [begin] * 4, names.journal("files"): [begin] * 4}
    assert (record["package"], record["epoch"], record["reserved"]) == ("metajournal", 2, ["toybox"])
    assert [row["name"] for row in record["kinds"]] == ["toybox", "toy"]
    old = read_by_0_1_0(read_all(settings, names.epochs))
    assert old == {key: (one["epoch"], one["topic_id"], one["partitions"]) for key, one in recorded.items()}
    connected = new.python(CONNECTED.format(create=False))
    topic, catalog = names.journal("toys"), names.journal("catalog")
    assert connected == {
        "domains": ["catalog", "files", "access", "repositories", "toys"], "toy": topic, "odd": None, "box": topic,
        "made": topic, "unit": None, "changes": 0, "dataset": catalog,
    } | {"odd": connected["odd"]}  # fmt: skip
    assert connected["odd"][0] == "invalid-urn"
    before = Beside(settings, tmp_path, (version_before(tmp_path / "before"),)).python(CONNECTED.format(create=True))
    assert {**before, "made": topic} == connected
    assert epochs_of(settings) == recorded


def test_a_journal_of_an_earlier_version_does_not_serve_it_before_the_stream_has_started(
    settings: Settings, tmp_path: Path
) -> None:
    """Nothing is sent to a topic that is not there: the record obeys, whatever this version declares."""
    new = Beside(settings, tmp_path, (version_with_toys(tmp_path / "new"),))
    before = Beside(settings, tmp_path, (version_before(tmp_path / "before"),))
    assert before.python(MADE) == new.python(MADE) == ["catalog", "files", "access", "repositories"]
    catalog, refused = settings.journal.topics.journal("catalog"), ["unserved-domain", True]
    expected = {
        "domains": ["catalog", "files", "access", "repositories"], "toy": catalog, "odd": catalog, "box": refused,
        "made": refused, "unit": None, "changes": refused, "dataset": catalog,
    }  # fmt: skip
    assert new.python(CONNECTED.format(create=True)) == expected
    listed = new.command("domains", "--json").stdout
    assert '"not served yet"' in listed
    assert "has not joined it yet" in listed
    examined = new.command("doctor", "--json").stdout
    assert '"domain toys"' in examined
    assert settings.journal.topics.journal("toys") not in epochs_of(settings)
    assert before.python(CONNECTED.format(create=False))["toy"] == catalog
