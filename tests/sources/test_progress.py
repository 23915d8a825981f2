"""Progress of a source for people: each step ends where its work ended."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from metajournal.commands.ingesting import _Lines, _show
from metajournal.sources.databases.source import Databases
from metajournal.sources.found import Progress
from metajournal.sources.plan import Change


def test_a_step_that_is_over_within_a_second_shows_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _Lines("shop", silent=False)
    for progress in (
        Progress("read tables", 5), Progress("read tables", 30), Progress("compare"), Progress("bring in", 0, 46),
        Progress("bring in", 46, 46),
    ):  # fmt: skip
        lines.tell(progress)
    lines.end()
    lines.end()
    assert capsys.readouterr().err.splitlines() == [
        "shop: read tables: 5", "shop: read tables: 30", "shop: compare", "shop: bring in: 0 of 46",
        "shop: bring in: 46 of 46",
    ]  # fmt: skip


def test_reading_a_database_counts_its_tables_and_ends_with_all_views(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("create table orders (id integer)")
        for number in range(3):
            connection.execute(f"create view v{number} as select id from orders")
    told = list[Progress]()
    list(Databases(f"sqlite:///{tmp_path}/shop.db").read(told.append))
    assert (told[0].doing, told[0].done) == ("read tables", 4)
    assert told[-1] == Progress("analyze views", 3, 3)


def test_what_is_released_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    none = {"count": 0, "first": []}
    answer = {
        **{str(word): none for word in Change}, "released": {"count": 1, "first": ["dataset:shop/orders"]}, "runs": 1,
        "dry_run": False, "unchanged": 3, "source": "shop", "seconds": 0.1, "unselected": 0, "other_sources": {},
        "problems": [], "refused": [], "kept": 0,
    }  # fmt: skip
    _show(answer)
    shown = capsys.readouterr().out
    assert "shop: 1 released, 1 run, 3 unchanged" in shown
    assert "the entity stays, since somebody else registered or describes it" in shown
    _show({**answer, "released": none})
    assert "the entity stays" not in capsys.readouterr().out


def test_a_name_of_several_lines_makes_no_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    none = {"count": 0, "first": []}
    forged = "a\n  registered: dataset:shop/forged"
    answer = {
        **{str(word): none for word in Change}, "runs": 0, "dry_run": False, "unchanged": 3, "source": "shop",
        "seconds": 0.1, "unselected": 0, "other_sources": {}, "problems": [{"what": forged, "why": forged}],
        "refused": [{"entity": "dataset:a/b", "why": forged}], "kept": 0,
    }  # fmt: skip
    _show(answer)
    lines = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["shop", "  not read", "  Not everything could be read.", "  refused"]
    _Lines("shop", silent=False).tell(Progress(f"read {forged}", 5))
    assert len(capsys.readouterr().err.splitlines()) == 1
