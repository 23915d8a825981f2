"""Threads that share what is kept of repositories in memory, and how little of it may be kept."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from metajournal.domains.repositories import events as e
from metajournal.domains.repositories.contents import Contents
from metajournal.domains.repositories.graph import Graphs
from metajournal.domains.repositories.kept_layers import KeptLayers
from metajournal.domains.repositories.queries import RepositoryQueries
from metajournal.domains.repositories.questions import Ref
from metajournal.domains.repositories.refs import KeptRows
from metajournal.domains.repositories.urns import branch_urn, repository_urn
from metajournal.gateway.server import serving_settings
from metajournal.lake.tables import Lake
from metajournal.schemas.positions import position
from metajournal.schemas.settings import Settings
from metajournal.schemas.topics import TopicNames
from metajournal.streaming.derived.committing import fill
from metajournal.streaming.derived.files import StoredFiles
from tests.builders import record_of
from tests.properties import examples
from tests.streaming.harness import Fold

TOPIC = "metajournal.journal.repositories"
KEY = (TOPIC, 0)
REPOSITORIES = ("r1", "r2", "r3")
THREADS = 8
PATHS = 600
ONE_LAYER = PATHS * 2 * 57
"""Bytes that have room for one layer, and not for two."""


def layer(number: int, rows: int = 100) -> pl.DataFrame:
    """Rows of a layer that tell its number."""
    return pl.DataFrame(
        {
            "path": [f"{number:04}/{row:04}" for row in range(rows)], "deleted": [False] * rows,
            "logical_timestamp": [number] * rows, "seq": [0] * rows, "content": [b"x" * 16] * rows, "size": [1] * rows,
        }
    )  # fmt: skip


@pytest.fixture
def _often_switched() -> Iterator[None]:
    """Threads take turns after each few steps, so that what they do to each other is seen."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(ask: Callable[[int], Any]) -> list[Any]:
    """What each of eight threads is answered that begin together."""
    begin = threading.Barrier(THREADS)

    def asked(number: int) -> Any:
        begin.wait(60)
        return ask(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return [one.result(120) for one in [pool.submit(asked, number) for number in range(THREADS)]]


@pytest.mark.thorough
@pytest.mark.usefixtures("_often_switched")
def test_layers_come_and_go_while_others_are_looked_up() -> None:
    kept = KeptLayers(layer(0).height * 57 * 3)
    layers = [layer(number) for number in range(6)]

    def ask(thread: int) -> int:
        numbers = Random(thread).choices(range(len(layers)), k=examples(3_000))
        for number in numbers:
            rows = kept.get(number)
            if rows is None:
                rows = kept.put(number, layers[number])
            assert rows["logical_timestamp"][0] == number
        return len(numbers)

    assert at_once(ask) == [examples(3_000)] * THREADS
    assert kept._size_bytes == sum(one.height * 57 + one["path"].str.len_bytes().sum() for one in kept._held.values())
    assert kept._size_bytes <= kept._most_bytes


def test_a_layer_is_read_by_one_thread_for_all() -> None:
    kept, reads, are_read = KeptLayers(), list[int](), threading.Event()

    def read() -> pl.DataFrame:
        reads.append(threading.get_ident())
        are_read.wait(0.2)  # time for the others to come by
        return layer(7)

    found = at_once(lambda _: kept.get_or_read("seven", read))
    assert len(reads) == 1
    assert all(one is found[0] for one in found)


def test_no_layer_is_read_for_which_there_is_no_room() -> None:
    assert KeptLayers(ONE_LAYER).takes(PATHS)
    assert not KeptLayers(ONE_LAYER).takes(PATHS + 1)
    assert KeptLayers().takes(1 << 20)
    assert not KeptLayers(1 << 40).takes((1 << 20) + 1)


def test_layers_of_a_commit_are_told_though_another_thread_forgets_them() -> None:
    """The dictionary is emptied in the moment after it was filled."""

    class Emptied(dict[Any, Any]):
        def __setitem__(self, key: Any, value: Any) -> None:
            """Nothing stays."""

    class Moment:
        tenant, repo, derived_below = "default", "r1", 1

        def rows(self, *_: Any) -> pl.DataFrame:
            made: dict[str, list[Any]] = {
                name: [0]
                for name in ("logical_timestamp", "objects", "bytes", "added", "changed", "removed", "conflicts")
            }
            made |= {name: [""] for name in ("conflicting", "root", "content_id")}
            urn = f"commit:r1/{'0' * 64}"
            return pl.DataFrame({"commit": [urn], "layers": [["trees/5"]], "layer_rows": [[3]], **made})

    assert Contents(Moment(), Emptied())._layers("0" * 64) is not None  # type: ignore[arg-type]


class Lakes:
    """A lake of three repositories, each with three commits of hundreds of paths, and the queries over it."""

    def __init__(self, folder: Path) -> None:
        events: list[Any] = []
        for repo in REPOSITORIES:
            events.append(e.RepositoryCreated(repository_urn(repo), "main", "s3://b"))
            main = branch_urn(repo, "main")
            for number, step in enumerate((1, 2, 3)):
                paths = [f"{repo}/{path:04}" for path in range(0, PATHS, step)]
                some = [
                    {"path": path, "size": 3, "checksum": f"c{number}", "address": f"s3://b/{path}"} for path in paths
                ]
                events += [e.ObjectsWritten(main, some), e.Committed(main, f"{number}")]
        self.count = len(events)
        fold = Fold(folder, 1, topic=TOPIC, joined=("repositories",))
        fold.batch([record_of(event, number) for number, event in enumerate(events)])
        lake = Lake(str(folder))
        lake.include(("repositories",))
        lake.refresh()
        fill(lake, {"trees": {KEY: lake.journal.mark(KEY)}}, StoredFiles(lake.path, {}))
        self._folder = str(folder)

    def queries(self, kept_bytes: int) -> RepositoryQueries:
        return RepositoryQueries(Lake(self._folder), TopicNames(), {TOPIC: 1}, kept_bytes=kept_bytes)

    def questions(self) -> list[Callable[[RepositoryQueries], Any]]:
        """Questions about each repository, now and as at each of its commits."""
        found: list[Callable[[RepositoryQueries], Any]] = []
        each = self.count // len(REPOSITORIES)
        for place, repo in enumerate(REPOSITORIES):
            for behind in (each, each - 2):
                found += _then(repo, {KEY: position(1, place * each + behind)})
            found += _now(repo)
        return found


@pytest.mark.thorough
def test_eight_threads_are_answered_as_one_is_with_room_for_hardly_anything(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path)
    questions = lakes.questions()
    alone = lakes.queries(1 << 28)
    expected = [ask(alone) for ask in questions]
    assert len(alone._kept._held) >= len(REPOSITORIES), "the differences are looked up in layers"
    shared = lakes.queries(ONE_LAYER)
    shared._graphs, shared._rows = Graphs(1), KeptRows(1)

    def ask(thread: int) -> int:
        order = [*range(len(questions))] * 2
        Random(thread).shuffle(order)
        for number in order:
            assert questions[number](shared) == expected[number], number
        return len(order)

    assert at_once(ask) == [2 * len(questions)] * THREADS
    assert shared._kept._size_bytes <= ONE_LAYER
    ((_, graph),) = shared._graphs._held.values()
    assert shared._graphs._commits == len(graph)


def test_a_process_that_serves_keeps_less() -> None:
    own = Settings()
    assert serving_settings(own).client.kept_bytes * 8 == own.client.kept_bytes
    code = "from metajournal.commands.serving import give_memory_back as g; g(); import pyarrow as pa; " \
           "print(pa.default_memory_pool().backend_name)"  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["system"]


Question = Callable[[RepositoryQueries], Any]


def _then(repo: str, cut: dict[tuple[str, int], int]) -> list[Question]:
    return [
        lambda q: q.log("default", repo, Ref.of("main"), as_at=cut),
        lambda q: q.branches("default", repo, as_at=cut),
        lambda q: q.diff("default", repo, Ref.of("main~1"), Ref.of("main"), as_at=cut),
        lambda q: q.list_objects("default", repo, Ref.of("main"), limit=5, as_at=cut),
    ]


def _now(repo: str) -> list[Question]:
    return [
        lambda q: q.diff("default", repo, Ref.of("main~2"), Ref.of("main"), limit=10_000),
        lambda q: q.repository("default", repo),
    ]
