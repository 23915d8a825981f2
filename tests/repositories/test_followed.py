"""`why` of events of repositories: every row that one made is told, in whichever table it stands."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from metajournal import Position, Settings, tracing, values
from metajournal.commands.trace_views import trace_view
from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.gateway.templates import environment
from metajournal.lake import scan
from metajournal.lake.declared import SPECS, histories_in
from metajournal.lake.tables import Lake
from metajournal.lake.views.views import Views, whole_view
from metajournal.producers.topics import Epochs, TopicEpoch
from metajournal.schemas.positions import position
from metajournal.terminal.consoles import PatientConsole
from metajournal.tracing import MOST_ROWS, Step, Trace, trace
from tests.builders import record_of
from tests.streaming.harness import Fold

TOPIC = "metajournal.journal.repositories"
REPO, MAIN = repository_urn("r1"), branch_urn("r1", "main")
MANY = 1_000


@pytest.fixture(autouse=True)
def _without_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index is asked."""
    monkeypatch.setattr(tracing, "_index", lambda _: lambda _: tracing.Seen(None, None, "not asked"))


def written(*paths: str) -> Any:
    return e.ObjectsWritten(
        MAIN, [{"path": path, "size": 3, "checksum": path, "address": "s3://b/1"} for path in paths]
    )


def folded(folder: Path, *batches: list[Any]) -> Path:
    """A lake of one journal partition: the n-th event stands at offset n."""
    fold = Fold(folder, 1, topic=TOPIC, joined=("repositories",))
    records: list[Any] = []
    for events in batches:
        records += [record_of(event, len(records) + number) for number, event in enumerate(events)]
        fold.batch(records)
    return folder


def followed(folder: Path, number: int) -> Trace:
    epochs = Epochs({TOPIC: TopicEpoch(TOPIC, 1, "id", 1)})
    return trace(
        Settings(), lambda: epochs, whole_view(Views(Lake(str(folder)))), Position(TOPIC, 0, position(1, number))
    )


def drawn(told: Trace) -> str:
    out = io.StringIO()
    PatientConsole(file=out, width=160, highlight=False, markup=False).print(trace_view(values.trace_json(told)))
    return out.getvalue()


def keys_of(step: Step, table: str) -> list[dict[str, Any]]:
    return [row.key for row in step.rows if row.table == table]


def test_all_rows_of_an_event_are_told_also_those_that_no_rule_reads(tmp_path: Path) -> None:
    events = [e.RepositoryCreated(REPO, "main", "s3://b"), written("a", "b"), e.ObjectsDeleted(MAIN, ["a"])]
    folder = folded(tmp_path, [*events, e.Committed(MAIN, "first"), written("a"), e.BranchReset(MAIN, path="a")])
    created, wrote, deleted, committed, _, reset = (followed(folder, number).steps[0] for number in range(6))
    assert created.row_counts == {"entities": 2, "branches": 2}
    staging = position(1, 0)
    assert wrote.row_counts == {"branches": 1, "objects": 2}
    assert keys_of(wrote, "objects") == [{"repo": "r1", "staging": staging, "path": path} for path in "ab"]
    assert [(row.key["path"], row.deleted) for row in deleted.rows if row.table == "objects"] == [("a", True)]
    assert committed.row_counts == {"entities": 2, "branches": 1, "commits": 1}
    [commit] = keys_of(committed, "commits")
    assert {"urn": commit["commit"]} in keys_of(committed, "entities")
    assert reset.row_counts == {"branches": 1, "resets": 1}
    assert "It produced no row." not in drawn(followed(folder, 1))
    assert len({row.logical_timestamp for row in wrote.rows}) == 1


def test_of_a_bulk_event_each_table_has_a_count_and_its_first_rows(tmp_path: Path) -> None:
    paths = [f"p{number:04}" for number in range(MANY)]
    folder = folded(tmp_path, [e.RepositoryCreated(REPO, "main", "s3://b"), written(*paths)])
    told = followed(folder, 1)
    assert [key["path"] for key in keys_of(told.steps[0], "objects")] == paths
    [place] = values.trace_json(told)["places"]
    assert place["row_counts"] == {"branches": 1, "objects": MANY}
    assert Counter(row["table"] for row in place["rows"]) == {"branches": 1, "objects": MOST_ROWS}
    assert [row["key"]["path"] for row in place["rows"][1:]] == paths[:MOST_ROWS]
    text = drawn(told)
    assert (text.count("p000"), "and 990 more of 1,000" in text) == (MOST_ROWS, True)
    parts: Any = environment((), "/assets").get_template("parts.html").module
    page = parts.event_rows(told.steps[0])
    assert (page.count("p000"), "1 row in branches, 1000 rows in objects" in page) == (MOST_ROWS, True)


def test_of_each_table_only_the_files_that_can_hold_the_position_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = [[e.RepositoryCreated(REPO, "main", "s3://b")], *([written(f"p{number}")] for number in range(11))]
    folder = folded(tmp_path, *begun)
    opened: dict[str, list[str]] = {}
    source = scan.source

    def counted(cursor: Any, table: Any, paths: list[str]) -> str:
        opened.setdefault(Path(table.uri).name, []).extend(paths)
        return source(cursor, table, paths)

    monkeypatch.setattr(scan, "source", counted)
    [step] = followed(folder, 7).steps
    assert [key["path"] for key in keys_of(step, "objects")] == ["p6"]
    assert {name: len(paths) for name, paths in opened.items()} == {"journal": 1, "branches": 1, "objects": 1}
    assert len(Views(Lake(str(folder))).take().tables["objects"].listed) == 11


def test_a_topic_has_the_history_tables_of_its_domains_and_no_derived_one() -> None:
    assert histories_in("repositories") == ("entities", "branches", "commits", "objects", "resets")
    assert histories_in("catalog")[0] == "entities"
    assert "objects" not in histories_in("catalog")
    assert not [name for name in histories_in("catalog") if SPECS[name].version]
