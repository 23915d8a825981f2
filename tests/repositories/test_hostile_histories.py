"""Histories that somebody made to be dear: the pass gets through them in bounded time, in pieces that end.

The bounds are of processor time of this process, several times what it takes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from metajournal.domains.repositories.layers import Contents, Layer
from metajournal.lake.tables import Lake
from metajournal.streaming.derived.committing import commit, tables_of
from metajournal.streaming.derived.earlier import EarlierRows, Memories
from metajournal.streaming.derived.files import StoredFiles
from metajournal.streaming.derived.functions import DERIVED
from metajournal.streaming.derived.making import make_piece
from tests.repositories.plain_rows import KEY, History

OWNED = DERIVED["trees"]


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


def made(lake: Lake) -> list[float]:
    """Make all; gives the processor time of each piece."""
    took: list[float] = []
    memories, upto = Memories(), {KEY: lake.journal.mark(KEY)}
    while True:
        began = time.process_time()
        tables = tables_of(OWNED, lake)
        offer = make_piece(OWNED, tables, upto, StoredFiles(lake.path, {}), memories=memories)
        if offer is None:
            return took
        assert commit(offer, tables)
        took.append(time.process_time() - began)


def told(lake: Lake) -> list[dict[str, Any]]:
    """What is told of each commit, in the order of positions."""
    rows: list[dict[str, Any]] = lake.tables["commit_trees"].query("*", "true order by logical_timestamp")
    return rows


def content(lake: Lake, row: dict[str, Any], repo: str = "r1") -> set[str]:
    """The paths that a commit contains."""
    held = [Layer.of(*one) for one in zip(row["layers"], row["layer_rows"], strict=True)]
    reads = EarlierRows(OWNED.derived, tables_of(OWNED, lake), KEY, 1 << 62, 1 << 62)
    rows = Contents(reads, "default", repo).overlaid(held, [])
    return {one["path"] for one in rows.to_dicts() if not one["deleted"]}


@pytest.mark.long
@pytest.mark.thorough
def test_ten_thousand_levels_of_criss_cross_merges_end(tmp_path: Path) -> None:
    history = History.at(tmp_path)
    history.branch("a")
    history.write("a", ["base"])
    history.branch("b", history.commit("a"))
    levels = 1_000
    for level in range(levels):
        for branch in "ab":
            if level % 100 == 0:
                history.write(branch, [f"{branch}{level}", "both"], f"{branch}{level}")
                history.commit(branch)
        left, right = history.heads["a"], history.heads["b"]
        history.merge("a", right)
        history.merge("b", left)
    history.store()
    with within(400):
        took = made(history.lake)
    assert max(took) < 60
    rows = told(history.lake)
    assert len(rows) == 1 + 2 * levels + 2 * levels // 100
    expected = {"base", "both", *(f"{branch}{level}" for branch in "ab" for level in range(0, levels, 100))}
    assert content(history.lake, rows[-1]) == expected
    # For eight levels each side keeps its own value of the path in conflict; beyond, the newest base alone counts.
    assert rows[-1]["root"] == rows[-2]["root"]
    written_last = levels - 100
    place = 1 + 2 * written_last + 2 * (written_last // 100)  # of both sides' last commits; their merges come next
    assert [row["conflicts"] for row in rows[place + 2 : place + 4]] == [1, 1]
    assert rows[place + 3]["root"] != rows[place + 2]["root"]
