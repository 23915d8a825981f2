"""Rebuilds of the history tables: the journal table alone gives the same rows again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.lake.digest import table_digest
from metajournal.lake.tables import Table
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.streaming.rebuild import InProcess, LakeRebuild, Progress
from tests.model import JournalRecord, Model
from tests.strategies import journals
from tests.streaming.harness import TOPIC, Fold
from tests.streaming.test_engine import PARTITIONS, assert_equal

many = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


def rebuild(fold: Fold, said: list[Progress] | None = None) -> LakeRebuild:
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", PARTITIONS)}, fold.shelved)
    target = Table("entities", str(fold.path / "gen-1" / "entities"), {})
    target.create()
    say: Any = (lambda progress: None) if said is None else said.append
    return LakeRebuild(fold.settings, epochs, fold.lake, {"entities": target}, 1, InProcess(), say)


@given(journals(partitions=PARTITIONS), st.data())
@many
def test_a_rebuild_in_rounds_of_any_size_killed_between_any_two_gives_the_same_digest(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord], data: st.DataObject
) -> None:
    fold = Fold(tmp_path_factory.mktemp("lake"), PARTITIONS)
    middle = data.draw(st.integers(0, len(journal)))
    fold.batch(journal, until=journal[:middle], wide=data.draw(st.booleans()))
    fold.batch(journal, wide=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        fold.lake.journal.compact()
    for records in data.draw(st.lists(st.integers(1, 4), max_size=3)):
        killed = rebuild(fold)
        killed.round(fold.engine.marks, records)
    said: list[Progress] = []
    rebuilt = rebuild(fold, said).run()
    assert rebuilt.equal
    assert rebuilt.marks == fold.engine.marks
    assert rebuilt.digests["entities"] == rebuilt.live["entities"]
    assert rebuilt.digests["entities"] == table_digest(fold.lake.tables["entities"].delta, fold.engine.marks)
    assert said[-1].records == said[-1].of == rebuilt.records == len(fold.journal())
    assert_equal(fold, Model.of(journal))
    rows = (
        rebuild(fold)
        ._target["entities"]
        .sql("select * from entities order by journal_partition, logical_timestamp, seq")
    )
    live = fold.lake.tables["entities"].sql("select * from entities order by journal_partition, logical_timestamp, seq")
    assert rows.to_pylist() == live.to_pylist()


@given(journals(partitions=PARTITIONS, max_records=12))
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_rebuild_does_without_the_history_tables_and_tells_of_other_rows(
    tmp_path_factory: pytest.TempPathFactory, journal: list[JournalRecord]
) -> None:
    path: Path = tmp_path_factory.mktemp("lake")
    fold = Fold(path, PARTITIONS)
    fold.batch(journal)
    entities = fold.lake.tables["entities"]
    digest = table_digest(entities.delta, fold.engine.marks)
    entities.delta.delete("seq >= 0")
    found = rebuild(fold).run()
    assert found.digests["entities"] == digest
    assert found.equal == (not fold.lake.tables["entities"].sql("select 1 from entities").num_rows
                           and not Model.of(journal).tables["entities"])  # fmt: skip
    (path / "entities").rename(path / "gone")
    fold.lake.tables["entities"] = Table("entities", str(path / "entities"), {})
    found = rebuild(fold).run()
    assert found.live == {"entities": None}
    assert found.equal
    assert found.digests["entities"] == digest
