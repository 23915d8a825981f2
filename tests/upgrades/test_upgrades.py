"""An installation that an earlier version left is taken over by one start, and refused where it was left in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from metajournal.client import Journal
from metajournal.domains.catalog.events import EntityRegistered, TagsAdded
from metajournal.domains.catalog.urns import dataset, run
from metajournal.domains.files.events import FilesRecorded
from metajournal.domains.files.urns import file_urn
from metajournal.domains.lineage.events import AccessesRecorded, RunStarted
from metajournal.indexer.connection import make_client
from metajournal.indexer.fill.compare import compare_index
from metajournal.indexer.mapping import check_mapping, concrete_of, mapping_digest
from metajournal.lake.declared import derived_tables, history_tables
from metajournal.lake.derived import wait_for_derived
from metajournal.lake.tables import Lake
from metajournal.producers.topics import check_topics
from metajournal.producers.verdicts import Accepted
from metajournal.rules.digest import digests_from, served_digests
from metajournal.schemas.settings import Settings
from metajournal.stack.supervisor import read_told
from metajournal.streaming.rebuild import InProcess
from metajournal.streaming.verify import verify_lake
from tests.archive import a_file
from tests.processes import running_indexer, running_stream, stream
from tests.upgrades.archive import HERE, Archive, settings_for
from tests.upgrades.folding import folded_all, shows_the_lake
from tests.upgrades.questions import answers
from tests.upgrades.restore import restore, restore_topics
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]

RELEASES = ("0.1.0",)
EXCLUDING = ("default: search NOT tags:pii", "acme: search NOT tags:pii")
"""Questions whose NOT was a word in 0.1.0's archives."""
_OTHER_RULES = """
from metajournal.rules import digest
digest.digest_of = lambda name: "0" * 64
"""
EVENTS: Sequence[Any] = (
    EntityRegistered(dataset("later", "invoices"), "What was sent", tags=["new"]),
    TagsAdded(dataset("later", "invoices"), ["checked"]),
    RunStarted(run("later", "App", "spark", "Job", "r1"), 5),
    AccessesRecorded(run("later", "App", "spark", "Job", "r1"), [(dataset("later", "invoices"), "write", 6)]),
    FilesRecorded([a_file(where="later", what="log", id="f1")]),
    TagsAdded(file_urn("later", "log", "f1"), ["checked"]),
)
"""Of every domain; nothing that the archives' questions ask about."""


@pytest.mark.parametrize("release", RELEASES)
def test_an_installation_of_an_earlier_version_is_taken_over_by_one_start(
    settings: Settings, tmp_path: Path, release: str
) -> None:
    archive = Archive(HERE / release)
    settings = settings_for(archive, settings)
    restore(archive, settings)
    before, index_before = tables(settings), concrete_index(settings)
    assert_verified(settings)
    epochs = check_topics(settings)
    with Journal.connect(settings) as journal:  # searches take the earlier version's index as it is
        assert_answered_as_before(archive.answers(), answers(journal))
    with (
        Journal.connect(settings) as journal,
        running_stream(settings, tmp_path / "stream.log") as folding,
        running_indexer(settings, tmp_path / "indexer.log") as indexer,
    ):
        receipts = [journal.emit(event, tenant="later") for event in EVENTS]
        assert [one.outcome(60) for one in receipts] == [Accepted(one.position) for one in receipts], folding.tail()
        eventually(lambda: folded_all(settings, epochs), 30, f"the fold to the journal's end ({folding.log})")
        eventually(lambda: shows_the_lake(settings, epochs), 30, f"the index at the lake's marks ({indexer.log})")
        derived = Lake(settings.lake.path)
        wait_for_derived(derived, derived_tables(), catalog_marks(settings), timeout_s=60)
        assert derived.tables["writes"].query("count(*) as n", "true")[0]["n"] > 1  # of before the upgrade, too
        assert journal.tags(dataset("later", "invoices"), tenant="later") == ("checked", "new")
        assert [hit.urn for hit in journal.search("tags:checked", tenant="later", sort="name").hits] == [
            file_urn("later", "log", "f1"),
            dataset("later", "invoices"),
        ]
        assert (folding.stop(), indexer.stop()) == (0, 0), folding.tail() + indexer.tail()
        assert_answered_as_before(archive.answers(), answers(journal))
    assert_verified(settings)
    assert tables(settings) == before
    client = make_client(settings)
    assert check_mapping(client, settings.elasticsearch.index) == concrete_index(settings)[0]
    client.close()
    of_now = archive.index().mappings["_meta"]["metajournal"]["digest"] == mapping_digest()
    assert (concrete_index(settings) == index_before) == of_now  # no index is rebuilt that need not be


@pytest.mark.parametrize("release", RELEASES)
def test_a_batch_that_an_earlier_version_left_unfinished_is_refused_by_other_rules_and_goes_on_under_its_own(
    settings: Settings, tmp_path: Path, release: str
) -> None:
    archive = Archive(HERE / f"{release}-killed")
    settings = settings_for(archive, settings)
    restore_topics(archive, settings)
    archive.unpack_lake(Path(settings.lake.path))
    lake = Lake(settings.lake.path)
    epochs = check_topics(settings)
    assert any(table.mark(key) > lake.journal.mark(key) for table in lake.histories for key in marked(settings))
    before = {table.name: table.delta.version() for table in (lake.journal, *lake.histories)}
    own = digests_from(archive.about.rules) == served_digests()
    refused = stream(settings, tmp_path / "refused.log", _OTHER_RULES if own else "")
    assert refused.ended(60) == 1, refused.tail()
    said = read_told(Path(settings.stack.home or "") / "stream.json") or {}
    assert said["state"] == "failed"
    assert said["message"].startswith("other-rules: Table 'entities' holds rows ahead of the journal table"), said
    assert said["mend"] == "Finish that batch with the version that started it, then upgrade."
    lake = Lake(settings.lake.path)
    assert {table.name: table.delta.version() for table in (lake.journal, *lake.histories)} == before
    if own:  # the release itself; a later one leaves it to that
        with running_stream(settings, tmp_path / "own.log") as folding:
            eventually(lambda: folded_all(settings, epochs), 30, f"the fold to the journal's end ({folding.log})")
        assert_lake_verified(settings)


def marked(settings: Settings) -> list[tuple[str, int]]:
    """Every journal partition."""
    return [(topic, number) for topic, one in check_topics(settings).items() for number in range(one.partitions)]


def catalog_marks(settings: Settings) -> dict[tuple[str, int], int]:
    lake = Lake(settings.lake.path)
    return {key: lake.journal.mark(key) for key in marked(settings) if key[0].endswith(".catalog")}


def tables(settings: Settings) -> dict[str, Any]:
    """Where the tables stand, which a rebuild would change."""
    lake = Lake(settings.lake.path)
    return {
        "generation": lake.generation,
        "tables": {
            name: (lake.tables[name].uri, lake.tables[name].delta.metadata().id)
            for name in (lake.journal.name, *history_tables())
        },
    }


def concrete_index(settings: Settings) -> tuple[str, str]:
    """The index that searches use, which a rebuild would change: its name and id."""
    client = make_client(settings)
    try:
        index = concrete_of(client, settings.elasticsearch.index)
        return index, client.indices.get(index=index)[index]["settings"]["index"]["uuid"]
    finally:
        client.close()


def assert_verified(settings: Settings) -> None:
    """What `metajournal verify` asks."""
    assert_lake_verified(settings)
    compared = compare_index(settings, wait_s=10)
    assert (compared.count, compared.ahead, compared.behind) == (0, 0, {}), compared.differences


def assert_lake_verified(settings: Settings) -> None:
    lake = Lake(settings.lake.path)
    checks = list(verify_lake(settings, check_topics(settings), lake, InProcess()))
    assert [(one.name, one.text, one.failures) for one in checks if not one.ok] == []


def assert_answered_as_before(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Each question as the earlier version answered it; one of them means something else since then."""
    assert {question for question, *_ in differing(wanted, found)} <= set(EXCLUDING)
    for question in EXCLUDING:
        total, hits, _ = found[question]
        assert total == len(hits) > 0
        assert all("pii" not in hit["user"]["tags"] + hit["system"]["tags"] for _, hit in hits)


def differing(wanted: dict[str, Any], found: dict[str, Any]) -> list[Any]:
    """Questions that are answered otherwise, with both answers; fields that were added since do not count."""
    answers = {question: _without_added(wanted.get(question), answer) for question, answer in found.items()}
    return [
        (question, wanted.get(question), answers.get(question))
        for question in sorted({*wanted, *answers})
        if wanted.get(question) != answers.get(question)
    ]


def _without_added(wanted: Any, answer: Any) -> Any:
    """An answer without what was added since: the `urn` of a lineage's nodes, and that a page withholds nothing and is
    final."""
    if isinstance(wanted, dict) and isinstance(answer, dict):
        is_node = {"id", "urn"} <= answer.keys() and "urn" not in wanted
        return {
            key: _without_added(wanted.get(key), value)
            for key, value in answer.items()
            if not (is_node and key == "urn")
        }
    if isinstance(wanted, list) and isinstance(answer, list) and answer[len(wanted) :] in ([False], [False, True]):
        answer = answer[: len(wanted)]
    if isinstance(wanted, list) and isinstance(answer, list) and len(wanted) == len(answer):
        return [_without_added(old, new) for old, new in zip(wanted, answer, strict=True)]
    return answer
