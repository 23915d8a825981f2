"""Rows that a follower keeps of repositories: those that the stream writes, of all tables, as far as they are kept."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metajournal.consumers import facts, foretelling
from metajournal.consumers.facts import KeptFacts
from metajournal.consumers.foretelling import Foretold
from metajournal.consumers.pins import Pin
from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.fold.records import Place
from metajournal.lake.tables import Lake
from metajournal.lake.views.views import Views
from metajournal.schemas.encoding import codec
from metajournal.schemas.hashing import digest, record_key
from metajournal.schemas.positions import position
from tests.builders import header_for, record_of
from tests.consumers.test_foretelling import messages
from tests.properties import examples
from tests.repositories.operations import operations
from tests.repositories.plain_model import Refs
from tests.streaming.harness import Fold

TOPIC = "metajournal.journal.repositories"
KEYS = {name: record_key("default", f"repo:{name}") for name in ("r1", "r2")}
REPO, MAIN = repository_urn("r1"), branch_urn("r1", "main")
OBJECT = {"path": "a", "size": 3, "checksum": "c1", "address": "s3://b/1"}
TABLES = ("branches", "commits", "objects", "resets")


def pin_of(lake: Lake) -> Pin:
    view = Views(lake).take()
    mark = max(view.journal.mark((TOPIC, 0)), position(1, 0))
    return Pin(view, Place(TOPIC, 0, 1, "repositories", frozenset()), 1, mark, view.journal.clock((TOPIC, 0)))


@pytest.mark.thorough
@settings(max_examples=examples(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_rows_of_every_table_are_those_that_the_stream_writes(data: st.DataObject) -> None:
    """Any operations on two repositories, any mark, any portions and bits; both keys followed, or one."""
    refs, events = Refs(), []
    for number in range(data.draw(st.integers(1, 20))):
        event = data.draw(operations(refs))
        refs.judge(event, digest(codec.encode(event, header_for(event, number))))
        events.append(event)
    journal = [record_of(event, number) for number, event in enumerate(events)]
    cut = data.draw(st.integers(0, len(journal)))
    followed = data.draw(st.sets(st.sampled_from(sorted(KEYS)), min_size=1))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(foretelling, "_JUDGED_BYTES", data.draw(st.sampled_from([1, 500, 1 << 20])))
        fold = Fold(Path(folder), 1, topic=TOPIC, joined=("repositories",))
        fold.batch(journal, until=journal[:cut])
        foretold = Foretold(pin_of(Lake(folder)), [KEYS[name] for name in followed])
        fold.batch(journal)
        tail = journal[cut:]
        while tail:
            size = data.draw(st.integers(1, len(tail)))
            foretold.take(messages(tail[:size]))
            tail = tail[size:]
        written = {table: fold.rows(table) for table in TABLES}
        for name in followed:
            begin, rows = foretold.facts(KEYS[name], None)
            assert begin == position(1, cut)
            for table in TABLES:
                own = [row for row in written[table] if row.aggregate == f"repo:{name}"]
                assert _values(rows.get(table, [])) == _values(own, begin)
        assert foretold.facts(KEYS["r1"], ["branches"])[1].keys() <= {"branches"}


def _values(rows: list[Any], begin: int = 0) -> list[tuple[Any, ...]]:
    """What rows hold, whether their lists are tuples or not."""
    return [tuple(map(_plain, row)) for row in rows if row.logical_timestamp >= begin]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    return value


def test_of_objects_the_newest_events_rows_are_kept_and_of_refs_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foretelling, "KeptFacts", lambda begin: KeptFacts(begin, 5))
    assert facts.MOST_UNREAD == 50_000
    Fold(tmp_path, 1, topic=TOPIC, joined=("repositories",))
    foretold = Foretold(pin_of(Lake(str(tmp_path))), [KEYS["r1"]])
    written = [e.ObjectsWritten(MAIN, [{**OBJECT, "path": f"{n}/{of}"} for of in range(2)]) for n in range(4)]
    events = [e.RepositoryCreated(REPO, "main", "s3://b"), *written, e.Committed(MAIN, "m")]
    foretold.take(messages([record_of(event, number) for number, event in enumerate(events)]))
    begin, rows = foretold.facts(KEYS["r1"], None)
    assert begin == position(1, 3)
    assert [row.path for row in rows["objects"]] == ["2/0", "2/1", "3/0", "3/1"]
    assert len(rows["branches"]) == len(events) + 1  # the first is of the repository and of its branch
    assert [row.logical_timestamp for row in rows["commits"]] == [position(1, 5)]
    assert foretold.facts(KEYS["r1"], ["commits", "branches"])[0] == position(1, 0)
