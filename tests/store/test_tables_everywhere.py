"""The how-to for Spark, duckdb and polars runs as it stands, over a lake on disk and over the same in a store."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from metajournal import EntityDeleted, EntityRegistered, TagsAdded, dataset
from metajournal.lake.storage.store import replace_object, store_files
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.stack.s3proxy import ObjectStore
from metajournal.streaming.rebuild import InProcess, rebuild_lake
from tests.streaming.harness import TOPIC, Fold
from tests.streaming.test_engine import PARTITIONS, journal_of

pytestmark = [pytest.mark.services, pytest.mark.long]
ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to" / "read-the-tables.md"
ENGINES = ("duckdb", "polars", "spark")
ORDERS, SHOPS, GONE = (dataset("default", name) for name in ("orders", "shops", "gone"))
WANTED = [(str(ORDERS), ["daily", "pii"]), (str(SHOPS), [])]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake that was rebuilt, so that its tables are not where they were at first."""
    fold = Fold(tmp_path / "lake", PARTITIONS)
    events = [EntityRegistered(ORDERS, tags=["pii"]), EntityRegistered(SHOPS), EntityRegistered(GONE)]
    fold.batch(journal_of(*events, TagsAdded(ORDERS, ["daily"]), EntityDeleted(GONE)))
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", PARTITIONS)})
    assert rebuild_lake(fold.settings, epochs, InProcess(), offline=True).generation == 1
    (fold.path / "entities").rename(fold.path / "not-here-any-more")
    return Path(fold.path)


def blocks() -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", HOW_TO.read_text("utf-8"), re.M | re.S))


def run(program: list[str], lake: str, **more: str) -> str:
    short_lived = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    environment = {**os.environ, "LAKE": lake, "JDK_JAVA_OPTIONS": short_lived, **more}
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def check(printed: str) -> None:
    lines = [line.partition(" ") for line in printed.splitlines() if line.startswith(ENGINES)]
    assert tuple(engine for engine, _, _ in lines) == ENGINES
    for engine, _, rows in lines:
        seen = [(urn, sorted(tags)) for urn, tags in ast.literal_eval(rows)]
        assert seen == WANTED, engine


def test_all_engines_read_the_tables_on_disk(lake: Path) -> None:
    check(run([sys.executable, "-c", blocks()], str(lake)))


def test_all_engines_and_examples_read_the_tables_in_a_store(lake: Path, place: str, store: ObjectStore) -> None:
    files = store_files(place, store.options)
    for path in lake.rglob("*"):
        if path.is_file():
            replace_object(files, path.relative_to(lake).as_posix(), path.read_bytes())
    check(run([sys.executable, "-c", blocks()], place, **store.options))
    for example in ("duckdb_tables.py", "polars_tables.py"):
        program = [sys.executable, str(ROOT / "examples" / example), place]
        assert run(program, place, **store.options).startswith("2 current entities"), example
