"""The Journal in a user's hands: connecting, emitting, asking; and what it says when something is missing."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from metajournal import EntityDeleted, Journal, RejectedError, Settings, TagsAdded, UnavailableError, dataset
from metajournal.client import Metadata
from metajournal.producers.topics import Epochs
from metajournal.rules.entity import EntityRow
from metajournal.schemas.errors import (
    ConfigError,
    InputError,
    KafkaUnavailableError,
    MissingExtraError,
    TopicMismatchError,
)
from tests.producers.published import publish_changes, publish_outcome

PURCHASES = dataset("default", "purchases")


def test_without_topics_connecting_says_what_to_run(settings: Settings) -> None:
    with pytest.raises(TopicMismatchError) as caught:
        Journal.connect(settings)
    assert "create_topics=True" in caught.value.hint


def test_an_event_goes_its_whole_way(settings: Settings) -> None:
    with Journal.connect(settings, create_topics=True) as journal:
        receipt = journal.emit(TagsAdded(PURCHASES, ["pii"]))
        position = receipt.position
        verdict = [position.value, "rejected", {"reason": "unknown-entity", "detail": {"urn": PURCHASES}}]
        publish_outcome(settings, position, position.value + 1, receipt.system_time, [verdict])
        outcome = receipt.outcome(timeout_s=10)
        with pytest.raises(RejectedError) as caught:
            outcome.raise_if_rejected()
        assert (caught.value.reason, caught.value.position) == ("unknown-entity", position)
        after = type(position)(position.topic, position.partition, position.value + 1)
        publish_changes(settings, [(after, 0, receipt.system_time, PURCHASES)])
        [change] = journal.changes("catalog", since=position, timeout_s=10, limit=1)
        assert (change.urn, change.position) == (PURCHASES, after)


def test_settings_can_be_said_in_the_call(settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("METAJOURNAL_HOME", str(tmp_path))
    monkeypatch.setenv("METAJOURNAL__JOURNAL__ACTOR", "environment")
    said: dict[str, Any] = {"journal": {"prefix": settings.journal.prefix}, "kafka": dict(settings.kafka)}
    with Journal.connect(create_topics=True, **said) as journal:
        assert journal.settings.journal.actor == "environment"
        assert journal.emit(TagsAdded(PURCHASES, ["x"])).position.topic == settings.journal.topics.journal("catalog")


def test_closing_waits_for_what_was_emitted(settings: Settings) -> None:
    with Journal.connect(settings, create_topics=True) as journal:
        receipts = [journal.emit(TagsAdded(PURCHASES, [f"t{number}"])) for number in range(500)]
    assert all(receipt.acknowledged for receipt in receipts)
    journal.close()


def test_reading_an_absent_lake_is_unavailable_and_never_empty(settings: Settings) -> None:
    with Journal.connect(settings, create_topics=True) as journal:
        for read in (journal.show, journal.history, journal.metadata, journal.properties, journal.tags):
            with pytest.raises(UnavailableError, match="no lake"):
                read(PURCHASES)


@pytest.mark.thorough
def test_a_broker_that_is_not_there_is_said_within_the_asked_time() -> None:
    start = time.monotonic()
    with pytest.raises(KafkaUnavailableError, match="No Kafka broker answers"):
        Journal.connect(Settings(kafka={"bootstrap.servers": "127.0.0.1:1"}), connect_timeout_s=1.0)
    assert time.monotonic() - start < 4.5


def test_a_search_on_a_closed_journal_says_that_it_is_closed() -> None:
    journal = Journal(Settings(), Epochs({}))
    journal.close()
    for call in (journal.search, journal.suggest_names, journal.suggest_keys):
        with pytest.raises(InputError, match="closed"):
            call("x")


def test_a_closed_journal_is_closed_for_every_question() -> None:
    journal = Journal(Settings(), Epochs({}))
    journal.close()
    for call in (journal.show, journal.history, journal.lineage.of, journal.changes, journal.states, journal.__enter__):
        with pytest.raises(InputError, match="The journal is closed"):
            call(*(() if call in (journal.changes, journal.states, journal.__enter__) else (PURCHASES,)))
    with pytest.raises(InputError, match="The journal is closed"):
        journal.files.latest("a", "b")
    with pytest.raises(InputError, match="The journal is closed"):
        journal.emit(EntityDeleted(PURCHASES))
    with pytest.raises(InputError, match="The journal is closed"):
        journal.unit()


def test_old_names_answer_with_the_new_ones() -> None:
    journal: Any = Journal(Settings(), Epochs({}))
    renamed = {
        "record_files": "files.record", "files_page": "files.page", "latest_file": "files.latest", "run": "lineage.run",
        "runs": "lineage.runs", "accesses": "lineage.accesses", "latest_write": "lineage.latest_write",
        "lineage_runs": "lineage.runs_in",
    }  # fmt: skip
    for old, new in renamed.items():
        with pytest.raises(InputError, match=rf"^journal\.{old} has been renamed to journal\.{new}\.") as caught:
            getattr(journal, old)
        assert caught.value.code == "renamed"
        domain, _, name = new.partition(".")
        assert callable(getattr(getattr(journal, domain), name))
    for call, new in ((journal.files, "files.find"), (journal.lineage, "lineage.of")):
        with pytest.raises(InputError, match=rf"has been renamed to journal\.{new}\(…\)"):
            call(PURCHASES, start=0)
    for ask in (journal.files.find, journal.files.page, journal.files.latest):
        with pytest.raises(InputError, match=rf"The argument at of {ask.__name__} has been renamed to as_at"):
            ask(at=0)
    assert not hasattr(journal, "runs")
    with pytest.raises(AttributeError, match="'Journal' object has no attribute 'file'"):
        _ = journal.file


def test_wrong_settings_are_refused_before_anything_is_connected() -> None:
    with pytest.raises(ConfigError, match="There is no setting"):
        Journal.connect(client={"queue_event": 1})
    with pytest.raises(InputError, match="settings or overrides"):
        Journal.connect(Settings(), client={"queue_events": 1})


class OneEntity:
    """A lake that knows one entity."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def current(self, tenant: str, urn: str) -> Any:
        assert (tenant, urn) == ("default", PURCHASES)
        return type("Answer", (), {"row": self._row})

    as_at = current


class NeverWritten:
    """Lineage that knows of no write."""

    def latest_write(self, tenant: str, question: Any, *, as_at: Any = None) -> None:
        return None


def test_metadata_is_given_by_scope_or_merged() -> None:
    row = _row(user=({"owner": "alice", "a": "1"}, ("pii",)), system=({"a": "2", "schema": "x"}, ("hot", "pii")))
    journal = Journal(Settings(), epochs=None)  # type: ignore[arg-type]  # no topic is asked
    journal._handles.lake = OneEntity(row)  # type: ignore[assignment]
    journal._handles.own["lineage"] = NeverWritten()
    user, system = Metadata(*_pair(row, "user")), Metadata(*_pair(row, "system"))
    assert journal.metadata(str(PURCHASES)) == {"USER": user, "SYSTEM": system}
    assert journal.properties(PURCHASES, "SYSTEM") == {"a": "2", "schema": "x"}
    assert journal.properties(PURCHASES) == {"a": "1", "schema": "x", "owner": "alice"}
    assert journal.tags(PURCHASES) == ("hot", "pii")
    assert journal.tags(PURCHASES, "USER") == ("pii",)
    for read in (journal.tags, journal.properties, journal.metadata):
        with pytest.raises(InputError, match="USER, SYSTEM or BOTH"):
            read(PURCHASES, "ALL")
    assert journal.metadata(PURCHASES, scope="USER") == user
    assert journal.metadata(PURCHASES, "SYSTEM") == system
    assert journal.metadata(PURCHASES, "BOTH") == (journal.properties(PURCHASES), journal.tags(PURCHASES))
    assert journal.metadata(PURCHASES, scope=None) == {"USER": user, "SYSTEM": system}


def _pair(row: EntityRow, scope: str) -> tuple[dict[str, str], tuple[str, ...]]:
    return getattr(row, f"{scope}_properties"), getattr(row, f"{scope}_tags")


def _row(user: Any, system: Any) -> EntityRow:
    return EntityRow(
        tenant="default", urn=str(PURCHASES), kind="dataset", namespace="default", name="purchases",
        aggregate=str(PURCHASES), logical_timestamp=1, seq=0, system_time=1, event_time=1, event_id="x", actor=None,
        deleted=False, record=None, user_properties=user[0], user_tags=user[1], system_properties=system[0],
        system_tags=system[1],
    )  # fmt: skip


def test_a_missing_package_is_told_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("metajournal.lake.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    journal = Journal(Settings(), epochs={})  # type: ignore[arg-type]
    with pytest.raises(MissingExtraError, match="lake") as caught:
        journal.show(PURCHASES)
    assert "metajournal[lake]" in caught.value.hint


def test_the_light_client_meets_no_heavy_package() -> None:
    heavy = ("deltalake", "duckdb", "pandas", "polars", "pyarrow", "pyspark", "delta", "numpy", "elasticsearch")
    code = f"import sys, metajournal; metajournal.Journal; print([one for one in {heavy!r} if one in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (found.stdout.strip(), found.stderr) == ("[]", "")
