"""Histories that somebody made to be dear: the pass gets through them in bounded time, in pieces that end.

The bounds are of processor time of this process, several times what it takes.
"""

from __future__ import annotations

import random
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
from tests.faults.scale import LONG
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
def test_criss_cross_merges_of_any_depth_end(tmp_path: Path) -> None:
    history = History.at(tmp_path)
    history.branch("a")
    history.write("a", ["base"])
    history.branch("b", history.commit("a"))
    levels = 10_000 if LONG else 1_000
    for level in range(levels):
        for branch in "ab":
            if level % 100 == 0:
                history.write(branch, [f"{branch}{level}", "both"], f"{branch}{level}")
                history.commit(branch)
        left, right = history.heads["a"], history.heads["b"]
        history.merge("a", right)
        history.merge("b", left)
    history.store()
    with within(levels * 0.1):
        took = made(history.lake)
    assert max(took) < 60
    rows = told(history.lake)
    assert len(rows) == 1 + 2 * levels + 2 * levels // 100
    expected = {"base", "both", *(f"{branch}{level}" for branch in "ab" for level in range(0, levels, 100))}
    assert content(history.lake, rows[-1]) == expected
    assert content(history.lake, rows[-2]) == expected
    # For eight levels each side keeps its own value of the path in conflict; beyond, the newest base alone counts.
    assert rows[-1]["root"] == rows[-2]["root"]
    written_last = levels - 100
    place = 1 + 2 * written_last + 2 * (written_last // 100)  # of both sides' last commits; their merges come next
    assert [row["conflicts"] for row in rows[place + 2 : place + 4]] == [1, 1]
    assert rows[place + 3]["root"] != rows[place + 2]["root"]


@pytest.mark.thorough
def test_many_bases_are_as_one(tmp_path: Path) -> None:
    bases = 1_000 if LONG else 300
    history = History.at(tmp_path)
    history.branch("root")
    history.write("root", ["base"])
    root = history.commit("root")
    tips = []
    for number in range(bases):
        history.branch("tip", root)
        history.write("tip", [f"{number:04}"])
        tips.append(history.commit("tip"))
    for branch in "ab":
        history.branch(branch, root)
        for tip in tips:
            history.merge(branch, tip)
        history.write(branch, [branch])
        history.commit(branch)
    left, right = history.heads["a"], history.heads["b"]
    for _ in range(20):
        history.branch("a", left)
        history.merge("a", right)
    history.store()
    with within(bases / 5):
        took = made(history.lake)
    assert max(took) < bases / 16
    rows = told(history.lake)
    assert content(history.lake, rows[-1]) == {"base", "a", "b", *(f"{number:04}" for number in range(bases))}
    assert {row["added"] for row in rows[-20:]} == {1}


@pytest.mark.thorough
def test_a_hundred_thousand_partial_resets_of_one_area_are_looked_through_once(tmp_path: Path) -> None:
    rng = random.Random(7)
    history = History.at(tmp_path)
    history.branch("main")
    standing: dict[str, int] = {}
    for _ in range(20):
        paths = rng.sample([f"{number % 50:02}/{number:05}" for number in range(20_000)], 500)
        history.write("main", paths)
        standing |= dict.fromkeys(paths, 0)
        dropped = set()
        for number in range(5_000):
            if number % 100:
                path = (
                    rng.choice(paths) if number % 3 == 0 else f"{rng.randrange(50):02}/{rng.randrange(90_000, 99_999)}"
                )
                history.reset("main", path, is_prefix=False)
                dropped.add(path)
            else:
                prefix = f"{rng.randrange(50):02}/{rng.randrange(200):03}"
                history.reset("main", prefix)
                dropped |= {path for path in standing if path.startswith(prefix)}
        standing = {path: 0 for path in standing if path not in dropped}
    history.commit("main")
    history.store()
    with within(60):
        made(history.lake)
    (row,) = told(history.lake)
    assert content(history.lake, row) == {*standing}
    assert (row["added"], row["objects"]) == (len(standing), len(standing))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "sizes",
    [
        [1, 2_000] * 40,
        [2_000, 1, 1, 1] * 25,
        [*range(1, 200, 4), *range(200, 0, -4)],
        [4 ** (n % 6) for n in range(120)],
        [4 ** (n % 6) - 1 or 1 for n in range(120)],
        [900 + n * 7 % 200 for n in range(100)],
    ],
    ids=["by-turns", "one-large", "up-and-down", "powers", "below-powers", "about-alike"],
)  # fmt: skip
@pytest.mark.parametrize("resets", [False, True], ids=["plain", "with-resets"])
def test_commits_of_any_sizes_keep_few_layers_and_write_few_rows(
    tmp_path: Path, sizes: list[int], resets: bool
) -> None:
    rng = random.Random(3)
    history = History.at(tmp_path)
    history.branch("main")
    paths = [f"{number:05}" for number in range(30_000)]
    there: set[str] = set()
    for number, size in enumerate(sizes):
        some = rng.sample(paths, size)
        history.write("main", some, str(number))
        there |= {*some}
        if resets:
            history.write("main", ["x/1"])
            history.reset("main", "x/")
        history.commit("main")
    history.store()
    with within(60):
        made(history.lake)
    rows = told(history.lake)
    assert content(history.lake, rows[-1]) == there
    assert max(len(row["layers"]) for row in rows) <= 24
    written = sum(history.lake.tables["trees"].delta.get_add_actions(flatten=True)["num_records"].to_pylist())
    assert written <= 8 * sum(sizes)
