"""The examples run: the tables open as they are in duckdb, polars and Spark SQL, and all three say the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from metajournal import EntityDeleted, EntityRegistered, TagsAdded, TagsRemoved, dataset
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.streaming.rebuild import InProcess, rebuild_lake
from tests.installation import Installation
from tests.streaming.harness import TOPIC, Fold
from tests.streaming.test_engine import PARTITIONS, journal_of

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
ORDERS, SHOPS, GONE = (dataset("default", name) for name in ("orders", "shops", "gone"))


@pytest.fixture
def fold(tmp_path: Path) -> Fold:
    """Two current entities, three tags, and one entity that is gone with its tag."""
    fold = Fold(tmp_path / "lake", PARTITIONS)
    events = [
        EntityRegistered(ORDERS, tags=["pii", "daily"]), EntityRegistered(SHOPS, tags=["daily", "old"]),
        EntityRegistered(GONE, tags=["never-counted"]), TagsAdded(ORDERS, ["checked"]), TagsRemoved(SHOPS, ["old"]),
        EntityDeleted(GONE),
    ]  # fmt: skip
    fold.batch(journal_of(*events))
    return fold


def run(example: str, *words: str) -> list[str]:
    command = [sys.executable, str(EXAMPLES / example), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check(lines: list[str]) -> None:
    assert lines[0] == "2 current entities"
    tags = {line.split()[0]: sorted(line.split("  ")[-1].split(", ")) for line in lines[1:3]}
    assert tags == {str(ORDERS): ["checked", "daily", "pii"], str(SHOPS): ["daily"]}
    history = lines[lines.index(f"history of {SHOPS}") + 1 : lines.index("tags by count")]
    assert [line.split("  ")[-1] for line in history] == ["daily, old", "daily"]
    counted = lines[lines.index("tags by count") + 1 :]
    assert counted == ["  2  daily", "  1  checked", "  1  pii"]


@pytest.mark.thorough
@pytest.mark.parametrize("example", ["duckdb_tables.py", "polars_tables.py"])
def test_the_tables_open_as_they_are_also_after_a_rebuild(fold: Fold, example: str) -> None:
    check(run(example, str(fold.path), "--urn", SHOPS))
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", PARTITIONS)})
    assert rebuild_lake(fold.settings, epochs, InProcess(), offline=True).generation == 1
    check(run(example, str(fold.path), "--urn", SHOPS))
    assert f"history of {ORDERS}" in run(example, str(fold.path))


@pytest.mark.thorough
@pytest.mark.parametrize("example", ["duckdb_tables.py", "polars_tables.py", "spark_tables.py"])
def test_a_lake_that_is_not_there_is_said(tmp_path: Path, example: str) -> None:
    command = [sys.executable, str(EXAMPLES / example), str(tmp_path / "nowhere")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no lake with entities at" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.services
def test_spark_sql_opens_the_tables_as_they_are(fold: Fold) -> None:
    check(run("spark_tables.py", str(fold.path), "--urn", SHOPS))


@pytest.mark.services
def test_what_is_emitted_is_found_followed_and_in_the_configured_lake(installation: Installation) -> None:
    emitted = installation.run(sys.executable, str(EXAMPLES / "emit_and_search.py"), "parcels")
    assert emitted.returncode == 0, emitted.stderr
    assert "Accepted" in emitted.stdout
    assert "dataset:examples/parcels" in emitted.stdout
    assert emitted.stdout.splitlines()[-1] == "('daily',)"
    followed = installation.run(sys.executable, str(EXAMPLES / "subscriber.py"), "of-the-examples", "3")
    assert followed.returncode == 0, followed.stderr
    assert len(followed.stdout.splitlines()) == 3
    again = installation.run(sys.executable, str(EXAMPLES / "subscriber.py"), "of-the-examples", "1")
    assert again.stdout.splitlines()[:1] != followed.stdout.splitlines()[:1]
    tables = installation.run(sys.executable, str(EXAMPLES / "duckdb_tables.py"), "--urn", "dataset:examples/parcels")
    assert "  daily" in tables.stdout, tables.stderr


def test_every_example_is_in_the_list() -> None:
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert [one.name for one in EXAMPLES.glob("*.py") if f"({one.name})" not in listed] == []
