"""The stream's driver, killed with -9 around compaction and around the swap of a rebuilt generation."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from metajournal.lake.tables import Lake
from metajournal.producers.topics import check_topics, ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.streaming.crash import SWAPPING, TIDYING
from metajournal.streaming.rebuild import InProcess, Rebuilt, rebuild_lake
from tests.faults.scale import LONG
from tests.index import shows_the_lake
from tests.processes import running_indexer, running_stream, stream
from tests.streaming.test_stream_kills import WAYS, assert_all_equal, generated, with_stream
from tests.topics import folded_to_the_end, write
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]
COMPACTING = [point for point in TIDYING if point.startswith("compact")]


def test_a_stream_killed_around_a_compaction_neither_loses_nor_doubles_a_row(
    settings: Settings, tmp_path: Path
) -> None:
    """Batches of a few events each leave many loose files, so that each start compacts."""
    ensure_topics(settings)
    points = COMPACTING if LONG else COMPACTING[1:2]
    records = generated(160 * len(points) + 20)
    for number, point in enumerate(points):
        write(settings, records[160 * number : 160 * (number + 1)])
        asked = with_stream(settings, crash_at=f"{point}:1", max_events_per_batch=4, **WAYS["short"])
        killed = stream(asked, tmp_path / f"{point}.log")
        assert killed.ended(180) == -9, killed.tail()
    write(settings, records[160 * len(points) :])
    with running_stream(settings, tmp_path / "last.log") as last:
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({last.log})")
        lake = Lake(settings.lake.path)
        eventually(lambda: compacted(lake), 60, "a finished compaction")
        assert last.stop() == 0, last.tail()
    indexed_and_equal(settings, tmp_path)


def compacted(lake: Lake) -> bool:
    """Whether a table was: how many of the batches left rows in the entities table depends on where they were cut."""
    lake.refresh()
    return any(table.delta.transaction_version("metajournal.compaction") for table in lake.tables.values())


def indexed_and_equal(settings: Settings, tmp_path: Path) -> None:
    with running_indexer(settings, tmp_path / "indexer.log") as indexer:
        eventually(lambda: shows_the_lake(settings), 60, f"the index at the lake's marks ({indexer.log})")
    assert_all_equal(settings)


@pytest.mark.parametrize("point", SWAPPING if LONG else SWAPPING[:1])
def test_a_stream_killed_around_the_swap_of_a_rebuilt_lake_goes_on_with_one_of_the_two(
    settings: Settings, tmp_path: Path, point: str
) -> None:
    ensure_topics(settings)
    records = generated(90)
    write(settings, records[:60])
    found: list[Rebuilt] = []
    killed = stream(with_stream(settings, crash_at=f"{point}:1", max_events_per_batch=20), tmp_path / "killed.log")
    eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({killed.log})")

    def rebuild() -> None:
        found.append(rebuild_lake(settings, check_topics(settings), InProcess(), offline=False))

    rebuilding = threading.Thread(target=rebuild)
    rebuilding.start()
    assert killed.ended(120) == -9, killed.tail()
    write(settings, records[60:])
    with running_stream(settings, tmp_path / "last.log") as last:
        eventually(lambda: folded_to_the_end(settings), 120, f"the fold to the journal's end ({last.log})")
        eventually(lambda: bool(found), 60, "a rebuild that was taken over")
        assert last.stop() == 0, last.tail()
    rebuilding.join()
    assert found[0].equal
    assert Lake(settings.lake.path).generation == 1
    indexed_and_equal(settings, tmp_path)
