"""Common prefixes of many objects: one path stands for the others of its group, and the answer is the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.commit_lake import REPO, TOPIC, CommitLake, path_names
from metajournal.domains.repositories import listing
from metajournal.domains.repositories.queries import RepositoryQueries
from metajournal.domains.repositories.questions import Ref
from metajournal.lake.tables import Lake
from metajournal.schemas.topics import TopicNames

OBJECTS = 30_000
BRANCH = Ref.of("main")


def filled(folder: Path, *, deleted: int = 0) -> tuple[RepositoryQueries, list[str]]:
    """Objects in random order in three batches, some of them twice; and their paths."""
    numbers = np.arange(OBJECTS)
    order = np.random.default_rng(3).permutation(numbers)
    made = CommitLake(folder)
    made.create()
    for part in (order[:12_000], order[12_000:], order[:6_000]):
        made.write(part)
        made.batch()
    if deleted:
        made.write(numbers[2_500 : 2_500 + deleted], deleted=True)
        made.batch()
    gone = {*range(2_500, 2_500 + deleted)}
    paths = sorted(path_names(np.array([one for one in range(OBJECTS) if one not in gone])).to_pylist())
    return RepositoryQueries(Lake(str(folder)), TopicNames(), {TOPIC: 1}), paths


def plainly(paths: Sequence[str], prefix: str, delimiter: str, after: str) -> list[str]:
    """What a listing says, path by path."""
    names = set()
    for path in paths:
        if path.startswith(prefix) and path > after:
            place = path.find(delimiter, len(prefix))
            name = path if place < 0 else path[: place + len(delimiter)]
            if name != after:
                names.add(name)
    return sorted(names)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[RepositoryQueries, list[str]]:
    """A lake from which nothing is deleted."""
    return filled(tmp_path_factory.mktemp("plain"))


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each group whether few of its rows stood for all."""
    found: list[bool] = []
    of = listing._FirstBelow.of

    def noted(self: listing._FirstBelow, paths: object) -> object:
        places = of(self, paths)  # type: ignore[arg-type]
        found.append(places is not None)
        return places

    monkeypatch.setattr(listing._FirstBelow, "of", noted)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("delimiter", ["/", "00", "1.parquet", "é"])
@pytest.mark.parametrize("prefix", ["", "data/", "data/00", "data/00007/", "é"])
def test_a_listing_by_common_prefixes_is_the_plain_one(
    plain: tuple[RepositoryQueries, list[str]], prefix: str, delimiter: str
) -> None:
    queries, paths = plain
    for after in ("", "data/", "data/00003/", "data/00003/part-00003500.parquet", "data/00028/part-9", "z"):
        expected = plainly(paths, prefix, delimiter, after)
        found, place = list[str](), after
        for _ in range(4):
            page = queries.list_objects(
                "default", REPO, BRANCH, prefix=prefix, delimiter=delimiter, after=place, limit=11
            )
            found += [one.path for one in page.items]
            place = page.after or ""
            if page.after is None:
                break
        assert found == expected[: len(found)]
        assert len(found) == min(len(expected), 44)


@pytest.mark.thorough
def test_few_paths_are_looked_at_where_nothing_is_deleted(
    plain: tuple[RepositoryQueries, list[str]], looked: list[bool]
) -> None:
    queries, paths = plain
    page = queries.list_objects("default", REPO, BRANCH, prefix="data/", delimiter="/", limit=1_000)
    assert [one.path for one in page.items] == plainly(paths, "data/", "/", "")
    assert looked.count(True) >= 3
    assert all(looked)


@pytest.mark.thorough
@pytest.mark.parametrize("deleted", [3, 1_500])
def test_what_is_deleted_takes_its_common_prefix_away(tmp_path: Path, looked: list[bool], deleted: int) -> None:
    queries, paths = filled(tmp_path, deleted=deleted)
    page = queries.list_objects("default", REPO, BRANCH, prefix="data/", delimiter="/", limit=1_000)
    assert [one.path for one in page.items] == plainly(paths, "data/", "/", "")
    assert len(page.items) == (30 if deleted == 3 else 29)
    assert not any(looked)
