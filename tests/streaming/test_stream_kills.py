"""The stream as a process: killed with -9 between any two steps, then started with other batches and no checkpoint."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from metajournal.indexer.documents import document_id, index_document
from metajournal.lake.entities import COLUMNS, row_from_dict
from metajournal.lake.tables import Lake
from metajournal.producers.topics import ensure_topics
from metajournal.schemas.settings import Settings
from metajournal.streaming.crash import POINTS
from tests.faults.scale import LONG
from tests.index import index_holds, shows_the_lake
from tests.model import JournalRecord, Model
from tests.processes import running_indexer, running_stream, stream
from tests.strategies import journals
from tests.topics import folded_to_the_end, journal_records, outcomes, seen, write
from tests.wait import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]


def generated(count: int) -> list[JournalRecord]:
    """A journal of at least this many records, the same at every run; a shorter one begins as a longer one does."""
    found: list[JournalRecord] = []
    for part in drawn():
        if len(found) >= count:
            return found
        found.extend(part)
    raise AssertionError(f"{len(found)} records are drawn, not {count}")


@cache  # drawing takes seconds
def drawn() -> list[list[JournalRecord]]:
    """Parts of a journal, in order."""
    drawn: list[list[JournalRecord]] = []

    @examples(max_examples=60, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(journals(), min_size=3, max_size=6))
    def take(parts: list[list[JournalRecord]]) -> None:
        drawn.append([record for part in parts for record in part])

    take()
    return drawn


def with_stream(settings: Settings, **changes: Any) -> Settings:
    return replace(settings, stream=replace(settings.stream, **changes))


def assert_all_equal(settings: Settings) -> None:
    """Tables, topics and index are what a plain in-memory fold of the journal gives."""
    names = settings.journal.topics
    model = Model.of(journal_records(settings), names.journal("catalog"))
    lake = Lake(settings.lake.path, settings.lake.storage_options)
    rows = lake.tables["entities"].query(COLUMNS, "true")
    assert sorted(map(row_from_dict, rows), key=str) == sorted(model.tables["entities"], key=str)
    for topic, published in (
        (names.changes("catalog"), model.user_changes),
        (names.annotations_system, model.system_changes),
        (names.state("catalog"), model.states),
    ):
        wanted = [
            (one.partition, one.position, one.seq, f"{one.tenant}/{one.urn}", one.system_time, one.document)
            for one in published
        ]
        assert [tuple(one) for one in seen(settings, topic)] == sorted(wanted, key=lambda one: one[:3])
    assert index_holds(settings) == {
        document_id(tenant, urn): {
            "entity": index_document(state)["entity"],
            "version": state["logical_timestamp"],
        }
        for (tenant, urn), state in model.documents.items()
    }
    journal = lake.journal.query("journal_partition, logical_timestamp, outcome, reason", "true")
    folded = {(one["journal_partition"], one["logical_timestamp"]): (one["outcome"], one["reason"]) for one in journal}
    assert len(journal) == len(folded)
    assert folded == {place: (said.outcome, said.data.get("reason")) for place, said in model.verdicts.items()}
    told = {
        (record["partition"], place): outcome
        for record in outcomes(settings)
        for place, outcome, *_ in record["verdicts"]
    }
    assert told == {place: said.outcome for place, said in model.verdicts.items() if said.outcome != "accepted"}


WAYS = {"short": {"wide_events": 1_000_000}, "wide": {"wide_events": 1}}


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_killed_at_every_step_in_turn_goes_on_without_loss_or_repetition(
    settings: Settings, tmp_path: Path, way: str
) -> None:
    """Each start has other batch sizes and a fresh checkpoint, and is killed at its second passing of one point.

    In short, each point has its turn in one of the ways.
    """
    ensure_topics(settings)
    points = POINTS if LONG else POINTS[list(WAYS).index(way) :: len(WAYS)]
    records = generated(40 * (len(points) + 1))
    for number, point in enumerate(points):
        write(settings, records[40 * number : 40 * (number + 1)])
        asked = with_stream(settings, crash_at=f"{point}:2", max_events_per_batch=13 + number, **WAYS[way])
        killed = stream(asked, tmp_path / f"{point}.log")
        assert killed.ended(90) == -9, (point, killed.tail())
    write(settings, records[40 * len(points) :])
    with running_stream(with_stream(settings, max_events_per_batch=11), tmp_path / "last.log") as last:
        eventually(lambda: folded_to_the_end(settings), 90, f"the fold to the journal's end ({last.log})")
        assert last.stop() == 0, last.tail()
    with running_indexer(settings, tmp_path / "indexer.log") as indexer:
        eventually(lambda: shows_the_lake(settings), 60, f"the index at the lake's marks ({indexer.log})")
    assert_all_equal(settings)
