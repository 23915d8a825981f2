"""Derived tables beside a real stream: killed at their steps, faulty, rebuilt, verified, asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metajournal.client import Journal
from metajournal.domains.catalog.urns import dataset, run
from metajournal.domains.lineage.events import AccessesRecorded
from metajournal.lake.derived import wait_for_derived
from metajournal.lake.tables import Lake
from metajournal.producers.topics import check_topics, ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.streaming.rebuild import InProcess, rebuild_lake
from metajournal.streaming.verify import verify_lake
from tests.processes import running_stream, stream
from tests.streaming.test_stream_kills import with_stream
from tests.topics import folded_to_the_end
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]
DATA = dataset("shop", "orders")


def emit(settings: Settings, first: int) -> None:
    with Journal.connect(settings) as journal:
        for number in range(first, first + 8):
            who = run("shop", f"App{number % 3}", "spark", "Job", f"r{number}")
            journal.emit(AccessesRecorded(who, [(DATA, "write", 100 + number), (DATA, "read", 900)]))
        journal.flush()


def derived(settings: Settings) -> list[dict[str, Any]]:
    file = Path(settings.stack.home or "") / "stream.json"
    told: list[dict[str, Any]] = json.loads(file.read_text()).get("derived", []) if file.exists() else []
    return told


def test_derived_tables_are_made_beside_a_stream_that_is_killed_faulty_and_rebuilt(
    settings: Settings, tmp_path: Path
) -> None:
    ensure_topics(settings)
    emit(settings, 0)
    for number, point in enumerate(("derive-before-commit", "derive-after-commit")):
        killed = stream(with_stream(settings, crash_at=f"{point}:1", wide_events=1 + number * 1_000), tmp_path / point)
        assert killed.ended(90) == -9, (point, killed.tail())
    epochs = check_topics(settings)
    keys = [(topic, partition) for topic, one in epochs.items() for partition in range(one.partitions)]
    catalog = [key for key in keys if key[0].endswith(".catalog")]
    emit(settings, 8)
    faulty = with_stream(settings, crash_at="derive-after-files:1")
    with running_stream(faulty, tmp_path / "faulty.log") as process:
        eventually(
            lambda: any("why" in one for one in derived(settings)), 90, f"the fault in the status ({process.log})"
        )
        emit(settings, 16)
        eventually(lambda: folded_to_the_end(settings), 60, f"the fold goes on ({process.log})")
        assert "its process ended 3 times in a row" in derived(settings)[0]["why"]
    with running_stream(settings, tmp_path / "last.log") as process, Journal.connect(settings) as journal:
        lake = Lake(settings.lake.path)
        lake.refresh()
        wanted = {key: lake.journal.mark(key) for key in catalog}
        wait_for_derived(lake, ["writes"], wanted, timeout_s=60)
        assert (journal.lineage.latest_write(DATA) or {})["at"] == 123
        rows = lake.tables["writes"].query("run", "true")
        assert len(rows) == len({row["run"] for row in rows}) == 24
        emit(settings, 24)
        assert rebuild_lake(settings, epochs, InProcess(), offline=False).equal
        assert Lake(settings.lake.path).tables["writes"].uri.endswith("gen-1/writes")
        emit(settings, 32)
        eventually(lambda: folded_to_the_end(settings), 60, f"the fold to the journal's end ({process.log})")
        lake.refresh()
        wait_for_derived(lake, ["writes"], {key: lake.journal.mark(key) for key in catalog}, timeout_s=60)
        assert (journal.lineage.latest_write(DATA) or {})["at"] == 139
        checks = {one.name: one for one in verify_lake(settings, epochs, Lake(settings.lake.path), InProcess())}
        assert "table-writes" in checks
        assert all(one.ok for one in checks.values()), checks
        assert process.stop() == 0, process.tail()
