"""Files through the engine: tables and topics are the model's, whatever the batches and the way they are folded."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal import FilesRecorded, TagsAdded, file_urn
from metajournal.streaming.report import Report
from tests.archive import a_file, recordings
from tests.builders import header_for, record_of
from tests.model import JournalRecord, Model
from tests.properties import examples
from tests.streaming.harness import Fold, placed

TOPIC = "metajournal.journal.files"
PARTITIONS = 3
some = settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))


def journal_of(events: list[Any]) -> list[JournalRecord]:
    return placed([record_of(one, n, header=header_for(one, n + 1)) for n, one in enumerate(events)], PARTITIONS)


def assert_equal(fold: Fold, journal: list[JournalRecord]) -> None:
    """Both tables, and the three kinds of records that follow from them."""
    model = Model.of(journal, TOPIC)
    partitions = {(one.key or b"").decode(): one.partition for one in journal}

    def place(row: Any) -> tuple[int, int, int]:
        return partitions[f"{row.tenant}/{row.aggregate}"], row.logical_timestamp, row.seq

    for table in ("entities", "file_records"):
        assert fold.rows(table) == sorted(model.tables.get(table, []), key=place), table
    wanted = []
    newest: dict[str, Any] = {}
    for row in model.tables["entities"]:
        previous = newest.get(row.urn)
        if row.record != previous:
            document = {"file": row.urn, "previous": previous, "updated": row.record}
            document |= {"updateTime": row.system_time, "updater": row.actor}
            wanted.append((*place(row), f"{row.tenant}/{row.urn}", row.system_time, document))
        newest[row.urn] = row.record
    assert fold.topics.seen("metajournal.changes.files") == sorted(wanted, key=lambda one: one[:3])
    for topic, published in (
        ("metajournal.state.files", model.states),
        ("metajournal.changes.catalog", model.user_changes),
        ("metajournal.changes.catalog.system", model.system_changes),
    ):
        told = [
            (one.partition, one.position, one.seq, f"{one.tenant}/{one.urn}", one.system_time, one.document)
            for one in published
        ]
        assert fold.topics.seen(topic) == sorted(told, key=lambda one: one[:3]), topic


@pytest.mark.thorough
@given(st.lists(recordings(), min_size=1, max_size=12), st.data())
@some
def test_any_cut_into_batches_and_pieces_gives_the_tables_and_topics_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], data: st.DataObject
) -> None:
    journal = journal_of(events)
    fold = Fold(
        tmp_path_factory.mktemp("lake"), PARTITIONS, cache_rows=data.draw(st.sampled_from([1, 100])), topic=TOPIC
    )
    ends = sorted({0, len(journal), *data.draw(st.lists(st.integers(0, len(journal)), max_size=3))})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metajournal.streaming.engine._PIECE_BYTES", data.draw(st.sampled_from([1, 1500, 1 << 24])))
        patch.setattr("metajournal.fold.steps._BIT_BYTES", data.draw(st.sampled_from([1, 1500, 1 << 24])))
        patch.setattr("metajournal.fold.prior._KEYS_PER_QUERY", data.draw(st.sampled_from([1, 500])))
        patch.setattr("metajournal.fold.prior._MANY_MISSING", data.draw(st.sampled_from([1, 64])))
        patch.setattr("metajournal.domains.files.columns.documents.FEWEST", data.draw(st.sampled_from([1, 2, 32])))
        for _, end in pairwise(ends):
            if data.draw(st.booleans()):
                fold.start()
            fold.batch(journal, until=journal[:end], wide=data.draw(st.booleans()))
    assert_equal(fold, journal)


@pytest.mark.parametrize("wide", [False, True])
def test_change_records_name_their_kind_their_domain_their_file_and_their_place(tmp_path: Path, wide: bool) -> None:
    journal = journal_of(
        [FilesRecorded([a_file(), a_file(id="f2")]), TagsAdded(file_urn("nebraska", "nginx", "f1"), ["t"])]
    )
    fold = Fold(tmp_path, PARTITIONS, topic=TOPIC)
    fold.batch(journal, wide=wide)
    records = fold.topics.records
    partition, place = journal[0].partition, journal[0].position
    (found,) = [one for (topic, _), one in records.items() if topic == "metajournal.changes.files" and one]
    headers = [dict(one.headers) for one in found]
    assert [one["ce_type"] for one in headers] == [b"metajournal.files.FileChangeRecord"] * 2
    assert [one["ce_domain"] for one in headers] == [b"files"] * 2
    assert [one["ce_id"] for one in headers] == [f"{TOPIC}/{partition}/{place}/{seq}".encode() for seq in (0, 1)]
    assert headers[1]["ce_subject"] == b"file:nebraska/nginx/f2"
    assert {one.time_ms for one in found} == {journal[0].append_time}
    (tags,) = [one for (topic, _), one in records.items() if topic == "metajournal.changes.catalog" and one]
    (tagged,) = [dict(one.headers) for one in tags]
    assert (tagged["ce_type"], tagged["ce_domain"]) == (b"metajournal.catalog.MetadataChangeRecord", b"catalog")
    states = [one for (topic, _), some in records.items() if topic == "metajournal.state.files" for one in some]
    assert len(states) == 3
    assert not any("ce_domain" in dict(one.headers) for one in states)


@pytest.mark.thorough
def test_events_of_a_thousand_files_are_folded_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few events a batch has, the memory that it takes is bounded."""
    monkeypatch.setattr("metajournal.streaming.engine._PIECE_BYTES", 300_000)
    journal = journal_of([FilesRecorded([a_file(id=f"{one}-{two}") for two in range(1000)]) for one in range(5)])
    fold = Fold(tmp_path, PARTITIONS, topic=TOPIC)
    most = []
    commit = fold.engine._commit

    def noted(folding: Any) -> Report:
        report = commit(folding)
        most.append(report.rows)
        return report

    fold.engine._commit = noted  # type: ignore[method-assign]
    fold.batch(journal)
    assert sum(most) == 10_000
    assert max(most) <= 4_000
    assert len(fold.rows("file_records")) == 5_000
