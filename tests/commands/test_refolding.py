"""`verify` and `rebuild lake` on a running installation, and what they find on one that was tampered with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from metajournal.lake.declared import derived_tables, history_tables, tables_of
from metajournal.lake.tables import Lake
from metajournal.producers.topics import check_topics, ensure_topics
from metajournal.schemas.errors import StreamError
from metajournal.schemas.settings import Settings
from metajournal.streaming.rebuild import InProcess, Pool, Progress, rebuild_lake
from metajournal.streaming.verify import verify_lake
from tests.commands.test_on_services import said
from tests.installation import Installation
from tests.processes import running_stream
from tests.streaming.test_stream_kills import generated, with_stream
from tests.topics import folded_to_the_end, write
from tests.wait import eventually

pytestmark = pytest.mark.services


def test_an_installation_is_verified_rebuilt_beside_its_stream_and_verified_again(installation: Installation) -> None:
    for number in range(12):
        said(installation, "emit", "EntityRegistered", f"dataset:verified/n{number}", "--tag", f"t{number}")
    before = said(installation, "verify")
    assert before["ok"], before
    tables = {
        f"table-{name}" for name in (*history_tables(), *derived_tables(), *tables_of(["access", "repositories"]))
    }
    checked = {one["name"] for one in before["checks"]}
    assert checked == {"journal-in-kafka", "journal-once", "units", "outcomes", "index", *tables}
    rebuilt = said(installation, "rebuild", "lake")
    assert rebuilt["equal"]
    assert rebuilt["tables"]["entities"]["digest"] == rebuilt["tables"]["entities"]["before"]
    offline = installation.metajournal("rebuild", "lake", "--offline")
    assert (offline.returncode, "error[stream-runs]" in offline.stderr) == (1, True), offline.stderr
    after = said(installation, "emit", "TagsAdded", "dataset:verified/n3", "--tag", "later")
    assert after["outcome"] == "accepted"
    assert said(installation, "show", "dataset:verified/n3")["user"]["tags"] == ["later", "t3"]
    people = installation.metajournal("verify")
    assert people.returncode == 0
    assert "documents compared, none differing" in " ".join(people.stdout.split())
    assert "fold the journal again:" in people.stderr


def test_a_lake_is_rebuilt_from_kafka_journal_table_and_all(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    write(settings, generated(150))
    asked = with_stream(settings, max_events_per_batch=40, wide_events=25)
    with running_stream(asked, tmp_path / "stream.log") as process:
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold to the journal's end ({process.log})")
    epochs = check_topics(settings)
    with Pool() as pool:
        told: list[Progress] = []
        done = rebuild_lake(settings, epochs, pool, offline=True, from_kafka=True, say=told.append)
        assert done.equal
        assert told[-1].records == told[-1].of  # markers of transactions, which are no records, count on both sides
        assert set(done.digests) == {
            "journal",
            *history_tables(),
            *derived_tables(),
            *tables_of(["access", "repositories"]),
        }
        lake = Lake(settings.lake.path)
        assert lake.generation == 1
        checks = {one.name: one for one in verify_lake(settings, epochs, lake, pool)}
        assert all(one.ok for one in checks.values()), checks
    write(settings, generated(170)[150:])
    with running_stream(settings, tmp_path / "again.log") as process:
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold to the journal's end ({process.log})")


def test_tampering_is_found(settings: Settings, tmp_path: Path) -> None:
    ensure_topics(settings)
    write(settings, generated(60))
    with running_stream(settings, tmp_path / "stream.log") as process:
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold to the journal's end ({process.log})")
    lake = Lake(settings.lake.path)
    lake.tables["entities"].delta.update(updates={"actor": "'mallory'"}, predicate="seq = 0")
    lake.journal.delta.update(updates={"outcome": "'unchanged'"}, predicate="outcome = 'accepted'")
    found = {one.name: one for one in verify_lake(settings, check_topics(settings), lake, InProcess())}
    assert not found["table-entities"].ok
    assert not found["outcomes"].ok
    assert found["journal-once"].ok
    assert not list(Path(settings.lake.path).glob("aside-*"))
    elsewhere = replace(settings, lake=replace(settings.lake, path=str(tmp_path / "nothing")))
    with pytest.raises(StreamError, match="no journal table"):
        rebuild_lake(elsewhere, check_topics(settings), InProcess(), offline=True)
    assert json.loads(json.dumps(found["outcomes"].failures))
